"""Values as the lanes of a vector see them, and arithmetic on them.

Along the vector dimension of a loop nest a value is one of three things:

* `Uni`: the same in all lanes, a scalar;
* `Lin`: ``base + m * j`` where j is the position along the vector dimension; base and m do not
  vary along it.  Indices, offsets and most pointers are of this kind, and stay scalars;
* `Vec`: a vector with a value for every lane.

`Lanes` knows the current position and turns one into another.
"""

from __future__ import annotations

from dataclasses import dataclass

from tegula.codegen.loops.text import Scope, Val, Writer
from tegula.ir.types import DType, Pointer, ScalarType


class Uni:
    """The same value in all lanes."""

    __slots__ = ("val",)

    def __init__(self, val: Val) -> None:
        self.val = val

    @property
    def scope(self) -> Scope:
        return self.val.scope


class Lin:
    """``base + m * j``; m counts elements for pointers, and is an int or a scalar.

    Integers are meant modulo the width of their type.  `exact` ones are not: their terms may be
    extended one by one, since no lane of the row leaves the type.
    """

    __slots__ = ("base", "exact", "m")

    def __init__(self, base: Val, m: int | Val, exact: bool = False) -> None:
        self.base = base
        self.m = m
        self.exact = exact

    @property
    def key(self) -> tuple[object, ...]:
        """What two linear values have in common that are equal everywhere."""
        return self.base.text, self.base.ty, self.m if isinstance(self.m, int) else self.m.text

    @property
    def scope(self) -> Scope:
        if isinstance(self.m, Val) and self.m.scope.depth > self.base.scope.depth:
            return self.m.scope
        return self.base.scope


class Vec:
    """One value per lane."""

    __slots__ = ("val",)

    def __init__(self, val: Val) -> None:
        self.val = val

    @property
    def scope(self) -> Scope:
        return self.val.scope


Lane = Uni | Lin | Vec

_FLOAT = {"f16": "half", "bf16": "i16", "f32": "float", "f64": "double"}


def reg_type(e: ScalarType) -> str:
    """LLVM type that holds one element in a register (narrow exotic floats by their bits)."""
    if isinstance(e, Pointer):
        return "ptr"
    if e.is_float:
        return _FLOAT.get(e.name, "i8")
    return f"i{e.bits}"


def mem_type(e: ScalarType) -> str:
    """LLVM type of one element in memory (i1 is a byte)."""
    return "i8" if isinstance(e, DType) and e.bits == 1 else reg_type(e)


def size_of(e: ScalarType) -> int:
    return 8 if isinstance(e, Pointer) else e.itemsize


def signed(e: ScalarType) -> bool:
    return isinstance(e, DType) and e.is_signed


def vector(n: int, ty: str) -> str:
    """`n` lanes of `ty`."""
    return ty if n == 1 else f"<{n} x {ty}>"


def suffix(n: int, ty: str) -> str:
    """How intrinsic names spell the type."""
    short = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(ty, ty)
    return short if n == 1 else f"v{n}{short}"


def float_bits(value: float, e: DType) -> str:
    """A float constant as LLVM text (or its bits where the register type is an integer)."""
    import struct

    if e.name == "f64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if e.name == "f32":
        import numpy as np

        with np.errstate(all="ignore"):
            wide = float(np.float32(value))
        return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"
    import numpy as np

    if e.bits == 8:
        from tegula.ir.ops.rounding import float8_bits

        return str(float8_bits(value, e))
    from tegula.ir.types import numpy_dtype

    with np.errstate(all="ignore"):
        raw = np.asarray(value).astype(numpy_dtype(e)).tobytes()
    bits = int.from_bytes(raw, "little")
    return f"0xH{bits:04X}" if e.name == "f16" else str(bits)


@dataclass
class Position:
    """Where along the vector dimension the lanes are: at ``iv + off + lane``."""

    iv: Val | None
    off: int
    n: int
    """Number of lanes."""
    extent: int
    """Size of the vector dimension."""


class Lanes:
    """Arithmetic on lane values at one position."""

    bypass = False

    def __init__(self, w: Writer, n: int, position: Position) -> None:
        self.w = w
        self.n = n
        self.position = position
        self.steady: set[tuple[object, ...]] = set()
        """Keys of linear values that are known to stay within their type along the row."""
        self.watched: dict[tuple[object, ...], Val] | None = None
        """Where a row is looked at: the values that would have to, with the condition for it."""

    def vt(self, e: ScalarType) -> str:
        return vector(self.n, reg_type(e))

    # -- constants

    def scalar_const(self, value: int | float, e: ScalarType) -> Val:
        """A constant scalar of a dtype."""
        w = self.w
        if isinstance(e, Pointer):
            return w.literal("null", "ptr")
        if e.is_float:
            key = ("f", repr(value), e)
            found = w.constants.get(key)
            if found is None:
                found = w.literal(float_bits(float(value), e), reg_type(e), float(value))
                w.constants[key] = found
            return found
        bits = e.bits
        v = int(value) & ((1 << bits) - 1)
        if bits > 1 and v >> (bits - 1):
            v -= 1 << bits
        return w.const(v, reg_type(e))

    def splat_text(self, scalar: Val) -> Val:
        """A constant vector with a constant scalar in every lane."""
        return self.w.literal(
            f"splat ({scalar.ty} {scalar.text})", vector(self.n, scalar.ty), scalar.const
        )

    # -- position

    def pos(self) -> Val:
        """Position of the first lane, i64."""
        p, w = self.position, self.w
        off = w.const(p.off, "i64")
        if p.iv is None:
            return off
        return w.add(p.iv, off)

    # -- conversion

    def splat(self, x: Val) -> Val:
        """A scalar in every lane."""
        n, w = self.n, self.w
        if n == 1:
            return x
        if x.const is not None or x.text == "null":
            return self.splat_text(x)
        ty = vector(n, x.ty)
        first = w.pure(ty, f"insertelement {ty} poison, {x.ty} {{}}, i64 0", x)
        return w.pure(
            ty, f"shufflevector {ty} {{}}, {ty} poison, <{n} x i32> zeroinitializer", first
        )

    def iota(self, m: int, ty: str) -> Val:
        """The constant vector 0, m, 2m, ..."""
        items = ", ".join(f"{ty} {_wrap(i * m, ty)}" for i in range(self.n))
        return self.w.literal(f"<{items}>", vector(self.n, ty))

    def at_pos(self, x: Lin, e: ScalarType) -> Val:
        """The scalar value of a linear value in the first lane."""
        w, m = self.w, x.m
        if isinstance(e, Pointer):
            pos = self.pos()
            p = self.position
            elem = mem_type(e.elem)
            if isinstance(m, int) and p.iv is not None:
                index = w.mul(p.iv, w.const(m, "i64"))
                moved = w.gep(elem, x.base, index)
                return w.gep(elem, moved, w.const(p.off * m, "i64"))
            step = w.const(m, "i64") if isinstance(m, int) else m
            return w.gep(elem, x.base, w.mul(pos, step))
        ty = x.base.ty
        pos = w.resize(self.pos(), ty, True)
        step = w.const(m, ty) if isinstance(m, int) else m
        return w.add(x.base, w.mul(pos, step))

    def vec(self, x: Lane, e: ScalarType) -> Val:
        """The vector of a lane value of element type `e`."""
        if isinstance(x, Vec):
            return x.val
        if isinstance(x, Uni):
            return self.splat(x.val)
        first = self.at_pos(x, e)
        if self.n == 1:
            return first
        w, m = self.w, x.m
        if isinstance(e, Pointer):
            ty = vector(self.n, "ptr")
            if isinstance(m, int):
                index = self.iota(m, "i64")
            else:
                index = self._scaled_iota(m)
            return w.pure(ty, f"getelementptr {mem_type(e.elem)}, ptr {{}}, {index.ty} {{}}",
                          first, index)
        ty = first.ty
        vt = vector(self.n, ty)
        steps = self.iota(m, ty) if isinstance(m, int) else self._scaled_iota(m)
        return w.pure(vt, f"add {vt} {{}}, {{}}", self.splat(first), steps)

    def _scaled_iota(self, m: Val) -> Val:
        vt = vector(self.n, m.ty)
        return self.w.pure(vt, f"mul {vt} {{}}, {{}}", self.splat(m), self.iota(1, m.ty))

    def prefix_mask(self, count: int) -> Val:
        """Constant i1 vector whose first `count` lanes are set."""
        if self.n == 1:
            return self.w.const(1 if count else 0, "i1")
        return self.mask([i < count for i in range(self.n)])

    def mask(self, lanes: list[bool]) -> Val:
        """Constant i1 vector."""
        bits = ", ".join(f"i1 {'true' if on else 'false'}" for on in lanes)
        count = sum(lanes)
        if all(lanes[:count]):
            self.w.prefixes[f"<{bits}>"] = count
        return self.w.literal(f"<{bits}>", vector(self.n, "i1"))

    # -- linear arithmetic; None where the result is not linear

    def linear(self, name: str, args: list[Lane], e: ScalarType, to: ScalarType) -> Lane | None:
        """`name` applied to lane values of which at least one is linear."""
        handler = _LINEAR.get(name)
        return handler(self, args, e, to) if handler else None

    def _m_val(self, m: int | Val, ty: str) -> Val:
        return self.w.const(m, ty) if isinstance(m, int) else m

    def add_steps(self, a: int | Val, b: int | Val, ty: str, sign: int = 1) -> int | Val:
        """Sum (or difference) of two steps."""
        if isinstance(a, int) and isinstance(b, int):
            return a + sign * b
        x, y = self._m_val(a, ty), self._m_val(b, ty)
        return self.w.add(x, y) if sign == 1 else self.w.sub(x, y)

    def made(self, base: Val, m: int | Val) -> Lane:
        """A linear value, or a uniform one if the step is 0."""
        if isinstance(m, Val) and m.const is not None:
            m = int(m.const)
        return Uni(base) if isinstance(m, int) and m == 0 else Lin(base, m)

    def widen(self, x: Lane, e: DType, ty: str) -> Lane | None:
        """A linear or uniform integer extended (or cut) to `ty`; None if it would not stay so."""
        w = self.w
        if isinstance(x, Uni):
            return Uni(w.resize(x.val, ty, e.is_signed))
        assert isinstance(x, Lin)
        grows = int(ty[1:]) > int(x.base.ty[1:])
        if grows and not self.is_exact(x, e):
            return None
        m = x.m if isinstance(x.m, int) else w.resize(x.m, ty, e.is_signed)
        return self.made(w.resize(x.base, ty, e.is_signed), m)

    def is_exact(self, x: Lin, e: DType) -> bool:
        """Whether no lane of the row leaves the type of a linear value."""
        if x.exact or x.key in self.steady:
            return True
        if self.watched is not None and e.is_signed and e.bits >= 32:
            condition = row_stays(self.w, x, e, self.position.extent)
            if condition is not None:
                self.watched[x.key] = condition
                return True
        base = x.base.const
        if base is None or not isinstance(x.m, int):
            return False
        last = int(base) + x.m * (self.position.extent - 1)
        return min(int(base), last) >= e.min_value and max(int(base), last) <= e.max_value


def within(w: Writer, x: Val, low: int, high: int) -> Val | None:
    """Whether a signed number lies in a range; None if the range is empty."""
    if low > high:
        return None
    if x.const is not None:
        return w.const(int(low <= x.const <= high), "i1")
    half = 1 << (int(x.ty[1:]) - 1)
    true = w.const(1, "i1")
    at_least = true if low <= -half else w.icmp("sge", x, w.const(low, x.ty))
    at_most = true if high >= half - 1 else w.icmp("sle", x, w.const(high, x.ty))
    return w.both(at_least, at_most)


def row_stays(w: Writer, x: Lin, e: DType, extent: int) -> Val | None:
    """Whether no lane of a row leaves the type; None where one comparison cannot tell."""
    if isinstance(x.m, int):
        reach = x.m * (extent - 1)
        return within(w, x.base, e.min_value - min(0, reach), e.max_value - max(0, reach))
    if e.bits > 32 or extent > 1 << 30:
        return None
    reach64 = w.mul(w.resize(x.m, "i64", True), w.const(extent - 1, "i64"))
    last = w.add(w.resize(x.base, "i64", True), reach64)
    return w.icmp("eq", last, w.resize(w.resize(last, x.base.ty, True), "i64", True))


def _wrap(value: int, ty: str) -> int:
    bits = int(ty[1:])
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _split(x: Lane) -> tuple[Val, int | Val] | None:
    if isinstance(x, Uni):
        return x.val, 0
    return (x.base, x.m) if isinstance(x, Lin) else None


def _lin_add(lanes: Lanes, args: list[Lane], e: ScalarType, to: ScalarType) -> Lane | None:
    a, b = _split(args[0]), _split(args[1])
    if a is None or b is None:
        return None
    return lanes.made(lanes.w.add(a[0], b[0]), lanes.add_steps(a[1], b[1], a[0].ty))


def _lin_sub(lanes: Lanes, args: list[Lane], e: ScalarType, to: ScalarType) -> Lane | None:
    a, b = _split(args[0]), _split(args[1])
    if a is None or b is None:
        return None
    return lanes.made(lanes.w.sub(a[0], b[0]), lanes.add_steps(a[1], b[1], a[0].ty, -1))


def _lin_mul(lanes: Lanes, args: list[Lane], e: ScalarType, to: ScalarType) -> Lane | None:
    a, b = args
    if isinstance(a, Uni):
        a, b = b, a
    if not (isinstance(a, Lin) and isinstance(b, Uni)):
        return None
    w, u = lanes.w, b.val
    if isinstance(a.m, int) and u.const is not None:
        m: int | Val = a.m * int(u.const)
    else:
        m = w.mul(lanes._m_val(a.m, u.ty), u)
    return lanes.made(w.mul(a.base, u), m)


def _lin_shl(lanes: Lanes, args: list[Lane], e: ScalarType, to: ScalarType) -> Lane | None:
    a, b = args
    if not (isinstance(a, Lin) and isinstance(b, Uni) and b.val.const is not None):
        return None
    k = int(b.val.const)
    if not 0 <= k < int(a.base.ty[1:]) - 1:
        return None
    return _lin_mul(lanes, [a, Uni(lanes.w.const(1 << k, a.base.ty))], e, to)


def _lin_cast(lanes: Lanes, args: list[Lane], e: ScalarType, to: ScalarType) -> Lane | None:
    (x,) = args
    if isinstance(e, Pointer) or isinstance(to, Pointer) or e.is_float or to.is_float:
        return None
    if to.bits == 1 or e.bits == 1:
        return None
    return lanes.widen(x, e, reg_type(to))


def _lin_addptr(lanes: Lanes, args: list[Lane], e: ScalarType, to: ScalarType) -> Lane | None:
    """`e` is the pointer type, `to` the offset's dtype."""
    ptr, offset = args
    assert isinstance(e, Pointer) and isinstance(to, DType)
    if isinstance(ptr, Vec) or isinstance(offset, Vec) or to.bits == 1:
        return None
    wide = lanes.widen(offset, to, "i64")
    p, o = _split(ptr), _split(wide) if wide is not None else None
    if p is None or o is None:
        return None
    base = lanes.w.gep(mem_type(e.elem), p[0], o[0])
    return lanes.made(base, lanes.add_steps(p[1], o[1], "i64"))


_LINEAR = {
    "add": _lin_add,
    "sub": _lin_sub,
    "mul": _lin_mul,
    "shl": _lin_shl,
    "cast": _lin_cast,
    "addptr": _lin_addptr,
}
