"""LLVM text of sorting a row: keys become words whose order as unsigned numbers is the order asked
for, with the place of the key in the low 32 bits, so that sorting words is stable by itself.
"""

from __future__ import annotations

from tegula.ir.types import DType

DECLARES = ("declare i64 @llvm.umin.i64(i64, i64)",)


def words_text(bits: int) -> str:
    """Merge sort of unsigned words; gives the array that holds the result, %a or %b."""
    w, size = f"i{bits}", bits // 8
    return f"""
define internal ptr @sort_words_{bits}(ptr %a, ptr %b, i64 %n) nounwind {{
entry:
  %last = sub i64 %n, 1
  br label %pass
pass:
  %width = phi i64 [ 1, %entry ], [ %width2, %swap ]
  %src = phi ptr [ %a, %entry ], [ %dst, %swap ]
  %dst = phi ptr [ %b, %entry ], [ %src, %swap ]
  %sorted = icmp uge i64 %width, %n
  %width2 = shl i64 %width, 1
  br i1 %sorted, label %done, label %run
run:
  %lo = phi i64 [ 0, %pass ], [ %hi, %next ]
  %mid0 = add i64 %lo, %width
  %mid = call i64 @llvm.umin.i64(i64 %mid0, i64 %n)
  %hi0 = add i64 %lo, %width2
  %hi = call i64 @llvm.umin.i64(i64 %hi0, i64 %n)
  br label %merge
merge:
  %k = phi i64 [ %lo, %run ], [ %k1, %merge ]
  %i = phi i64 [ %lo, %run ], [ %i1, %merge ]
  %j = phi i64 [ %mid, %run ], [ %j1, %merge ]
  %i.left = icmp ult i64 %i, %mid
  %j.left = icmp ult i64 %j, %hi
  %i.at = call i64 @llvm.umin.i64(i64 %i, i64 %last)
  %j.at = call i64 @llvm.umin.i64(i64 %j, i64 %last)
  %x.p = getelementptr {w}, ptr %src, i64 %i.at
  %y.p = getelementptr {w}, ptr %src, i64 %j.at
  %x = load {w}, ptr %x.p, align {size}
  %y = load {w}, ptr %y.p, align {size}
  %le = icmp ule {w} %x, %y
  %j.gone = xor i1 %j.left, true
  %first = or i1 %le, %j.gone
  %take = and i1 %first, %i.left
  %z = select i1 %take, {w} %x, {w} %y
  %z.p = getelementptr {w}, ptr %dst, i64 %k
  store {w} %z, ptr %z.p, align {size}
  %take.i = zext i1 %take to i64
  %other = xor i1 %take, true
  %take.j = zext i1 %other to i64
  %i1 = add i64 %i, %take.i
  %j1 = add i64 %j, %take.j
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %hi
  br i1 %more, label %merge, label %next
next:
  %runs = icmp ult i64 %hi, %n
  br i1 %runs, label %run, label %swap
swap:
  br label %pass
done:
  ret ptr %src
}}
"""


def sort_text(name: str, kind: str, e: DType, bits: int, descending: bool) -> str:
    """Turn a row of keys into words and sort those."""
    b, w, size = f"i{e.bits}", f"i{bits}", bits // 8
    return f"""
define internal ptr @{name}(ptr %in, i64 %step, ptr %a, ptr %b, i64 %n) nounwind {{
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %each ]
  %at = mul i64 %i, %step
  %p = getelementptr {b}, ptr %in, i64 %at
  %x = load {b}, ptr %p, align {e.itemsize}
{_ordered(kind, e)}
  %key = xor {b} %u, {-1 if descending else 0}
  %high = zext {b} %key to {w}
  %moved = shl {w} %high, 32
  %place = {"add" if bits == 64 else "zext"} {_place(bits)}
  %word = or {w} %moved, %place
  %q = getelementptr {w}, ptr %a, i64 %i
  store {w} %word, ptr %q, align {size}
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %each, label %sort
sort:
  %r = call ptr @sort_words_{bits}(ptr %a, ptr %b, i64 %n)
  ret ptr %r
}}
"""


def _place(bits: int) -> str:
    return "i64 %i, 0" if bits == 64 else f"i64 %i to i{bits}"


def _ordered(kind: str, e: DType) -> str:
    """`%u`: unsigned bits in the order of the numbers `%x`."""
    b, sign = f"i{e.bits}", -(1 << (e.bits - 1))
    if kind == "uint":
        return f"  %u = xor {b} %x, 0"
    if kind == "int":
        return f"  %u = xor {b} %x, {sign}"
    infinity = ((1 << (e.bits - 1 - e.mantissa)) - 1) << e.mantissa
    return f"""  %minus = ashr {b} %x, {e.bits - 1}
  %turn = or {b} %minus, {sign}
  %turned = xor {b} %x, %turn
  %size = and {b} %x, {-sign - 1}
  %nan = icmp ugt {b} %size, {infinity}
  %u = select i1 %nan, {b} -1, {b} %turned"""


def permute_text(name: str, size: int, bits: int) -> str:
    """Write a row in the order that the low 32 bits of words give."""
    e, w = f"i{size}", f"i{bits}"
    low = "and i64 %word, 4294967295" if bits == 64 else f"trunc {w} %low to i64"
    cut = "" if bits == 64 else f"  %low = and {w} %word, 4294967295\n"
    return f"""
define internal void @{name}(ptr %in, i64 %step, ptr %out, i64 %ostep, ptr %words, i64 %n)
    nounwind {{
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %each ]
  %q = getelementptr {w}, ptr %words, i64 %i
  %word = load {w}, ptr %q, align {bits // 8}
{cut}  %from = {low}
  %at = mul i64 %from, %step
  %p = getelementptr {e}, ptr %in, i64 %at
  %x = load {e}, ptr %p, align 1
  %to = mul i64 %i, %ostep
  %r = getelementptr {e}, ptr %out, i64 %to
  store {e} %x, ptr %r, align 1
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %each, label %done
done:
  ret void
}}
"""
