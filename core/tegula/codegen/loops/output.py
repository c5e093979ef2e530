"""Output and checks: calls of the driver's print function, and leaving a failed program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.loops.convert import to_f32
from tegula.codegen.loops.text import Val
from tegula.ir.core import Op, Value
from tegula.ir.types import DType, Pointer, elem_of, shape_of
from tegula.printing import LAYOUT, NO_VALUE, label

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import KernelEmitter

PRINT = "tegula_cpu_print"
FAIL = "tegula_cpu_assert_fail"
_HEX = 16


def _text(k: KernelEmitter, text: str) -> str:
    """The address of a constant string."""
    name = f"@text{len(k.globals)}"
    for known, line in k.globals.items():
        if known == text:
            return line.split(" ", 1)[0]
    data = text.encode() + b"\0"
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}"
                      for b in data)
    k.globals[text] = f'{name} = private constant [{len(data)} x i8] c"{escaped}"'
    return name


def _bits(k: KernelEmitter, v: Value, x: Val) -> tuple[int, Val]:
    """Kind and 64 bits of a value, as the driver's function takes them."""
    e, w = elem_of(v.type), k.w
    if isinstance(e, Pointer):
        return 4, w.pure("i64", "ptrtoint ptr {} to i64", x)
    if not e.is_float:
        kind = 0 if e.is_signed else 1
        return kind | e.bits << 8, w.resize(x, "i64", e.is_signed)
    if e.bits == 64:
        return 3 | 64 << 8, w.pure("i64", "bitcast double {} to i64", x)
    wide = to_f32(k.scalar_lanes, x, e)
    return 2 | 32 << 8, w.pure("i64", "zext i32 {} to i64", w.pure(
        "i32", "bitcast float {} to i32", wide))


def print_element(k: KernelEmitter, op: Op, v: Value, x: Val, index: list[Val]) -> None:
    """Print one element under the op's prefix."""
    w = k.w
    kind, bits = _bits(k, v, x)
    if op.attrs["hex"]:
        kind |= _HEX
    w.declare(PRINT, "void (ptr, ptr, i32, i64, i32, i32, i32, i32, ptr)")
    place = "null"
    if index:
        spare = k.arena.take(4 * len(index))
        base = k.arena.address(spare)
        for d, i in enumerate(index):
            p = w.gep("i32", base, w.const(d, "i64"))
            w.do(f"store i32 {w.resize(i, 'i32', True).text}, ptr {p.text}")
        place = base.text
        k.arena.give(spare, 4 * len(index))
    sizes = ",".join(map(str, shape_of(v.type)))
    prefix = _text(k, f"{sizes}{LAYOUT}{label(op.attrs['prefix'], None)}")
    w.do(f"call void @{PRINT}(ptr %scratch, ptr {prefix}, i32 {kind}, i64 {bits.text}, "
         f"i32 %pid0, i32 %pid1, i32 %pid2, i32 {len(index)}, ptr {place})")


def print_text(k: KernelEmitter, op: Op) -> None:
    """Print a prefix alone (the driver prints it with the number 0)."""
    w = k.w
    w.declare(PRINT, "void (ptr, ptr, i32, i64, i32, i32, i32, i32, ptr)")
    prefix = _text(k, f"{NO_VALUE}{LAYOUT}{label(op.attrs['prefix'], None)}")
    w.do(f"call void @{PRINT}(ptr %scratch, ptr {prefix}, i32 0, i64 0, "
         f"i32 %pid0, i32 %pid1, i32 %pid2, i32 0, ptr null)")


def check(k: KernelEmitter, op: Op, args: list[Val]) -> None:
    """Leave the program with a message if the condition fails where the mask is set."""
    w = k.w
    bad = w.pure("i1", "xor i1 {}, true", args[0])
    if len(args) > 1:
        bad = w.pure("i1", "and i1 {}, {}", bad, args[1])
    w.declare(FAIL, "void (ptr, ptr, i32, i32, i32)")
    branch = w.begin_if(bad, "failed")
    where = f"{op.loc}: " if op.loc is not None and str(op.loc) else ""
    message = _text(k, f"{where}{op.attrs['message'] or 'condition'}")
    w.do(f"call void @{FAIL}(ptr %scratch, ptr {message}, i32 %pid0, i32 %pid1, i32 %pid2) cold")
    block = w.scope.block
    w.end_if(branch)
    block.term = "ret void"


__all__ = ["DType", "check", "print_element", "print_text"]
