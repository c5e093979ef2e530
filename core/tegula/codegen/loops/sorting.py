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


MEMSET = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
RADIX_FROM = 96
"""Rows of this length or more are sorted digit by digit; a fixed effort for the counts."""


def words_sorter(bits: int, key_bytes: int, n: int) -> tuple[str, str, tuple[str, ...]]:
    """The function that sorts `n` words whose keys lie from bit 32 on: name, text, declarations."""
    if n < RADIX_FROM:
        return f"sort_words_{bits}", words_text(bits), DECLARES
    name = f"radix_words_{bits}_{key_bytes}"
    return name, _radix_text(name, bits, key_bytes), (MEMSET,)


def _radix_text(name: str, bits: int, digits: int) -> str:
    """Counting sort by each byte of the key from the lowest on; bytes that are all equal are
    skipped.
    """
    w, size = f"i{bits}", bits // 8
    counting, passes = [], []
    for d in range(digits):
        counting.append(f"""  %d{d}.s = lshr {w} %x, {32 + 8 * d}
  %d{d}.t = trunc {w} %d{d}.s to i8
  %d{d} = zext i8 %d{d}.t to i64
  %d{d}.p = getelementptr i32, ptr %counts, i64 %d{d}
  %d{d}.q = getelementptr i32, ptr %d{d}.p, i64 {256 * d}
  %d{d}.o = load i32, ptr %d{d}.q
  %d{d}.n = add i32 %d{d}.o, 1
  store i32 %d{d}.n, ptr %d{d}.q""")
        passes.append(_radix_pass(d, w, size))
    return f"""
define internal ptr @{name}(ptr %a, ptr %b, i64 %n) nounwind {{
entry:
  %counts = alloca [{256 * digits} x i32], align 64
  call void @llvm.memset.p0.i64(ptr %counts, i8 0, i64 {1024 * digits}, i1 false)
  br label %count
count:
  %at = phi i64 [ 0, %entry ], [ %next, %count ]
  %x.p = getelementptr {w}, ptr %a, i64 %at
  %x = load {w}, ptr %x.p, align {size}
{chr(10).join(counting)}
  %next = add i64 %at, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %count, label %pass0
pass0:
  %src0 = phi ptr [ %a, %count ]
  %dst0 = phi ptr [ %b, %count ]
{"".join(passes)}
  ret ptr %src{digits}
}}
"""


def _radix_pass(d: int, w: str, size: int) -> str:
    """Move the words from %src to %dst by one byte, in the block that the pass before ends in."""
    return f"""
  %first{d} = load {w}, ptr %src{d}, align {size}
  %f{d}.s = lshr {w} %first{d}, {32 + 8 * d}
  %f{d}.t = trunc {w} %f{d}.s to i8
  %f{d} = zext i8 %f{d}.t to i64
  %c{d} = getelementptr i32, ptr %counts, i64 {256 * d}
  %f{d}.p = getelementptr i32, ptr %c{d}, i64 %f{d}
  %f{d}.c = load i32, ptr %f{d}.p
  %f{d}.w = zext i32 %f{d}.c to i64
  %same{d} = icmp eq i64 %f{d}.w, %n
  br i1 %same{d}, label %skip{d}, label %sum{d}
sum{d}:
  %b{d} = phi i64 [ 0, %pass{d} ], [ %b{d}.1, %sum{d} ]
  %t{d} = phi i32 [ 0, %pass{d} ], [ %t{d}.1, %sum{d} ]
  %b{d}.p = getelementptr i32, ptr %c{d}, i64 %b{d}
  %b{d}.c = load i32, ptr %b{d}.p
  store i32 %t{d}, ptr %b{d}.p
  %t{d}.1 = add i32 %t{d}, %b{d}.c
  %b{d}.1 = add i64 %b{d}, 1
  %b{d}.m = icmp ult i64 %b{d}.1, 256
  br i1 %b{d}.m, label %sum{d}, label %move{d}
move{d}:
  %i{d} = phi i64 [ 0, %sum{d} ], [ %i{d}.1, %move{d} ]
  %x{d}.p = getelementptr {w}, ptr %src{d}, i64 %i{d}
  %x{d} = load {w}, ptr %x{d}.p, align {size}
  %g{d}.s = lshr {w} %x{d}, {32 + 8 * d}
  %g{d}.t = trunc {w} %g{d}.s to i8
  %g{d} = zext i8 %g{d}.t to i64
  %g{d}.p = getelementptr i32, ptr %c{d}, i64 %g{d}
  %to{d} = load i32, ptr %g{d}.p
  %to{d}.1 = add i32 %to{d}, 1
  store i32 %to{d}.1, ptr %g{d}.p
  %to{d}.w = zext i32 %to{d} to i64
  %y{d}.p = getelementptr {w}, ptr %dst{d}, i64 %to{d}.w
  store {w} %x{d}, ptr %y{d}.p, align {size}
  %i{d}.1 = add i64 %i{d}, 1
  %i{d}.m = icmp ult i64 %i{d}.1, %n
  br i1 %i{d}.m, label %move{d}, label %moved{d}
moved{d}:
  br label %pass{d + 1}
skip{d}:
  br label %pass{d + 1}
pass{d + 1}:
  %src{d + 1} = phi ptr [ %dst{d}, %moved{d} ], [ %src{d}, %skip{d} ]
  %dst{d + 1} = phi ptr [ %src{d}, %moved{d} ], [ %dst{d}, %skip{d} ]"""


def sort_text(
    name: str, kind: str, e: DType, bits: int, descending: bool, sorter: str
) -> str:
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
  %r = call ptr @{sorter}(ptr %a, ptr %b, i64 %n)
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
