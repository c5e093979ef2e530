"""A compiled kernel: what a launch returns."""

from __future__ import annotations

import ctypes
import functools
import numbers
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.errors import ArgumentError, KernelError
from tegula.ir import types as ir
from tegula.runtime import arguments, compiler, hooks
from tegula.runtime.arguments import Array
from tegula.runtime.descriptor import TensorDescriptor
from tegula.runtime.grids import Grid, normalize
from tegula.runtime.specialize import pack

if TYPE_CHECKING:
    from tegula.plugin.contract import Kernel
    from tegula.plugin.records import Artifact
    from tegula.plugin.select import Selection

LAUNCH_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
)


@functools.lru_cache(maxsize=64)
def _native(address: int) -> Callable[..., int]:
    """The function at an address; the kernels of a backend share one, as a rule."""
    return LAUNCH_SIGNATURE(address)


class StageTexts(Mapping[str, str]):
    """The stages of a compilation as text, made when somebody looks."""

    def __init__(self, request: compiler.Request, artifact: Artifact) -> None:
        self._request = request
        self._artifact = artifact

    @functools.cached_property
    def _texts(self) -> dict[str, str]:
        return compiler.stage_texts(self._request)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"<stages {', '.join(self._texts)}>"


class CompiledKernel:
    """One variant of a kernel, compiled for a device and loaded at its first launch.

    `asm` maps stages to their text, `metadata` has what the backend and the options say, and
    `compiled[grid](*args)` launches it again without specialising its arguments anew.
    """

    def __init__(
        self,
        request: compiler.Request,
        artifact: Artifact,
        key: str | None,
        selection: Selection,
        slots: Mapping[str, ir.Type],
        constant_params: Sequence[bool],
    ) -> None:
        self.request = request
        self.artifact = artifact
        self.selection = selection
        self.hash = key or ""
        self.name = request.name
        self.slots, self.slot_types = slots, tuple(slots.values())
        self._constant_params = tuple(constant_params)
        self._kernel: Kernel | None = None
        self._lock = threading.Lock()

    @functools.cached_property
    def asm(self) -> Mapping[str, str]:
        """Stage name to text: `tir` is what the frontend made, then passes, then the backend's."""
        return StageTexts(self.request, self.artifact)

    @functools.cached_property
    def metadata(self) -> SimpleNamespace:
        """What is known about the compiled code: the artifact's metadata, options and names."""
        context = self.request.context
        return SimpleNamespace(
            **{
                "shared": 0,
                **context.options.to_json(),
                **self.artifact.metadata,
                "name": self.name,
                "hash": self.hash,
                "target": context.target,
                "backend": context.backend.name,
            }
        )

    @property
    def n_regs(self) -> int:
        """Registers per thread; 0 where a device has no such notion."""
        return self._fact("registers", 0)

    @property
    def n_spills(self) -> int:
        """Registers that are kept in memory; 0 where a device has no such notion."""
        return self._fact("spills", 0)

    @property
    def n_max_threads(self) -> int:
        """Threads that may run one program; 1 where a program is one thread's."""
        return self._fact("max_threads", 1)

    def _fact(self, name: str, otherwise: int) -> int:
        """What the device knows about the loaded code, or what the compiler knew."""
        known = {} if self._kernel is None else self._kernel.facts
        return int(known.get(name, self.artifact.metadata.get(name, otherwise)))

    def _init_handles(self) -> None:
        """Load the kernel now; programs call this before they look at `n_regs`."""
        _ = self.kernel

    @property
    def alias_pairs(self) -> list[tuple[int, int, bool]]:
        """Slots that must not overlap in this variant: (stored, loaded, same address is fine)."""
        pairs = self.artifact.metadata.get("alias_pairs", ())
        return [(int(i), int(j), bool(same_ok)) for i, j, same_ok in pairs]

    @property
    def kernel(self) -> Kernel:
        """The driver's kernel; loaded at the first use."""
        if self._kernel is None:
            with self._lock:
                if self._kernel is None:
                    for before in hooks.before_load:
                        before(self)
                    self._kernel = self.selection.open().load(self.artifact)
                    for after in hooks.after_load:
                        after(self)
        return self._kernel

    def run(self, grid: Grid, values: Sequence[Any], stream: int | None = None) -> None:
        """Launch with values in slot order: an `Array` or a number each."""
        kernel = self.kernel
        if 0 in grid:
            return
        if stream is None:
            stream = self._stream_for(values)
        if kernel.launch_address is None:
            args = [v.address if isinstance(v, Array) else v for v in values]
            kernel.launch(grid, args, stream=stream, memory=memory_of(values))
            return
        slots = array("q", map(pack, self.slot_types, values))  # ctypes would make a type first
        code = _native(kernel.launch_address)(
            kernel.handle, slots.buffer_info()[0], len(values), *grid, stream or None
        )
        if code:
            self._raise_failure(code)

    def _stream_for(self, values: Sequence[Any]) -> int:
        for value in values:
            if isinstance(value, Array):
                return self.selection.open().stream_of(value.value)
        return 0

    def _raise_failure(self, code: int) -> None:
        """Raise what a result other than 0 of the native launch function means."""
        failure = self.kernel.error(code)
        if type(failure) is KernelError and self.name not in str(failure):
            failure = KernelError(f"kernel `{self.name}`: {failure}")
        raise failure

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        """Launch again on `grid`: with all arguments, or with the runtime arguments only."""
        dims = normalize(self.name, grid)

        def launch(*args: Any, stream: int | None = None) -> CompiledKernel:
            self.run(dims, self._values(args), stream)
            return self

        return launch

    def _values(self, args: Sequence[Any]) -> list[Any]:
        if len(args) == len(self._constant_params):
            args = [a for a, constant in zip(args, self._constant_params) if not constant]
        flat: list[Any] = []
        for i, value in enumerate(args):
            _flatten(f"{i}", value, flat)
        if len(flat) != len(self.slot_types):
            raise ArgumentError(
                f"compiled kernel `{self.name}` takes {len(self.slot_types)} runtime arguments, "
                f"and {len(flat)} were given"
            )
        for (path, kind), value in zip(self.slots.items(), flat):
            if why := self._misfit(path, kind, value):
                raise ArgumentError(
                    f"argument '{path}' of compiled kernel `{self.name}` {why}; launch the kernel "
                    "itself, which compiles what it needs"
                )
        return flat

    def _misfit(self, path: str, kind: ir.Type, value: Any) -> str:
        """Why a variant is not made for a value; empty if it is."""
        divisible = self.request.attrs.get(path, {}).get("divisible", 1)
        if isinstance(value, Array):
            if not isinstance(kind, ir.Pointer):
                return f"is an array, and this variant takes {kind}"
            if value.dtype is not kind.elem and not self._reads_as(path, kind, value.dtype):
                return f"has elements of type {value.dtype}, and this variant takes {kind.elem}"
            if value.readonly and not kind.const:
                return "is read-only, and this variant may store to it"
            if value.address % divisible:
                return f"does not begin at a multiple of {divisible} bytes, and this variant does"
            return ""
        if not isinstance(value, numbers.Real):
            return f"is of type {type(value).__name__}, and this variant takes {kind}"
        if isinstance(kind, ir.DType) and kind.is_int:
            if not isinstance(value, numbers.Integral) or not (
                kind.min_value <= int(value) <= kind.max_value
            ):
                return f"is {value}, and this variant takes {kind}"
            if int(value) % divisible:
                return f"is {value}, and this variant takes multiples of {divisible}"
        return ""

    def _reads_as(self, path: str, kind: ir.Pointer, given: ir.DType) -> bool:
        """Whether an annotation has the parameter read memory of another type of the same size."""
        param = next(p for p in self.request.fn.params if p.name == path.partition(".")[0])
        annotated = getattr(param, "annotation_type", None) is not None
        return annotated and kind.elem.itemsize == given.itemsize

    def __repr__(self) -> str:
        return f"<compiled kernel {self.name} for {self.request.context.target}>"


def _flatten(name: str, value: Any, out: list[Any]) -> None:
    if isinstance(value, TensorDescriptor):
        value = (value.base, *value.shape, *value.strides[:-1])
    if isinstance(value, tuple):
        for i, member in enumerate(value):
            _flatten(f"{name}.{i}", member, out)
        return
    if isinstance(value, np.generic):
        value = value.item()  # which ml_dtypes' numbers have only as float()
        value = value if isinstance(value, numbers.Real) else float(value)
    array = None if isinstance(value, numbers.Number) else arguments.describe(name, value)
    if array is not None:
        array.check_memory()
    out.append(value if array is None else array)


def memory_of(values: Sequence[Any]) -> list[Any]:
    """The buffers of a launch, for checks of bounds; empty if one of them is unknown."""
    from tegula.plugin.records import MemoryRange

    ranges = []
    for value in values:
        if not isinstance(value, Array):
            continue
        extent = value.extent()
        if extent is None:
            return []
        low, high = extent
        ranges.append(MemoryRange(low, high - low, value.name, not value.readonly, value.shape))
    return ranges
