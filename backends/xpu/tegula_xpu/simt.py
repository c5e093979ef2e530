"""What the shared code for machines of many threads has to know of OpenCL's: work-items of a
work-group, subgroups as warps, built-in functions by their mangled names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tegula.codegen.loops import convert
from tegula.codegen.loops.convert import float_const, to_f32
from tegula.codegen.loops.elementwise import in_float, minmax
from tegula.codegen.loops.lanes import Lanes
from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt import swapping
from tegula.codegen.simt.elementwise import RULES
from tegula.codegen.simt.hooks import GLOBAL, Simt
from tegula.codegen.simt.matrix import MatrixUnit
from tegula.codegen.simt.printing import Texts
from tegula.ir.core import Op
from tegula.ir.types import DType, elem_of, f32, f64, u32
from tegula.plugin import Target
from tegula_xpu import matrix, printing, spirv

_CONVERGENT = {
    "_Z7barrierj": "void (i32)",
    "_Z21sub_group_shuffle_xorjj": "i32 (i32, i32)",
    "_Z20sub_group_shuffle_upjj": "i32 (i32, i32)",
    "_Z22sub_group_shuffle_downjj": "i32 (i32, i32)",
    "_Z17sub_group_shufflejj": "i32 (i32, i32)",
}
"""Built-ins that all work-items of a group call together."""

_PURE = {
    "_Z12get_local_idj": "i64 (i32)",
    "_Z12get_group_idj": "i64 (i32)",
    "_Z14get_num_groupsj": "i64 (i32)",
    "_Z22get_sub_group_local_idv": "i32 ()",
    "_Z16get_sub_group_idv": "i32 ()",
}
"""Built-ins that only depend on where they are called."""

_SHUFFLES = {
    "xor": "_Z21sub_group_shuffle_xorjj",
    "up": "_Z20sub_group_shuffle_upjj",
    "down": "_Z22sub_group_shuffle_downjj",
    "idx": "_Z17sub_group_shufflejj",
}

_LOCAL_AND_GLOBAL = 3
"""OpenCL's flags CLK_LOCAL_MEM_FENCE and CLK_GLOBAL_MEM_FENCE."""


def _mulhi(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    """The high half of a product; there are no integers of 128 bits."""
    e = elem_of(op.operands[0].type)
    assert isinstance(e, DType)
    if e.bits < 64:
        return RULES["mulhi"](l, op, a, b)
    code = "l" if e.is_signed else "m"
    name = f"_Z6mul_hi{code}{code}"
    l.w.declare(name, "i64 (i64, i64)")
    return l.w.pure("i64", f"call spir_func i64 @{name}(i64 {{}}, i64 {{}})", a, b)


def _negated(l: Lanes, op: Op, x: Val) -> Val:
    """On processors: Intel's OpenCL runtime keeps a negated float over a barrier for one subgroup
    only (seen in 2025.3 and 2026.2). So the sign is flipped by a bit that its compiler does not
    know: launches have three dimensions, an odd number."""
    if not x.ty.startswith(("half", "float", "double")):
        return RULES["neg"](l, op, x)
    w = l.w
    size = {"half": 16, "float": 32, "double": 64}[x.ty]
    ty = f"i{size}"
    w.declare("_Z12get_work_dimv", "i32 ()")
    dimensions = w.resize(w.pure("i32", "call spir_func i32 @_Z12get_work_dimv()"), ty, False)
    sign = w.pure(ty, f"shl {ty} {{}}, {size - 1}", dimensions)
    bits = w.pure(ty, f"bitcast {x.ty} {{}} to {ty}", x)
    return w.pure(
        x.ty, f"bitcast {ty} {{}} to {x.ty}", w.pure(ty, f"xor {ty} {{}}, {{}}", bits, sign)
    )


def _minmax(l: Lanes, op: Op, a: Val, b: Val) -> Val:
    """OpenCL's fmin and fmax prefer numbers; where NaN has to win it is put in afterwards."""
    e = elem_of(op.operands[0].type)
    if not (isinstance(e, DType) and e.is_float and op.attrs["nan"] == "propagate"):
        return RULES[op.name](l, op, a, b)

    def either(t: DType, x: Val, y: Val) -> Val:
        number = minmax(l, op.name, False, t, x, y)
        nan = l.w.pure("i1", f"fcmp uno {x.ty} {{}}, {{}}", x, y)
        return l.w.select(nan, l.w.pure(x.ty, f"fadd {x.ty} {{}}, {{}}", x, y), number)

    return in_float(l, e, either, a, b)


def _cast(l: Lanes, op: Op, x: Val) -> Val:
    """On processors: Intel's OpenCL runtime does not saturate negative floats as u32 (seen in
    2026.2)."""
    source, to = elem_of(op.operands[0].type), op.attrs["to"]
    if not (isinstance(source, DType) and source.is_float and to is u32):
        return RULES["cast"](l, op, x)
    wide = source if source is f64 else f32
    x = x if source is f64 else to_f32(l, x, source)
    positive = minmax(l, "max", False, wide, x, float_const(l, 0.0, wide))
    return convert.cast(l, positive, wide, to, op.attrs["rounding"])


def _instruction(kind: str, e: DType) -> str | None:
    """LLVM's name of an atomic where devices have it."""
    if e.bits < 32:
        return None
    if e.is_float:
        return {"add": "fadd", "xchg": "xchg"}.get(kind)
    return f"u{kind}" if kind in ("max", "min") and not e.is_signed else kind


class XpuSimt(Simt):
    """An OpenCL device with subgroups of a fixed size."""

    loops_tested_first = True
    """Intel's runtime for processors loses values at barriers in loops that test at the end."""
    join_bits = "add nuw nsw"  # SPIR-V's `or` says nothing of bits, and compilers lose the stride
    products_written_out = 256  # drivers take long over more
    scopes: ClassVar[dict[str, str]] = {"cta": "workgroup", "gpu": "device", "sys": ""}

    def __init__(self, target: Target) -> None:
        self.warp_size = int(target["subgroup"])
        self.shared_limit = int(target["shared_bytes"])
        self._columns = int(target["matrix"])
        self.block_loads = bool(target["block2d"]) and self._columns == self.warp_size
        self.rules = {"mulhi": _mulhi, "min": _minmax, "max": _minmax}
        if target.arch == "cpu":
            self.rules |= {"neg": _negated, "cast": _cast}
            self.in_turn()
        self._texts = Texts()

    def in_turn(self) -> None:
        """On processors: lanes are lanes of vectors that take neighbours in memory at once, the
        compiler keeps the order of the code, and takes long over much of it."""
        self.by_register, self.vector_bits = True, 32
        self.partials_read_by_all, self.products_written_out = 4, 512

    # -- the module

    def header(self) -> str:
        lines = [f'target triple = "{spirv.TRIPLE}"', ""]
        for table, group in ((_CONVERGENT, "#0"), (_PURE, "#1")):
            for name, signature in table.items():
                result, _, params = signature.partition(" ")
                lines.append(f"declare spir_func {result} @{name}{params} {group}")
        lines += ["", "attributes #0 = { convergent nounwind }",
                  "attributes #1 = { nounwind willreturn memory(none) }", ""]  # fmt: skip
        return "\n".join(lines)

    def kernel(
        self, name: str, params: Sequence[tuple[str, str, dict[str, Any]]], body: str, threads: int
    ) -> str:
        listed = []
        for ty, param, facts in params:
            known = facts.get("divisible")
            aligned = f" align {known}" if ty == GLOBAL and known in (2, 4, 8, 16, 32, 64) else ""
            listed.append(f"{ty}{aligned} {param}")
        return (
            f"define spir_kernel void @{name}({', '.join(listed)}) nounwind "
            "!intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {\n" + body + "\n}\n"
        )

    def footer(self, name: str, threads: int) -> str:
        sizes = f"!0 = !{{i32 {self.warp_size}}}\n!1 = !{{i32 {threads}, i32 1, i32 1}}\n"
        return sizes + printing.definitions(self._texts)

    # -- threads

    def _builtin(self, w: Writer, name: str, argument: int) -> Val:
        wide = w.pure("i64", f"call spir_func i64 @{name}(i32 {{}})", w.const(argument, "i32"))
        return w.pure("i32", "trunc i64 {} to i32", wide)

    def thread_id(self, w: Writer) -> Val:
        return self._builtin(w, "_Z12get_local_idj", 0)

    def lane_id(self, w: Writer) -> Val:
        return w.pure("i32", "call spir_func i32 @_Z22get_sub_group_local_idv()")

    def hidden_lane(self, w: Writer) -> Val:
        zero = w.local("i32", 4)
        w.do(f"store volatile i32 0, ptr {zero}, align 4")
        seen = w.here("i32", f"load volatile i32, ptr {zero}, align 4")
        return w.here("i32", f"xor i32 {self.lane_id(w).text}, {seen.text}")

    def warp_id(self, w: Writer) -> Val:
        return w.pure("i32", "call spir_func i32 @_Z16get_sub_group_idv()")

    def program_id(self, w: Writer, axis: int) -> Val:
        return self._builtin(w, "_Z12get_group_idj", axis)

    def num_programs(self, w: Writer, axis: int) -> Val:
        return self._builtin(w, "_Z14get_num_groupsj", axis)

    def barrier(self, w: Writer) -> None:
        w.do(f"call spir_func void @_Z7barrierj(i32 {_LOCAL_AND_GLOBAL})")

    def shuffle(self, w: Writer, x: Val, mode: str, by: Val) -> Val:
        name = _SHUFFLES[mode]
        return w.here("i32", f"call spir_func i32 @{name}(i32 {x.text}, i32 {by.text})")

    # -- atomics

    def atomic_rmw(
        self, w: Writer, kind: str, ptr: Val, value: Val, e: DType, sem: str, scope: str
    ) -> Val:
        order, verb = self.order(sem, scope), _instruction(kind, e)
        if verb is None:
            return swapping.read_modify_write(w, kind, ptr, value, e, order)
        return w.here(
            value.ty,
            f"atomicrmw {verb} {ptr.ty} {ptr.text}, {value.ty} {value.text} {order}, "
            f"align {e.itemsize}",
        )

    def atomic_cas(
        self, w: Writer, ptr: Val, cmp: Val, value: Val, e: DType, sem: str, scope: str
    ) -> Val:
        return swapping.compare_and_swap(w, ptr, cmp, value, e.itemsize, self.order(sem, scope))

    # -- matrix units

    def matrix_units(self, a: DType, b: DType, acc: DType) -> Sequence[MatrixUnit]:
        if self._columns != self.warp_size:
            return ()
        found = matrix.units(self._columns).get((a, b, acc))
        return () if found is None else (found,)

    def load_fragment(
        self, w: Writer, side: str, e: DType, base: Val, surface: tuple[Val, Val, Val],
        place: tuple[Val, Val],
    ) -> list[Val]:  # fmt: skip
        return matrix.load_block(w, side, e, base, surface, place, self._columns)

    # -- talking to the host

    def print_line(self, w: Writer, text: str, arguments: Sequence[Val]) -> None:
        printing.print_line(w, self._texts.of(text), arguments)

    print_long = "l"
    clocked = False  # the extension for clocks is not there on most devices
