"""`Simt`: everything that the shared lowering has to know of a vendor's machine.

A backend subclasses it. The base class gives what plain LLVM IR can say; a vendor overrides what
its machine says otherwise or better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from tegula.codegen.loops.text import Val, Writer
from tegula.ir.types import DType

if TYPE_CHECKING:
    from tegula.codegen.simt.bulk import BulkCopies
    from tegula.codegen.simt.kernel import Emitter
    from tegula.codegen.simt.matrix import MatrixUnit
    from tegula.codegen.simt.products import SharedUnit
    from tegula.ir.core import Op

GLOBAL = "ptr addrspace(1)"
SHARED = "ptr addrspace(3)"

SHARED_SYMBOL = "@tegula_shared"
"""The array of shared memory of a program."""

ORDERINGS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release",
             "acq_rel": "acq_rel"}  # fmt: skip
"""LLVM's names of the orders of atomics."""

ERROR_PARAMETER = "%tegula_error"
"""The last parameter of a kernel with assertions: where the first failure is written."""


@dataclass(frozen=True)
class Access:
    """How a global access behaves besides its address: hints and ordering as the ops give them."""

    cache: str = ""
    evict: str = ""
    volatile: bool = False


PLAIN = Access()


class Simt:
    """A machine of threads in lockstep groups ("warps"), with memory that a program shares.

    All methods take the `Writer` of the function being written and append instructions to it.
    """

    warp_size: int = 32
    vector_bits: int = 128
    """The widest access to memory of one thread."""
    shared_limit: int = 48 << 10
    """Bytes of shared memory that a program may use."""
    join_bits: str = "or disjoint"
    """LLVM's instruction for a sum without carries."""
    loops_tested_first: bool = False
    """Whether loops have to test their condition at the head and not at the end."""
    by_register: bool = False
    """Whether code is written register by register where the order is free, for compilers that
    keep to it."""
    partials_read_by_all: int = 16
    """Up to how many partial results of warps every thread reads all."""
    slow_division: bool = False
    """Whether a division of f32 costs far more than a few multiplications."""
    native_math: tuple[str, ...] = ()
    """Math ops that `rules` or the base table emit directly, so that they need no expansion."""
    rules: Mapping[str, Callable[..., Val]] = MappingProxyType({})
    """Elementwise rules that replace those of the shared table; see `elementwise.RULES`."""
    tile_rules: Mapping[str, Callable[[Emitter, Op], bool]] = MappingProxyType({})
    """Rules for elementwise ops of whole tiles; where one gives False the others serve."""
    scopes: ClassVar[dict[str, str]] = {"cta": "workgroup", "gpu": "device", "sys": ""}
    """LLVM's names for the scopes of atomics; empty: all threads of the system."""

    # -- the module

    def header(self) -> str:
        """Target triple, data layout and declarations before everything else."""
        raise NotImplementedError

    def shared(self, nbytes: int) -> str:
        """The definition of `SHARED_SYMBOL` with room for `nbytes`."""
        return f"{SHARED_SYMBOL} = internal addrspace(3) global [{nbytes} x i8] poison, align 128"

    def kernel(self, name: str, params: Sequence[tuple[str, str, dict[str, Any]]], body: str,
               threads: int) -> str:
        """The kernel's definition. `params` are (LLVM type, name, facts such as `divisible`)."""
        raise NotImplementedError

    def footer(self, name: str, threads: int) -> str:
        """What follows the kernel: attributes and metadata."""
        return ""

    def begin(self, w: Writer) -> None:
        """What a kernel does before anything else."""

    # -- threads

    def thread_id(self, w: Writer) -> Val:
        """Number of the thread in its program, i32."""
        raise NotImplementedError

    def lane_id(self, w: Writer) -> Val | None:
        """Number of the thread in its warp, i32, where the machine knows it by itself and such a
        number serves it better than bits of `thread_id`."""
        return None

    def hidden_lane(self, w: Writer) -> Val:
        """The same, at this place, so that compilers cannot tell that neighbours differ by 1."""
        raise NotImplementedError

    def warp_id(self, w: Writer) -> Val | None:
        """Number of the warp in its program, where `lane_id` gives something."""
        return None

    def program_id(self, w: Writer, axis: int) -> Val:
        raise NotImplementedError

    def num_programs(self, w: Writer, axis: int) -> Val:
        raise NotImplementedError

    def barrier(self, w: Writer) -> None:
        """Wait for all threads of the program; orders shared and global memory among them."""
        raise NotImplementedError

    def shuffle(self, w: Writer, x: Val, mode: str, by: Val) -> Val:
        """The i32 `x` of another lane: lane ^ by ("xor"), lane - by ("up"), lane + by ("down") or
        lane `by` ("idx"). Lanes out of range give the thread's own value or anything."""
        raise NotImplementedError

    # -- arithmetic

    def exp2(self, w: Writer, x: Val, denormals: bool) -> Val:
        """2**x of f32 by the machine's instruction, for `exponentials`. Results that are denormal
        may be 0 unless `denormals` are asked for."""
        raise NotImplementedError

    def saturated(self, w: Writer, a: Val, b: Val, c: Val) -> Val:
        """a * b + c of f32, rounded once and held between 0 and 1, for `exponentials`."""
        raise NotImplementedError

    # -- memory

    def load(self, w: Writer, ptr: Val, ty: str, count: int, pred: Val | None,
             other: Sequence[Val] | None, access: Access, align: int) -> list[Val]:
        """`count` neighbouring elements of LLVM type `ty`; where `pred` is false nothing is read
        and `other` (default: zeros) is the result."""
        zero = zero_of(w, ty)
        if pred is not None and pred.const is not None:
            if not pred.const:
                return list(other) if other else [zero] * count
            pred = None
        if pred is None:
            return plain_load(w, ptr, ty, count, access.volatile, align)
        branch = w.begin_if(pred)
        there = plain_load(w, ptr, ty, count, access.volatile, align)
        return w.end_if(branch, there, list(other) if other else [zero] * count)

    def store(self, w: Writer, ptr: Val, values: Sequence[Val], pred: Val | None, access: Access,
              align: int) -> None:
        """Store neighbouring elements where `pred` holds."""
        if pred is not None and pred.const is not None:
            if not pred.const:
                return
            pred = None
        if pred is None:
            plain_store(w, ptr, values, align)
            return
        branch = w.begin_if(pred)
        plain_store(w, ptr, values, align)
        w.end_if(branch)

    def atomic_rmw(self, w: Writer, kind: str, ptr: Val, value: Val, e: DType, sem: str,
                   scope: str) -> Val:
        """One atomic read-modify-write by this thread; gives the old value. `kind` as in the op."""
        raise NotImplementedError

    def atomic_cas(self, w: Writer, ptr: Val, cmp: Val, value: Val, e: DType, sem: str,
                   scope: str) -> Val:
        """One compare-and-swap of integers (floats come as their bits)."""
        raise NotImplementedError

    def atomic_load(self, w: Writer, ptr: Val, ty: str, sem: str, scope: str) -> Val:
        """One atomic load of an integer type."""
        ordering = {"relaxed": "monotonic"}.get(sem, "acquire")
        return w.here(ty, f"load atomic {ty}, {ptr.ty} {ptr.text} {self.syncscope(scope)}"
                          f"{ordering}, align {max(1, int(ty[1:]) // 8)}")

    def atomic_store(self, w: Writer, ptr: Val, value: Val, sem: str, scope: str) -> None:
        """One atomic store of an integer type."""
        ordering = {"relaxed": "monotonic"}.get(sem, "release")
        w.do(f"store atomic {value.ty} {value.text}, {ptr.ty} {ptr.text} "
             f"{self.syncscope(scope)}{ordering}, align {max(1, int(value.ty[1:]) // 8)}")

    def syncscope(self, scope: str) -> str:
        name = self.scopes.get(scope, "")
        return f'syncscope("{name}") ' if name else ""

    def order(self, sem: str, scope: str) -> str:
        """LLVM's text of an atomic's scope and order."""
        return self.syncscope(scope) + ORDERINGS[sem]

    # -- copies that run beside the threads, and matrix units

    async_copies: bool = False
    """Whether the machine copies from global to shared memory on its own."""

    def async_copy(self, w: Writer, to: Val, ptr: Val, nbytes: int, pred: Val | None) -> None:
        """Begin to copy 4, 8 or 16 bytes to the place `to` in shared memory; where `pred` is
        false zeros are written."""
        raise NotImplementedError

    def async_commit(self, w: Writer) -> None:
        """Close the group of this thread's copies since the last commit."""
        raise NotImplementedError

    def async_wait(self, w: Writer, pending: int) -> None:
        """Wait until at most `pending` groups of this thread are under way. What arrived is ready
        for matrix units once all threads have passed a barrier."""
        raise NotImplementedError

    bulk_copies: BulkCopies | None = None
    """How the machine copies blocks of tensors; None if it does not."""

    def shared_fence(self, w: Writer) -> None:
        """After this and a barrier, matrix units see what this thread wrote to shared memory."""

    def shared_unit(self, a: DType, b: DType, acc: DType, shape: tuple[int, int, int],
                    precision: str, warps: int) -> SharedUnit | None:
        """The matrix unit for a product of this (m, n, k) that reads shared memory, if any."""
        return None

    def matrix_units(self, a: DType, b: DType, acc: DType) -> Sequence[MatrixUnit]:
        """The matrix units whose operands are registers, for factors and sums of these types; f32
        factors mean that these may be shortened."""
        return ()

    block_loads: bool = False
    """Whether `load_fragment` is there, for units whose factors have 16 bits."""

    def load_fragment(self, w: Writer, side: str, e: DType, base: Val,
                      surface: tuple[Val, Val, Val], place: tuple[Val, Val]) -> list[Val]:
        """The registers of a unit's fragment, of the left ("a") or right ("b") factor, whose first
        element is at (column, row) of a tensor of (bytes of a row, rows, bytes between rows). All
        lanes give the same numbers; what is outside of the tensor is 0."""
        raise NotImplementedError

    products_written_out: int = 4096
    """Up to how many multiplications of one thread are written one by one where no matrix unit
    makes a product; beyond there is a loop, which is slower."""
    matrix_loads: bool = False
    """Whether `load_matrices` is there."""
    matrix_stores: bool = False
    """Whether `store_matrices` is there."""

    def load_matrices(self, w: Writer, ptr: Val, count: int, transposed: bool) -> list[Val]:
        """`count` (1, 2 or 4) small matrices of 8 rows of 16 bytes from shared memory, a word of 32
        bits of each: lane 8*i + r points at row r of matrix i, and lane l gets word l % 4 of row
        l // 4; if `transposed`, elements of 16 bits l // 4 of rows 2 * (l % 4) and the next."""
        raise NotImplementedError

    def store_matrices(self, w: Writer, ptr: Val, words: Sequence[Val], transposed: bool) -> None:
        """The reverse of `load_matrices`."""
        raise NotImplementedError

    assembly: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """LLVM types by the letters with which inline assembly names registers; empty where kernels
    cannot bring assembly along."""

    # -- talking to the host

    print_long: str = "ll"
    """How `print_line` names integers of 64 bits."""

    def print_line(self, w: Writer, text: str, arguments: Sequence[Val]) -> None:
        """Print a text as printf does; integers are i32 or i64, floats `float` or `double`."""
        raise NotImplementedError

    clocked: bool = True
    """Whether `clock` is there."""

    def clock(self, w: Writer) -> Val:
        """Nanoseconds of a clock that only goes forward, i64 (for polls with a timeout)."""
        raise NotImplementedError


def zero_of(w: Writer, ty: str) -> Val:
    """The zero of an LLVM scalar type."""
    if ty.startswith("i"):
        return w.const(0, ty)
    if ty.startswith("ptr"):
        return w.literal("null", ty)
    return w.literal("0xH0000" if ty == "half" else "0.0", ty, 0.0)


def plain_load(w: Writer, ptr: Val, ty: str, count: int, volatile: bool, align: int) -> list[Val]:
    """A load instruction, of a vector where `count` is more than 1."""
    verb = "load volatile" if volatile else "load"
    if count == 1:
        return [w.here(ty, f"{verb} {ty}, {ptr.ty} {ptr.text}, align {align}")]
    vec = f"<{count} x {ty}>"
    v = w.here(vec, f"{verb} {vec}, {ptr.ty} {ptr.text}, align {align}")
    return [w.pure(ty, f"extractelement {vec} {{}}, i32 {i}", v) for i in range(count)]


def plain_store(w: Writer, ptr: Val, values: Sequence[Val], align: int) -> None:
    """A store instruction, of a vector for several values."""
    x = packed(w, values)
    w.do(f"store {x.ty} {x.text}, {ptr.ty} {ptr.text}, align {align}")


def unpacked(w: Writer, whole: Val, ty: str, count: int) -> list[Val]:
    """The fields, all of one type, of a struct."""
    struct = whole.ty.replace("{", "{{").replace("}", "}}")
    return [w.pure(ty, f"extractvalue {struct} {{}}, {i}", whole) for i in range(count)]


def packed(w: Writer, values: Sequence[Val]) -> Val:
    """Scalars of one type as a vector (one alone stays a scalar)."""
    if len(values) == 1:
        return values[0]
    ty = values[0].ty
    vec = f"<{len(values)} x {ty}>"
    v = w.literal("poison", vec)
    for i, x in enumerate(values):
        v = w.pure(vec, f"insertelement {vec} {{}}, {ty} {{}}, i32 {i}", v, x)
    return v
