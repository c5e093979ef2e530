"""A backend for tests of launches: its one native kernel writes down the slots and the grid it was
given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tegula.plugin import (
    Artifact,
    BackendSpec,
    Capabilities,
    Compiler,
    Device,
    DeviceInfo,
    Driver,
    Kernel,
    Options,
    Probe,
    Target,
    hookimpl,
)

TARGET = Target("recording", "native")
FAR_TYPE = 10
"""A DLPack device type that it claims besides host memory."""

TEXT = """
define i32 @record(ptr %h, ptr %s, i64 %n, i32 %x, i32 %y, i32 %z, ptr %stream) {
  %count.p = getelementptr i64, ptr %h, i64 0
  %count = load i64, ptr %count.p
  %count.1 = add i64 %count, 1
  store i64 %count.1, ptr %count.p
  %n.p = getelementptr i64, ptr %h, i64 1
  store i64 %n, ptr %n.p
  %x.p = getelementptr i32, ptr %h, i64 4
  store i32 %x, ptr %x.p
  %y.p = getelementptr i32, ptr %h, i64 5
  store i32 %y, ptr %y.p
  %z.p = getelementptr i32, ptr %h, i64 6
  store i32 %z, ptr %z.p
  %stream.p = getelementptr i64, ptr %h, i64 5
  store ptr %stream, ptr %stream.p
  %slots = getelementptr i64, ptr %h, i64 6
  %bytes = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %slots, ptr %s, i64 %bytes, i1 false)
  %rc.p = getelementptr i64, ptr %h, i64 4
  %rc = load i64, ptr %rc.p
  %rc.32 = trunc i64 %rc to i32
  ret i32 %rc.32
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
_code: list[Any] = []
compilations: list[Options] = []
"""The options of every emission in this process."""


def entry() -> int:
    """Address of the native function; compiled once."""
    if not _code:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=1, reloc="pic")
        jit = llvm.create_lljit_compiler(machine)
        library = llvm.JITLibraryBuilder().add_ir(TEXT).export_symbol("record").link(jit, "record")
        _code.extend((jit, library))
    return int(_code[1]["record"])


class Record(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int64),
        ("nslots", ctypes.c_int64),
        ("grid", ctypes.c_int32 * 3),
        ("pad", ctypes.c_int32),
        ("result", ctypes.c_int64),
        ("stream", ctypes.c_int64),
        ("slots", ctypes.c_int64 * 200),
    )


@hookimpl
def tegula_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="recording",
            api=(0, 1),
            ir=((0, 1), (0, 1)),
            compiler=f"{__name__}:RecordingCompiler",
            driver=f"{__name__}:RecordingDriver",
            kind="cpu",
            priority=-200,
            dlpack=(1, FAR_TYPE),
        )
    ]


@dataclass(frozen=True)
class RecordingOptions(Options):
    alias: str = ""
    """Pairs of slots that must not overlap, as "0-1,0-2=": with = the same address is fine."""


class RecordingCompiler(Compiler):
    def targets(self) -> Sequence[Target]:
        return [TARGET]

    def capabilities(self, target: Target) -> Capabilities:
        return Capabilities(target, dtypes=frozenset({"f32"}))

    def options(self, target: Target, given: Mapping[str, Any]) -> Options:
        return RecordingOptions.make(given)

    def pipeline(self, target: Target, options: Options) -> Any:
        from tegula.passes import Pipeline

        return Pipeline(())

    def emit(self, module: Any, target: Target, options: Options) -> Artifact:
        compilations.append(options)
        kernel = next(f for f in module.functions.values() if f.kind == "kernel")
        pairs = []
        if options.assume_disjoint and options.alias:
            for text in options.alias.split(","):
                i, j = text.rstrip("=").split("-")
                pairs.append([int(i), int(j), text.endswith("=")])
        return Artifact(
            "recording",
            str(module).encode(),
            kernel.name,
            tuple(str(a.type) for a in kernel.body.args),
            {"alias_pairs": pairs, "careful": not options.assume_disjoint},
        )

    def fingerprint(self) -> str:
        return "recording 1"


class RecordingKernel(Kernel):
    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.record = Record()
        self.launch_address = entry()
        self.handle = ctypes.addressof(self.record)

    @property
    def slots(self) -> list[int]:
        return list(self.record.slots[: self.record.nslots])


class RecordingDevice(Device):
    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self._blocks: dict[int, Any] = {}

    def alloc(self, nbytes: int) -> int:
        block = ctypes.create_string_buffer(nbytes + 64)
        address = -(-ctypes.addressof(block) // 64) * 64
        self._blocks[address] = block
        return address

    def free(self, address: int) -> None:
        del self._blocks[address]

    def copy(self, dst: int, src: int, nbytes: int, *, stream: int = 0) -> None:
        ctypes.memmove(dst, src, nbytes)

    def load(self, artifact: Artifact) -> Kernel:
        return RecordingKernel(artifact)

    def synchronize(self, stream: int = 0) -> None: ...

    def stream_of(self, tensor: Any) -> int:
        return int(getattr(tensor, "stream", 0))

    def stream_function(self, tensor: Any) -> int | None:
        return getattr(tensor, "stream_function", None)


class RecordingDriver(Driver):
    @classmethod
    def probe(cls) -> Probe:
        return Probe("available", devices=(DeviceInfo(0, "records its launches", TARGET),))

    def open(self, index: int) -> Device:
        return RecordingDevice(self.probe().devices[index])
