"""From a specialised kernel to an artifact: the cache, then frontend, passes and the backend's
emitter.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tegula.config import config
from tegula.errors import CompilationError, OffsetWarning
from tegula.frontend.function import DeviceFunction
from tegula.runtime import cache, stages

if TYPE_CHECKING:
    from tegula.ir.core import Module
    from tegula.plugin.backend import Backend
    from tegula.plugin.records import Artifact, CompileContext

_HEADER_BYTES = 4


@dataclass(frozen=True)
class Request:
    """Everything that one compilation depends on."""

    fn: DeviceFunction
    types: Mapping[str, Any]
    constants: Mapping[str, Any]
    attrs: Mapping[str, Mapping[str, Any]]
    context: CompileContext
    backend: Backend
    name: str
    version: str = ""
    readonly: tuple[str, ...] = ()
    """Arguments that are pointers to constants because the array at hand is read-only."""


@dataclass
class Timing:
    """Seconds spent per stage."""

    stages: dict[str, float] = field(default_factory=dict)
    hit: bool = False

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {1e3 * t:.2f} ms" for name, t in self.stages.items())
        return f"{'cache hit' if self.hit else 'compiled'}: {parts}"


def type_text(kind: Any) -> str:
    """A stable text for an argument's type, which may be a tuple of types."""
    if isinstance(kind, tuple):
        name = type(kind).__name__
        return f"{name}({', '.join(map(type_text, kind))})"
    return "constant" if kind is None else str(kind)


@functools.lru_cache(maxsize=16)
def files_fingerprint(package: str) -> str:
    """Hash of a package's files by size and time: an edited backend makes new code."""
    if package == "tegula":
        return ""  # covered by the frontend's own fingerprint
    module = sys.modules.get(package)
    parts = []
    for root in getattr(module, "__path__", ()):
        for path in sorted(Path(root).rglob("*.py")):
            stat = path.stat()
            parts.append(f"{path.relative_to(root)}:{stat.st_size}:{stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def cache_key(request: Request) -> str | None:
    """Hash of everything the artifact depends on; None if a constant has no stable text."""
    from tegula import __version__
    from tegula.frontend import constant_key, frontend_fingerprint, source_key

    context = request.context
    try:
        constants = {name: constant_key(value) for name, value in request.constants.items()}
    except TypeError:
        return None
    parts = (
        ("tegula", __version__),
        ("frontend", frontend_fingerprint()),
        ("backend", request.backend.fingerprint()),
        (
            "backend files",
            files_fingerprint(type(request.backend.compiler).__module__.partition(".")[0]),
        ),
        ("target", context.target.digest()),
        ("options", context.options.key()),
        ("settings", config.code_settings()),
        ("source", source_key(request.fn)),
        ("name", request.name),
        ("version", request.version),
        ("types", [(name, type_text(kind)) for name, kind in request.types.items()]),
        ("attrs", sorted(request.attrs.items())),
        ("constants", sorted(constants.items())),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def compile_artifact(request: Request) -> tuple[Artifact, str | None, Timing]:
    """The artifact, from the disk cache if it is there; its key; and where the time went."""
    timing = Timing()
    with timing.stage("key"):
        key = cache_key(request)
    directory = _dump_directory(request, key)
    if key is not None and directory is None and not _shows_stages(request):
        with timing.stage("cache"):
            found = cache.load(key)
            artifact = None if found is None else _unpack(found)
        if artifact is not None:
            timing.hit = True
            _warn(artifact)
            return artifact, key, timing
    with _report(request, directory):
        artifact = _compile(request, timing)
    if key is not None:
        with timing.stage("store"):
            cache.store(key, _pack(artifact))
    _warn(artifact)
    return artifact, key, timing


def _warn(artifact: Artifact) -> None:
    """Tell what the frontend remarked when it was compiled, now or then."""
    for message in artifact.metadata.get("notes", ()):
        warnings.warn(message, OffsetWarning, stacklevel=2)


def build_module(request: Request, timing: Timing, notes: list[str] | None = None) -> Module:
    """Tile IR after all passes of the backend's pipeline; remarks are added to `notes`."""
    from tegula.frontend import compile_function
    from tegula.ir import print_module
    from tegula.passes.base import Pass, PassContext

    context = request.context
    try:
        with timing.stage("frontend"):
            module = compile_function(
                request.fn,
                request.types,
                request.constants,
                request.attrs,
                {
                    **context.options.to_json(),
                    "target": context.target,
                    "dtypes": context.capabilities.dtypes,
                    "notes": notes,
                },
            )
    except CompilationError as error:
        _add_notes(request, error)
        raise
    stages.record("tir", lambda: print_module(module))
    last: list[Any] = [module]

    def after(step: Pass, result: Module) -> None:
        if result is not last[0] or step.name in config.print_after:
            stages.record(f"tir.{step.name}", lambda: print_module(result))
            last[0] = result

    trace = PassContext(timings=[]) if config.debug >= 3 else None
    with timing.stage("passes"):
        result = request.backend.pipeline(context).run(
            module,
            verify=True if config.verify else None,
            ctx=trace,
            after=after if stages.active() else None,
        )
    if trace is not None and trace.timings:
        changed = [f"{t.name} {1e3 * t.seconds:.2f} ms" for t in trace.timings if t.changed]
        named = ", ".join(changed) or "none"
        log(3, lambda: f"{request.name}: passes that changed it: {named}")
    return result


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Put off Python's search for garbage: a compilation makes enough objects to begin one, which
    takes longer than many a kernel's passes, and finds little."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_no_collection()
def _compile(request: Request, timing: Timing) -> Artifact:
    notes: list[str] = []
    module = build_module(request, timing, notes)
    context = request.context
    with timing.stage("emit"):
        artifact = request.backend.compiler.emit(module, context.target, context.options)
    if notes:
        artifact = dataclasses.replace(artifact, metadata={**artifact.metadata, "notes": notes})
    return artifact


def _add_notes(request: Request, error: CompilationError) -> None:
    """Say which arguments are read-only where that may be the reason."""
    if request.readonly and "const" in str(error).lower():
        names = ", ".join(f"'{name}'" for name in request.readonly)
        error.add_note(
            f"argument{'s' if len(request.readonly) > 1 else ''} {names} of kernel "
            f"`{request.name}`: the array passed is read-only, so the kernel may not store to it; "
            "pass a writable array"
        )


def stage_texts(request: Request) -> dict[str, str]:
    """All stages of a compilation as text, by compiling once more."""
    texts: dict[str, str] = {}
    with stages.recording(texts.__setitem__):
        artifact = _compile(request, Timing())
    return {**texts, **artifact_text(artifact)}


def artifact_text(artifact: Artifact) -> dict[str, str]:
    """The artifact's own text, where it is one."""
    if artifact.kind.startswith("elf") or b"\0" in artifact.data[:4096]:
        return {}
    try:
        return {artifact.kind: artifact.data.decode()}
    except UnicodeDecodeError:
        return {}


# -------------------------------------------------------------------------------------------------
# Artifacts on disk: length of the header, header, data


def _pack(artifact: Artifact) -> bytes:
    header = json.dumps(
        {
            "kind": artifact.kind,
            "entry": artifact.entry,
            "params": list(artifact.params),
            "metadata": dict(artifact.metadata),
        }
    ).encode()
    return len(header).to_bytes(_HEADER_BYTES, "little") + header + artifact.data


def _unpack(raw: bytes) -> Artifact | None:
    from tegula.plugin.records import Artifact

    size = int.from_bytes(raw[:_HEADER_BYTES], "little")
    try:
        header = json.loads(raw[_HEADER_BYTES : _HEADER_BYTES + size])
        return Artifact(
            header["kind"],
            raw[_HEADER_BYTES + size :],
            header["entry"],
            tuple(header["params"]),
            header["metadata"],
        )
    except (ValueError, KeyError, TypeError):
        return None  # written by a version that packs otherwise


# -------------------------------------------------------------------------------------------------
# Dumps and debug output


def _selected(request: Request) -> bool:
    return not config.only or request.name in config.only


def _shows_stages(request: Request) -> bool:
    return (config.debug >= 4 or bool(config.print_after)) and _selected(request)


def _dump_directory(request: Request, key: str | None) -> Path | None:
    if not config.dump or not _selected(request):
        return None
    suffix = (key or hashlib.sha256(os.urandom(8)).hexdigest())[:10]
    return Path(config.dump) / f"{request.name}-{suffix}"


@contextlib.contextmanager
def _report(request: Request, directory: Path | None) -> Iterator[None]:
    """Record stages to files and to stderr, as the settings ask; do nothing if they do not."""
    shows = _shows_stages(request)
    if directory is None and not shows:
        yield
        return
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    count = 0

    def write(name: str, text: str) -> None:
        nonlocal count
        if directory is not None:
            suffix = stages.SUFFIXES.get(name, ".tir")
            stem = name.removeprefix("tir.") if name != "tir" else "frontend"
            (directory / f"{count:02d}-{stem}{suffix}").write_text(text)
        if shows and _shown(name):
            print(f"; {request.name}: {name}\n{text}", file=sys.stderr)
        count += 1

    with stages.recording(write):
        yield


def _shown(name: str) -> bool:
    if name.startswith("tir"):
        wanted = name.removeprefix("tir.") in config.print_after
        return wanted or config.debug >= (5 if name == "tir" else 6)
    return config.debug >= (7 if name == "asm" else 4)


def log(level: int, message: Callable[[], str]) -> None:
    """A line on stderr at this level of `TEGULA_DEBUG` or above; it is made there only."""
    if config.debug >= level:
        print(f"tegula: {message()}", file=sys.stderr)
