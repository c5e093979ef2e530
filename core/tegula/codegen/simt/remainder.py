"""Remainders of floats, exact for all quotients: LLVM's own expansion divides, and rounds."""

from __future__ import annotations

from tegula.codegen.loops.elementwise import RULES, elem, in_float
from tegula.codegen.loops.lanes import Lanes, reg_type
from tegula.codegen.loops.text import Val
from tegula.ir.core import Op
from tegula.ir.types import DType

_FRACTION = {32: 23, 64: 52}
"""Bits of a float's fraction."""


def remainder(l: Lanes, op: Op, x: Val, y: Val) -> Val:
    """The rule for `rem`."""
    e = elem(op)
    if not e.is_float:
        return RULES["rem"](l, op, x, y)
    return in_float(l, e, lambda t, a, b: _Remainder(l, t).of(a, b), x, y)


class _Remainder:
    """x - trunc(x / y) * y by long division of the fractions: some bits of the quotient a step."""

    def __init__(self, l: Lanes, e: DType) -> None:
        self.w = l.w
        self.float = reg_type(e)
        self.int = f"i{e.bits}"
        self.fraction = _FRACTION[e.bits]
        self.implicit = 1 << self.fraction
        self.sign = -(1 << e.bits - 1)
        self.infinity = ((1 << e.bits - 1) - 1) >> self.fraction << self.fraction

    def _const(self, value: int) -> Val:
        return self.w.const(value, self.int)

    def _do(self, verb: str, a: Val, b: Val | int) -> Val:
        b = self.w.const(b, a.ty) if isinstance(b, int) else b
        return self.w.pure(a.ty, f"{verb} {a.ty} {{}}, {{}}", a, b)

    def _bits(self, x: Val) -> Val:
        return self.w.pure(self.int, f"bitcast {self.float} {{}} to {self.int}", x)

    def of(self, x: Val, y: Val) -> Val:
        w = self.w
        bits, b = self._bits(x), self._do("and", self._bits(y), ~self.sign)
        sign, a = self._do("and", bits, self.sign), self._do("and", bits, ~self.sign)
        infinity = self._const(self.infinity)
        undefined = self._do("or", w.icmp("eq", b, self._const(0)), w.icmp("uge", a, infinity))
        undefined = self._do("or", undefined, w.icmp("ugt", b, infinity))
        larger = self._do("and", w.icmp("uge", a, b), self._do("xor", undefined, 1))
        branch = w.begin_if(larger)
        rest = self._do("or", self._divided(a, b), sign)
        (out,) = w.end_if(branch, [rest], [bits])
        nan = self._const(self.infinity | self.implicit >> 1)
        out = w.select(undefined, nan, out)
        return w.pure(self.float, f"bitcast {self.int} {{}} to {self.float}", out)

    def _parts(self, a: Val) -> tuple[Val, Val]:
        """Exponent and fraction as i64: the number is fraction * 2 ** (exponent - a constant)."""
        w = self.w
        exponent = self._do("lshr", a, self.fraction)
        normal = w.icmp("ne", exponent, self._const(0))
        one = w.select(normal, self._const(self.implicit), self._const(0))
        fraction = self._do("or", self._do("and", a, self.implicit - 1), one)
        exponent = w.select(normal, exponent, self._const(1))
        return w.resize(exponent, "i64", False), w.resize(fraction, "i64", False)

    def _divided(self, a: Val, b: Val) -> Val:
        """The bits of a rem b, for finite numbers b <= a and b > 0."""
        w = self.w
        (high, rest), (low, by) = self._parts(a), self._parts(b)
        step = w.const(63 - self.fraction, "i64")
        rest = self._rem(rest, by)
        # The instructions stay behind the branch: where b is 0 they must not run.
        loop = w.begin_loop(w.const(0, "i64"), w.sub(high, low), step, [rest], True, "fmod")
        left = w.sub(w.sub(high, low), loop.iv)
        now = w.call("llvm.smin.i64", "i64", left, step)
        (rest,) = w.end_loop(loop, [self._rem(self._do("shl", loop.carried[0], now), by)])
        zeros = w.here("i64", f"call i64 @llvm.ctlz.i64(i64 {rest.text}, i1 false)")
        w.declare("llvm.ctlz.i64", "i64 (i64, i1)")
        room = w.sub(low, w.const(1, "i64"))
        shift = self._do("sub", zeros, 63 - self.fraction)
        shift = w.call("llvm.smin.i64", "i64", shift, room)
        scaled = self._do("shl", w.sub(room, shift), self.fraction)
        made = self._do("add", scaled, self._do("shl", rest, shift))
        made = w.select(w.icmp("eq", rest, w.const(0, "i64")), w.const(0, "i64"), made)
        return w.resize(made, self.int, False)

    def _rem(self, a: Val, b: Val) -> Val:
        return self.w.here("i64", f"urem i64 {a.text}, {b.text}")
