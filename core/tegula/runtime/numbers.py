"""Numbers that a native launch function computes from its slots: sizes and strides, for example."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence


class Number(ctypes.Structure):
    """constant + factor * a * b, where a and b are slots (-1: one). Slots and the result are
    shifted left and back, so that what lies above a number's bits is its sign."""

    _fields_ = (
        ("constant", ctypes.c_int64),
        ("factor", ctypes.c_int64),
        ("a", ctypes.c_int32),
        ("a_shift", ctypes.c_int32),
        ("b", ctypes.c_int32),
        ("b_shift", ctypes.c_int32),
        ("shift", ctypes.c_int64),
    )


def number(constant: int, factor: int, slots: Sequence[Sequence[int]], bits: int) -> Number:
    """The record of a number: up to two `slots` are (place, bits)."""
    (a, a_bits), (b, b_bits) = (*slots, (-1, 64), (-1, 64))[:2]
    return Number(constant, factor, a, 64 - a_bits, b, 64 - b_bits, 64 - bits)


TEXT = """\
define internal i64 @number(ptr %number, ptr %slots) {
  %constant = load i64, ptr %number
  %factor.p = getelementptr i8, ptr %number, i64 8
  %a.p = getelementptr i8, ptr %number, i64 16
  %b.p = getelementptr i8, ptr %number, i64 24
  %shift.p = getelementptr i8, ptr %number, i64 32
  %factor = load i64, ptr %factor.p
  %shift = load i64, ptr %shift.p
  %a = call i64 @slot_value(ptr %a.p, ptr %slots)
  %b = call i64 @slot_value(ptr %b.p, ptr %slots)
  %ab = mul i64 %a, %b
  %scaled = mul i64 %ab, %factor
  %sum = add i64 %scaled, %constant
  %up = shl i64 %sum, %shift
  %cut = ashr i64 %up, %shift
  ret i64 %cut
}

define internal i64 @slot_value(ptr %which, ptr %slots) { ; a slot's place, and its shift
entry:
  %shift.p = getelementptr i8, ptr %which, i64 4
  %place = load i32, ptr %which
  %shift.i = load i32, ptr %shift.p
  %shift = zext i32 %shift.i to i64
  %none = icmp slt i32 %place, 0
  br i1 %none, label %one, label %read
one:
  ret i64 1
read:
  %slot.p = getelementptr i64, ptr %slots, i32 %place
  %slot = load i64, ptr %slot.p
  %up = shl i64 %slot, %shift
  %value = ashr i64 %up, %shift
  ret i64 %value
}
"""
"""LLVM text of `number(record, slots)`."""
