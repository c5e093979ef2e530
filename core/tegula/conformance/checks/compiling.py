"""Level 1: the compiler. No device is needed; the first known target stands for all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from tegula.conformance.needs import missing
from tegula.conformance.samples import STRUCTURAL, is_foreign, sample
from tegula.conformance.session import compile_module
from tegula.conformance.testing import Context, Failed, Test, Unsupported
from tegula.conformance.values import has_meaning
from tegula.errors import OptionError
from tegula.ir import DTYPES, OPS, Module
from tegula.ir.opdef import IRError
from tegula.ir.types import f32, i32
from tegula.plugin.errors import UnsupportedError
from tegula.plugin.records import Artifact, Capabilities, Options


def target_of(context: Context) -> Any:
    """The target of the device, or the first known one where there is no device."""
    from tegula.plugin.registry import registry

    backend = registry.backend(context.backend)
    if backend.spec.driver is not None and backend.available:
        return backend, backend.info(context.device).target
    return backend, backend.compiler.targets()[0]


def capabilities(context: Context) -> None:
    """The record is well formed, the same every time, and speaks only of what the IR has."""
    backend, target = target_of(context)
    record = backend.compiler.capabilities(target)
    if not isinstance(record, Capabilities):
        raise Failed(f"capabilities() gives {type(record).__name__}")
    json.dumps(record.to_json())
    if record.digest() != backend.compiler.capabilities(target).digest():
        raise Failed("two calls of capabilities() give different records")
    unknown = [n for n in record.ops if n not in OPS and "." not in n]
    if unknown:
        raise Failed(f"ops that the IR does not have: {', '.join(unknown)}")
    for name in record.dtypes:
        if name not in DTYPES:
            raise Failed(f"dtype '{name}' does not exist")
    from tegula.ir.ops.memory import ATOMIC_KINDS

    strange = set(record.atomics) - {*ATOMIC_KINDS, "cas"}
    if strange:
        raise Failed(f"unknown kinds of atomics: {', '.join(sorted(strange))}")
    if not record.ops:
        raise Failed("no op is declared")


def targets(context: Context) -> None:
    """Every known target compiles a small kernel, without its device."""
    backend, _ = target_of(context)
    known = backend.compiler.targets()
    if not known:
        raise Failed("targets() is empty")
    for target in list(known)[:4]:
        artifact = compile_module(backend, target, sample("add", f32))
        check_artifact(artifact, sample("add", f32))


def check_artifact(artifact: Artifact, module: Module) -> None:
    """The artifact says what the kernel is."""
    (kernel,) = module.kernels
    params = tuple(str(p.type) for p in kernel.body.args)
    if artifact.params != params:
        raise Failed(f"Artifact.params is {artifact.params}, the kernel's are {params}")
    if not artifact.data:
        raise Failed("Artifact.data is empty")


def declared(context: Context, name: str) -> None:
    """What is declared compiles, and what is not declared is refused by `UnsupportedError`."""
    backend, target = target_of(context)
    record = backend.compiler.capabilities(target)
    compiled = 0
    for dtype in DTYPES.values():
        if not has_meaning(dtype):
            continue
        for attrs in _variants(name):
            try:
                module = sample(name, dtype, **attrs)
            except IRError:
                continue
            reason = missing(record, module)
            if is_foreign(name) and not reason:
                compiled += 1
                continue
            compiled += not reason
            _judge(backend, target, module, f"{name} of {dtype} {attrs or ''}".rstrip(), reason)
    if not compiled:
        raise Unsupported(f"op '{name}' is not declared")


def _variants(name: str) -> list[dict[str, Any]]:
    """Attribute values that a capability record tells apart."""
    from tegula.ir.ops.memory import ATOMIC_KINDS

    if name == "atomic_rmw":
        return [{"kind": kind} for kind in ATOMIC_KINDS]
    return [{}]


def _judge(backend: Any, target: Any, module: Module, what: str, reason: str) -> None:
    try:
        artifact = compile_module(backend, target, module)
    except UnsupportedError as error:
        if not reason:
            raise Failed(f"{what} is declared, yet refused: {error}") from None
        if not error.why or error.backend != backend.name:
            raise Failed(f"{what}: the error does not say who refuses and why") from None
        return
    except Exception as error:
        if reason:
            raise Failed(
                f"{what} is not declared; that has to be an UnsupportedError, not "
                f"{type(error).__name__}: {error}"
            ) from None
        raise
    if reason:
        raise Failed(f"{what} compiles, yet is not declared ({reason})")
    check_artifact(artifact, module)


SEVERAL = (
    ("add", f32),
    ("reduce", f32),
    ("dot", f32),
    ("scan", i32),
    ("select", f32),
    ("exp", f32),
)


def _several(record: Capabilities) -> list[Module]:
    modules = [sample(name, dtype) for name, dtype in SEVERAL]
    return [m for m in modules if not missing(record, m)]


def deterministic(context: Context) -> None:
    """One kernel gives one artifact, also in another process."""
    backend, target = target_of(context)
    record = backend.compiler.capabilities(target)
    first = [compile_module(backend, target, m) for m in _several(record)]
    again = [compile_module(backend, target, m) for m in _several(record)]
    for a, b in zip(first, again):
        if (a.data, a.params, a.metadata, a.entry) != (b.data, b.params, b.metadata, b.entry):
            raise Failed(f"compiling '{a.entry}' twice gives two artifacts")
    for seed in ("1", "7"):
        other = _digests_elsewhere(context.backend, seed)
        mine = [_digest(a) for a in first]
        if other["artifacts"] != mine:
            raise Failed("another process makes another artifact of the same kernel")
        if other["fingerprint"] != backend.compiler.fingerprint():
            raise Failed("another process gives another fingerprint")


def _digest(artifact: Artifact) -> str:
    import hashlib

    text = json.dumps([artifact.entry, artifact.params, artifact.metadata], sort_keys=True)
    return hashlib.sha256(artifact.data + text.encode()).hexdigest()


def digests(backend_name: str) -> dict[str, Any]:
    """Digests of several artifacts and the fingerprint, for comparison between processes."""
    backend, target = target_of(Context(backend_name))
    record = backend.compiler.capabilities(target)
    made = [_digest(compile_module(backend, target, m)) for m in _several(record)]
    return {"artifacts": made, "fingerprint": backend.compiler.fingerprint()}


def _digests_elsewhere(backend: str, hash_seed: str) -> dict[str, Any]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    code = (
        "import json, sys; from tegula.conformance.checks.compiling import digests; "
        "print(); print(json.dumps(digests(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, backend],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
    )
    if done.returncode != 0:
        raise Failed(f"compiling in another process failed: {done.stderr[-400:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def options(context: Context) -> None:
    """Options are checked, join the key, and what is called ignored changes nothing."""
    backend, target = target_of(context)
    plain = backend.compiler.options(target, {})
    if not isinstance(plain, Options):
        raise Failed(f"options() gives {type(plain).__name__}, not Options")
    if hash(plain) != hash(backend.compiler.options(target, {})):
        raise Failed("equal options have different hashes")
    other = {
        "num_warps": 2 * plain.num_warps,
        "num_stages": plain.num_stages + 1,
        "enable_fp_fusion": not plain.enable_fp_fusion,
        "debug": not plain.debug,
    }
    module = sample("add", f32)
    base = compile_module(backend, target, module)
    for name, value in other.items():
        changed = backend.compiler.options(target, {name: value})
        joins = changed.key() != plain.key()
        if joins == (name in type(plain).ignored):
            raise Failed(f"option '{name}' {'joins' if joins else 'does not join'} the key")
        if not joins and _digest(compile_module(backend, target, module, {name: value})) != _digest(
            base
        ):
            raise Failed(f"option '{name}' is called ignored, yet it changes the artifact")
    for name, value in (("num_warps", "four"), ("debug", "yes")):
        try:
            backend.compiler.options(target, {name: value})
        except OptionError:
            continue
        raise Failed(f"option {name}={value!r} is accepted")


def fingerprint(context: Context) -> None:
    """The fingerprint names versions, is stable, and is part of the backend's key."""
    backend, _ = target_of(context)
    text = backend.compiler.fingerprint()
    if not isinstance(text, str) or not text.strip():
        raise Failed("fingerprint() is empty")
    if text != backend.compiler.fingerprint():
        raise Failed("two calls of fingerprint() differ")
    if not any(c.isdigit() for c in text):
        raise Failed(f"fingerprint() holds no version: {text!r}")
    if text not in backend.fingerprint():
        raise Failed("the compiler's fingerprint is not part of the backend's")


def unchanged(context: Context) -> None:
    """Compiling changes neither the module nor anything that a later compilation sees."""
    backend, target = target_of(context)
    module = sample("reduce", f32)
    text = str(module)
    first = compile_module(backend, target, module)
    if str(module) != text:
        raise Failed("compiling changed the module that was given")
    compile_module(backend, target, sample("add", f32))
    if _digest(compile_module(backend, target, module)) != _digest(first):
        raise Failed("a compilation in between changes the artifact of the same kernel")


def distinct(context: Context) -> None:
    """Kernels of one name and different bodies give different artifacts."""
    backend, target = target_of(context)
    record = backend.compiler.capabilities(target)
    modules = _several(record)
    found = {_digest(compile_module(backend, target, m)) for m in modules}
    if len(found) != len(modules):
        raise Failed("two different kernels of one name give the same artifact")


CHECKS = (capabilities, targets, deterministic, options, fingerprint, unchanged, distinct)


def tests() -> Iterator[Test]:
    """All tests of this module."""
    for check in CHECKS:
        yield Test(f"compile.{check.__name__}", 1, check, timeout=180)
    for name in OPS:
        if name not in STRUCTURAL:
            yield Test(
                f"compile.op.{name}", 1, partial(declared, name=name), requires=(f"op={name}",),
                timeout=180,
            )  # fmt: skip
