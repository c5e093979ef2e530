"""The typed records that make up the contract between core and plugins.

Records are frozen and check themselves when they are made, so a mistake shows up where it was
written. What a record means to the core is said at each field.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

from tegula.errors import OptionError, OptionValueError, nearest
from tegula.plugin.errors import RecordError

FEATURES = frozenset(
    {
        "atomic_subnormals",  # atomic sums of f32 neither take nor leave subnormal numbers for 0
        "async_copy",  # copies between memories that overlap with computation
        "cooperative",  # all programs of a grid can wait for each other
        "debug_info",  # code maps back to source lines
        "device_assert",
        "device_print",
        "graphs",  # launches can be recorded and replayed
        "inline_asm",
        "streams",  # launches return before the work is done
        "tensor_descriptor",  # descriptors are a hardware notion (they work everywhere)
        "unified_memory",  # the device reads and writes ordinary host memory
    }
)
"""Everything that `Capabilities.features` may name."""

LIMITS = frozenset(
    {
        "grid",  # programs along one axis
        "shared_bytes",
        "tile_elements",
        "vector_bits",
        "warp_size",
        "warps",
    }
)
"""Everything that `Capabilities.limits` may name."""

CORE_FEATURES: frozenset[str] = frozenset({"loops", "portable_math"})
"""What `BackendSpec.requires` may name: parts of the core that a backend cannot do without."""

HOST_DLPACK = 1
"""DLPack's device type of ordinary host memory."""

ANY = ("*",)
"""An op signature that stands for every combination of the target's dtypes."""

Kind = Literal["cpu", "gpu", "accelerator"]
Severity = Literal["ok", "warning", "problem"]
ProbeStatus = Literal["available", "unavailable"]

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_OBJECT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RecordError(message)


def _is_version(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(part, int) and part >= 0 for part in value)
    )


def json_copy(value: Any, what: str) -> Any:
    """A deep copy of `value` through JSON; a value that JSON cannot hold is a `RecordError`."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise RecordError(f"{what} has to be JSON-able: {error}") from None


def load_object(path: str) -> Any:
    """The object that a `"module:name"` string names; importing the module is what costs."""
    import importlib

    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


# -------------------------------------------------------------------------------------------------
# What a backend is


@dataclass(frozen=True)
class BackendSpec:
    """One backend, as its plugin module declares it. Making one does no input or output."""

    name: str
    """How users name it; equals the entry point's name."""
    api: tuple[int, int]
    """The contract it was written against: a literal, never the core's own constant."""
    ir: tuple[tuple[int, int], tuple[int, int]]
    """Oldest and newest IR version that its compiler reads, both inclusive; literals too."""
    compiler: str
    """`"module:Class"` of its `Compiler`; imported when something is compiled."""
    driver: str | None = None
    """`"module:Class"` of its `Driver`, or None where it only compiles."""
    kind: Kind = "accelerator"
    priority: int = 100
    """Among several available backends the highest is chosen; the CPU has 0."""
    requires: frozenset[str] = frozenset()
    dlpack: tuple[int, ...] = ()
    """DLPack device types whose memory its devices reach; 1 is host memory."""
    torch: str = ""
    """The type of torch's devices that it works on, where torch has one: `cpu` for the host's."""
    interface: str = ""
    """Attribute by which arrays in its devices' memory are known, where a protocol of its own
    exists; `Driver.describe` reads it, `Device.interface` makes it."""
    hardware: tuple[str, ...] = ()
    """Glob patterns of paths that exist where its hardware looks present: only for a warning."""
    summary: str = ""
    homepage: str = ""
    install_hint: str = ""

    def __post_init__(self) -> None:
        name = f"BackendSpec(name={self.name!r})"
        _require(
            isinstance(self.name, str) and _NAME.match(self.name) is not None,
            f"{name}: a backend's name is lower case letters, digits and underscores",
        )
        _require(_is_version(self.api), f"{name}: api is a pair like (0, 1), not {self.api!r}")
        _require(
            isinstance(self.ir, tuple)
            and len(self.ir) == 2
            and all(_is_version(v) for v in self.ir)
            and self.ir[0] <= self.ir[1],
            f"{name}: ir is a range like ((0, 1), (0, 1)), not {self.ir!r}",
        )
        for what, path in (("compiler", self.compiler), ("driver", self.driver)):
            if path is None and what == "driver":
                continue
            _require(
                isinstance(path, str) and _OBJECT_PATH.match(path) is not None,
                f'{name}: {what} is a string "module:Class", not {path!r}',
            )
        _require(
            self.kind in get_args(Kind),
            f"{name}: kind is one of {get_args(Kind)}, not {self.kind!r}",
        )
        _require(isinstance(self.priority, int), f"{name}: priority is an int")
        object.__setattr__(self, "requires", frozenset(self.requires))
        for what in ("dlpack", "hardware"):
            object.__setattr__(self, what, tuple(getattr(self, what)))
        _require(all(isinstance(t, int) for t in self.dlpack), f"{name}: dlpack holds ints")

    def to_json(self) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self),
            "requires": sorted(self.requires),
            "api": list(self.api),
            "ir": [list(v) for v in self.ir],
        }


Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Target:
    """What code is made for: an architecture of a backend, with the facts that shape the code.

    `Target("cpu", "x86-64-v4", {"triple": "...", "vector_bits": 512})`; the facts read as
    `target["triple"]` and take part in equality, hash and cache keys.
    """

    backend: str
    arch: str
    attrs: Mapping[str, Scalar] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _require(bool(self.backend) and bool(self.arch), "a Target needs a backend and an arch")
        for key, value in self.attrs.items():
            _require(
                isinstance(key, str) and isinstance(value, Scalar),
                f"Target attribute {key!r} has to be a string, number, bool or None: {value!r}",
            )
        object.__setattr__(self, "attrs", MappingProxyType(dict(sorted(self.attrs.items()))))

    def __getitem__(self, key: str) -> Any:
        return self.attrs[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.attrs.get(key, default)

    def __str__(self) -> str:
        return f"{self.backend}:{self.arch}"

    def __reduce__(self) -> tuple[Any, ...]:  # mapping proxies do not pickle
        return Target, (self.backend, self.arch, dict(self.attrs))

    def to_json(self) -> dict[str, Any]:
        return {"backend": self.backend, "arch": self.arch, "attrs": dict(self.attrs)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Target:
        return cls(data["backend"], data["arch"], dict(data["attrs"]))

    def digest(self) -> str:
        """A short stable text that differs whenever anything about the target does."""
        return self._own_digest

    @functools.cached_property
    def _own_digest(self) -> str:
        return _digest(self.to_json())


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


Signature = tuple[str, ...]


@dataclass(frozen=True)
class Capabilities:
    """What a backend's compiler can do for one target; computed from its lowering table.

    `ops` maps an op's name to dtype signatures. A signature names the dtype of each operand; one
    name alone stands for "all operands of this dtype"; `ANY` for everything among `dtypes`.
    """

    target: Target
    dtypes: frozenset[str]
    ops: Mapping[str, frozenset[Signature]] = field(default_factory=dict, hash=False)
    dot: frozenset[tuple[str, str, str]] = frozenset()
    """Combinations (lhs, rhs, accumulator) that `dot` takes."""
    atomics: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """Kind of atomic (`add`, `max`, `cas`, ...) to the dtypes it works on."""
    features: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict, hash=False)
    numerics: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """How results may differ from the IR's meaning: `fma`, `denormals`, ULP bounds per op, ..."""

    def __post_init__(self) -> None:
        frozen: dict[str, Any] = {
            "dtypes": frozenset(self.dtypes),
            "ops": MappingProxyType(
                {name: frozenset(tuple(s) for s in sigs) for name, sigs in self.ops.items()}
            ),
            "dot": frozenset(tuple(s) for s in self.dot),
            "atomics": MappingProxyType({k: frozenset(v) for k, v in self.atomics.items()}),
            "features": frozenset(self.features),
            "limits": MappingProxyType(dict(self.limits)),
            "numerics": MappingProxyType(json_copy(dict(self.numerics), "Capabilities.numerics")),
        }
        for name, value in frozen.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        unknown = set(self.features) - FEATURES
        _require(not unknown, f"unknown features {sorted(unknown)}; known: {sorted(FEATURES)}")
        unknown = set(self.limits) - LIMITS
        _require(not unknown, f"unknown limits {sorted(unknown)}; known: {sorted(LIMITS)}")
        named = {d for sigs in self.ops.values() for s in sigs for d in s} - {"*"}
        named |= {d for combination in self.dot for d in combination}
        named |= {d for dtypes in self.atomics.values() for d in dtypes}
        stray = named - self.dtypes
        _require(
            not stray, f"dtypes {sorted(stray)} are used but not listed in Capabilities.dtypes"
        )

    def supports(self, op: str, *dtypes: str) -> bool:
        """Whether `op` compiles for operands of these dtypes (none given: for any at all)."""
        return self.why_not(op, *dtypes) == ""

    def why_not(self, op: str, *dtypes: str) -> str:
        """The reason why `op` does not compile for these dtypes; empty where it does."""
        signatures = self.ops.get(op)
        if not signatures:
            return f"op '{op}' is not supported on {self.target}"
        foreign = [d for d in dtypes if d not in self.dtypes]
        if foreign:
            return f"dtype '{foreign[0]}' is not supported on {self.target}"
        if not dtypes or any(_matches(s, dtypes) for s in signatures):
            return ""
        known = ", ".join("(" + ", ".join(s) + ")" for s in sorted(signatures))
        return f"op '{op}' on {self.target} takes {known}, not ({', '.join(dtypes)})"

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target.to_json(),
            "dtypes": sorted(self.dtypes),
            "ops": {k: sorted(list(s) for s in v) for k, v in sorted(self.ops.items())},
            "dot": sorted(list(s) for s in self.dot),
            "atomics": {k: sorted(v) for k, v in sorted(self.atomics.items())},
            "features": sorted(self.features),
            "limits": dict(sorted(self.limits.items())),
            "numerics": dict(self.numerics),
        }

    def digest(self) -> str:
        return _digest(self.to_json())


def _matches(signature: Signature, dtypes: Sequence[str]) -> bool:
    if signature == ANY:
        return True
    if len(signature) == 1:
        return all(d == signature[0] for d in dtypes)
    return signature == tuple(dtypes)


@dataclass(frozen=True)
class TritonTarget:
    """How programs that were written for Triton know a target."""

    backend: str
    """The name of Triton's backend for it."""
    arch: Any
    """The architecture, of the type that Triton's backend gives."""
    warp_size: int
    readings: Mapping[str, tuple[str, str, str]] = field(default_factory=dict, hash=False)
    """What kernels can read of the hardware: the function's name in `triton.language.extra`, and
    the assembly of the target that reads it, its constraints and the dtype of the result."""


# -------------------------------------------------------------------------------------------------
# Compiling


@dataclass(frozen=True)
class Options:
    """Compile options. A backend subclasses this and adds typed fields with defaults.

    The fields here are the ones that kernels written for any backend may give. A backend lists
    those that cannot change its code in `ignored`, so that they cause no second compilation.
    """

    ignored: ClassVar[frozenset[str]] = frozenset()

    num_warps: int = 4
    num_stages: int = 2
    num_ctas: int = 1
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    default_dot_precision: str = "ieee"
    """How `dot` of f32 shortens its factors where it names no `input_precision`."""
    debug: bool = False
    """Keep `assert` ops of the device and add the checks that debugging asks for."""
    sanitize_overflow: bool = True
    """Whether `debug` adds checks of integer overflow in +, - and *."""
    assume_disjoint: bool = True
    """Buffers of different arguments do not overlap; the runtime checks where it matters."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            self._check_type(f.name, getattr(self, f.name), f.default)
        if self.default_dot_precision != type(self).default_dot_precision:
            from tegula.ir.ops.reduce import PRECISIONS

            if self.default_dot_precision not in PRECISIONS:
                known = ", ".join(PRECISIONS)
                raise OptionValueError(f"default_dot_precision is one of {known}")

    def _check_type(self, name: str, value: object, default: object) -> None:
        if value == default and type(value) is type(default):
            return
        kind: type = int if default is None else type(default)
        is_bool_for_int = isinstance(value, bool) and kind is int
        if not isinstance(value, kind) or is_bool_for_int:
            raise OptionError(
                f"option '{name}' has to be of type {kind.__name__}, not {value!r} "
                f"(default: {default!r})"
            )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all options, in order."""
        return tuple(f.name for f in dataclasses.fields(cls))

    @classmethod
    def make(cls, given: Mapping[str, Any]) -> Self:
        """Options from a mapping; an unknown key is an error that names the nearest known one."""
        known = cls.names()
        for key in given:
            if key not in known:
                raise OptionError(
                    f"unknown compile option '{key}'{nearest(key, known)} "
                    f"(known: {', '.join(sorted(known))})"
                )
        return cls(**given)

    def key(self) -> tuple[tuple[str, Any], ...]:
        """What of the options joins a cache key."""
        return tuple((n, getattr(self, n)) for n in self.names() if n not in self.ignored)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Artifact:
    """The result of compiling one kernel: what a driver loads and what the disk cache stores."""

    kind: str
    """What `data` is, for example `elf-object`, `ptx` or `tile-ir`."""
    data: bytes
    entry: str
    """The symbol that a launch enters."""
    params: tuple[str, ...] = ()
    """The IR type of each parameter as text (`ptr<f32>`, `i32`), in order."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """JSON-able facts that the driver and the runtime need, for example `scratch_bytes`."""

    def __post_init__(self) -> None:
        _require(isinstance(self.data, bytes), "Artifact.data has to be bytes")
        _require(bool(self.kind) and bool(self.entry), "an Artifact needs a kind and an entry")
        object.__setattr__(self, "params", tuple(str(p) for p in self.params))
        object.__setattr__(self, "metadata", json_copy(dict(self.metadata), "Artifact.metadata"))


@dataclass(frozen=True)
class CompileContext:
    """Backend, target, capabilities and options of one compilation, resolved once.

    Later stages read it and look nothing up again.
    """

    backend: BackendSpec
    target: Target
    capabilities: Capabilities
    options: Options


# -------------------------------------------------------------------------------------------------
# Running


@dataclass(frozen=True)
class DeviceInfo:
    """One device that a driver found, learned without opening it."""

    index: int
    name: str
    target: Target
    memory_bytes: int = 0
    details: Mapping[str, Scalar] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "name": self.name,
            "target": self.target.to_json(),
            "memory_bytes": self.memory_bytes,
            "details": dict(self.details),
        }


@dataclass(frozen=True)
class Probe:
    """What a driver found out about its hardware and libraries."""

    status: ProbeStatus
    reason: str = ""
    """Why it is unavailable, in one sentence."""
    hint: str = ""
    """What the user can do about it."""
    devices: tuple[DeviceInfo, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", tuple(self.devices))
        _require(
            self.status in get_args(ProbeStatus),
            f"Probe.status is one of {get_args(ProbeStatus)}, not {self.status!r}",
        )
        if self.status == "available":
            _require(bool(self.devices), "a Probe that says 'available' has to list devices")
            _require(
                [d.index for d in self.devices] == list(range(len(self.devices))),
                "the devices of a Probe are numbered 0, 1, ... in order",
            )
        else:
            _require(bool(self.reason), "a Probe that says 'unavailable' has to give a reason")

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "reason": self.reason,
            "hint": self.hint,
            "devices": [d.to_json() for d in self.devices],
        }


class MemoryRange(NamedTuple):
    """Memory that a launch may touch, for checks of bounds."""

    address: int
    nbytes: int
    name: str = ""
    writable: bool = True
    shape: tuple[int, ...] | None = None


# -------------------------------------------------------------------------------------------------
# The other hooks' records


ANCHORS = ("shared.begin", "shared.end", "backend.begin", "backend.end")
"""Places in the pipeline where an `Extension` may put passes."""


@dataclass(frozen=True)
class Extension:
    """Passes that a plugin adds to every compilation, at named places."""

    name: str
    passes: Mapping[str, Sequence[Any]] = field(default_factory=dict, hash=False)
    """Anchor to passes, which run there in order."""
    fingerprint: str = ""
    """Changes whenever the extension's effect does; joins the cache key."""

    def __post_init__(self) -> None:
        _require(_NAME.match(self.name) is not None, f"bad name of an Extension: {self.name!r}")
        unknown = set(self.passes) - set(ANCHORS)
        _require(not unknown, f"Extension '{self.name}': unknown anchors {sorted(unknown)}")
        _require(bool(self.fingerprint), f"Extension '{self.name}' needs a fingerprint")


@dataclass(frozen=True)
class Finding:
    """The result of one health check."""

    status: Severity
    message: str
    hint: str = ""

    def __post_init__(self) -> None:
        _require(
            self.status in get_args(Severity),
            f"Finding.status is one of {get_args(Severity)}, not {self.status!r}",
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class HealthCheck:
    """Something that `tegula doctor` can look at."""

    name: str
    summary: str
    run: Callable[[], Finding]

    def __post_init__(self) -> None:
        _require(bool(self.name) and callable(self.run), "a HealthCheck needs a name and run()")


@dataclass(frozen=True)
class Expectation:
    """A conformance test that is known not to pass, and why."""

    pattern: str
    kind: Literal["unsupported", "xfail"]
    reason: str
    until: str = ""
    """The version from which on the entry counts as a failure; required for `xfail`."""

    def __post_init__(self) -> None:
        _require(
            bool(self.pattern) and bool(self.reason), "an Expectation needs pattern and reason"
        )
        _require(
            self.kind in ("unsupported", "xfail"),
            f"Expectation.kind is 'unsupported' or 'xfail', not {self.kind!r}",
        )
        _require(self.kind != "xfail" or bool(self.until), "an xfail has to expire: give 'until'")


@dataclass(frozen=True)
class ConformanceProfile:
    """Declared exceptions and tolerances of a backend, versioned with its plugin."""

    backend: str
    expectations: tuple[Expectation, ...] = ()
    tolerances: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Op name to the ULP error that is allowed for it."""

    @classmethod
    def of(cls, backend: str, expectations: Iterable[Expectation] = ()) -> ConformanceProfile:
        return cls(backend, tuple(expectations))
