"""Reductions and scans inside a nest.

Along the vector dimension a reduction keeps a vector of partial results in registers and folds it
at the end of the row; along any other dimension it keeps one partial result per column in its
result buffer.  A scan along the vector dimension folds each vector in log2(lanes) steps and
carries the total; along another it keeps the last value of each column.  Any elementwise combining
region runs on whole vectors.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from tegula.codegen.loops import x86
from tegula.codegen.loops.convert import binary, float_const, from_f32, intrinsic, to_f32
from tegula.codegen.loops.elementwise import minmax
from tegula.codegen.loops.evaluate import Evaluation, Index
from tegula.codegen.loops.exprs import fold_kind, is_elementwise
from tegula.codegen.loops.handlers import Handler
from tegula.codegen.loops.lanes import Lane, Lanes, Uni, Vec, reg_type, suffix, vector
from tegula.codegen.loops.plan import Item
from tegula.codegen.loops.text import Val
from tegula.ir.core import Op
from tegula.ir.patterns import neutral
from tegula.ir.types import DType, elem_of, f32, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.nest import Nest


def accumulator(e: DType) -> DType:
    """The dtype in which partial results are kept.

    8-bit floats stay what they are: each of their operations limits its result to finite numbers.
    """
    return f32 if e.is_float and e.bits == 16 else e


def combine(l: Lanes, kind: str, e: DType, a: Val, b: Val) -> Val:
    """A recognised combination of two values."""
    if kind in ("add", "mul"):
        if e.bits == 1:
            return binary(l, "and" if kind == "mul" else "xor", a, b)
        return binary(l, ("f" if e.is_float else "") + kind, a, b)
    if kind in ("and", "or", "xor"):
        return binary(l, kind, a, b)
    if kind in ("max", "min") and e.is_float and x86.available(l.w.target):
        return x86.minmax(l, kind, e, a, b)  # no operand is a signalling NaN: see `sources`
    return minmax(l, kind[:3], kind.endswith("nan"), e, a, b)


def identity(l: Lanes, kind: str, e: DType) -> Val:
    """What leaves every value unchanged, in every lane."""
    if e.is_float:
        value = neutral(kind, e)
        if kind in ("max", "min"):
            value = nan  # ignored by the other operand, and right if all are NaN
        if kind == "add":
            value = -0.0
        return float_const(l, float(value), e)
    c = l.scalar_const(neutral(kind, e), e)
    return c if l.n == 1 else l.splat_text(c)


_REDUCE = {"add": "add", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}


def horizontal(l: Lanes, kind: str, e: DType, x: Val) -> Val:
    """Fold the lanes of a vector to a scalar."""
    if l.n == 1:
        return x
    ty = reg_type(e)
    sfx = suffix(l.n, ty)
    if e.bits == 1 and kind in ("add", "max", "min", "mul"):
        kind = {"add": "xor", "max": "or", "min": "and", "mul": "and"}[kind]
    if e.is_float and kind in ("add", "mul"):
        name = f"llvm.vector.reduce.f{kind}.{sfx}"
        l.w.declare(name, f"{ty} ({ty}, {x.ty})")
        first = l.scalar_const(-0.0 if kind == "add" else 1.0, e)
        return l.w.pure(ty, f"call reassoc {ty} @{name}({ty} {first.text}, {x.ty} {{}})", x)
    if e.is_float:
        return _halving(l, kind, e, x)
    if kind in _REDUCE:
        verb = kind
    else:
        verb = ("s" if e.is_signed else "u") + kind[:3]
    return l.w.call(f"llvm.vector.reduce.{verb}.{sfx}", ty, x)


def _halving(l: Lanes, kind: str, e: DType, x: Val) -> Val:
    """Fold a vector by combining its halves."""
    w, n, ty = l.w, l.n, reg_type(e)
    while n > 1:
        half = n // 2
        lanes = Lanes(w, half, l.position)
        parts = []
        for start in (0, half):
            order = ", ".join(f"i32 {start + i}" for i in range(half))
            if half == 1:
                parts.append(w.pure(ty, f"extractelement {x.ty} {{}}, i64 {start}", x))
            else:
                parts.append(w.pure(vector(half, ty), f"shufflevector {x.ty} {{}}, {x.ty} poison, "
                                                      f"<{half} x i32> <{order}>", x))
        x = combine(lanes, kind, e, parts[0], parts[1])
        n = half
    return x


class Fold(Handler):
    """What reductions and scans share."""

    def __init__(self, nest: Nest, item: Item) -> None:
        super().__init__(nest, item)
        assert item.op is not None
        self.op: Op = item.op
        self.axis: int = self.op.attrs["axis"]
        self.region = self.op.regions[0]
        self.kind = fold_kind(self.op)
        self.elems = [elem_of(o.type) for o in self.op.operands]
        self.accs = [accumulator(e) if self.kind else e for e in self.elems]  # type: ignore[arg-type]
        self.inner = self.axis == nest.vdim
        self.parallel = self.kind is not None
        if not self.inner:
            self.parallel = True

    def sources(self, ev: Evaluation, index: Index) -> list[Val]:
        """The operands at an index, as vectors of the accumulators' dtypes."""
        out = []
        for o, e, acc in zip(self.op.operands, self.elems, self.accs):
            x = ev.vec(ev.eval(o, index), e)
            x = x if e is acc else to_f32(ev, x, e)  # type: ignore[arg-type]
            if self.kind in ("max", "min") and acc.is_float and x86.available(ev.w.target):
                x = x86.minmax(ev, "max", acc, x, x)  # quiets a signalling NaN
            out.append(x)
        return out

    def combined(self, ev: Evaluation, a: list[Val], b: list[Val]) -> list[Val]:
        if self.kind is not None:
            return [combine(ev, self.kind, self.accs[0], a[0], b[0])]
        if not is_elementwise(self.region):
            return self.k.run_region(self.region, [*a, *b])
        args: list[Lane] = [Vec(v) for v in (*a, *b)]
        return [ev.vec(x, e) for x, e in zip(ev.region(self.region, args), self.elems)]

    def narrowed(self, l: Lanes, xs: list[Val]) -> list[Val]:
        """Accumulators as the results' dtypes."""
        return [x if e is acc else from_f32(l, x, e)  # type: ignore[arg-type]
                for x, e, acc in zip(xs, self.elems, self.accs)]

    def poison(self, ev: Evaluation) -> list[Val]:
        w = ev.w
        return [w.literal("zeroinitializer" if ev.n > 1 else _zero(reg_type(e)),
                          vector(ev.n, reg_type(e))) for e in self.accs]

    def choose(self, ev: Evaluation, first: Val, a: list[Val], b: list[Val]) -> list[Val]:
        return [ev.w.select(first, x, y) for x, y in zip(a, b)]

    def is_first(self, ev: Evaluation, index: Index) -> Val:
        """Whether this is the first element along the axis that the nest visits."""
        w = ev.w
        if self.inner:
            return w.icmp("eq", ev.pos(), w.const(0, "i64")) if ev.position.iv is not None else (
                w.const(int(ev.position.off == 0), "i1"))
        at = index[self.axis]
        assert isinstance(at, Uni)
        extent = self.nest.slot.space[self.axis]
        start = extent - 1 if self.nest.slot.reversed_dims.get(self.axis) else 0
        if at.val.const is not None:
            return w.const(int(at.val.const == start), "i1")
        return w.icmp("eq", at.val, w.const(start, "i64"))

    def without_axis(self, index: Index) -> Index:
        return index[: self.axis] + index[self.axis + 1 :]


def _zero(ty: str) -> str:
    return "0.0" if ty in ("half", "float", "double") else "null" if ty == "ptr" else "0"


class Reduce(Fold):
    """A reduce op."""

    def start(self, ev: Evaluation) -> list[Val]:
        if not self.inner:
            return []
        if self.kind is None:
            return self.poison(ev)
        return [identity(ev, self.kind, self.accs[0])]  # type: ignore[arg-type]

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        xs = self.sources(ev, index)
        if not self.inner:
            self._column_step(ev, index, xs)
            return []
        if self.kind is not None:
            if ev.exec_mask is not None:
                e = self.accs[0]
                xs = [ev.w.select(ev.exec_mask, xs[0],
                                  identity(ev, self.kind, e))]  # type: ignore[arg-type]
            return self.combined(ev, state, xs)
        new = self.choose(ev, self.is_first(ev, index), xs, self.combined(ev, state, xs))
        if ev.exec_mask is not None:
            new = self.choose(ev, ev.exec_mask, new, state)
        return new

    def merge(self, ev: Evaluation, a: list[Val], b: list[Val]) -> list[Val]:
        return self.combined(ev, a, b) if self.inner else []

    def _column_step(self, ev: Evaluation, index: Index, xs: list[Val]) -> None:
        """One partial result per column, in the result's buffer."""
        at = self.without_axis(index)
        homes = [self.k.homes[r] for r in self.op.results]
        old = [ev.vec(ev.read(b, at, e), e) for b, e in zip(homes, self.accs)]
        new = self.choose(ev, self.is_first(ev, index), xs, self.combined(ev, old, xs))
        for b, x, e in zip(homes, new, self.accs):
            ev.write(b, at, Vec(x), e)

    def finish(self, ev: Evaluation, row: Index, state: list[Val]) -> None:
        if not self.inner:
            return
        l = self.k.scalar_lanes
        folded = [horizontal(ev, self.kind, self.accs[0], state[0])] if (  # type: ignore[arg-type]
            self.kind) else self._fold_lanes(ev, state)
        folded = self.narrowed(l, folded)
        if len(self.nest.slot.space) == 1:
            self.nest.scalars.update(zip(self.op.results, folded))
            return
        for r, x, e in zip(self.op.results, folded, self.elems):
            ev.write(self.k.homes[r], self.without_axis(row), Uni(x), e)

    def _fold_lanes(self, ev: Evaluation, state: list[Val]) -> list[Val]:
        """Fold the lanes by the region: halving, or one by one where some lanes are empty."""
        valid = min(ev.n, ev.position.extent)
        lanes, count = ev, ev.n
        while valid == ev.n and count > 4:
            count //= 2
            state = self._halves(lanes, state, count)
            lanes = self._narrower(ev, count)
        columns = [self._spilled(lanes, x, min(valid, count)) for x in state]
        out = [c[0] for c in columns]
        scalar = self.k.scalar_evaluation()
        for i in range(1, len(columns[0])):
            out = self.combined(scalar, out, [c[i] for c in columns])
        return out

    def _narrower(self, ev: Evaluation, n: int) -> Evaluation:
        """An evaluation with fewer lanes, for combining regions."""
        narrow = Evaluation(self.k, n, n)
        narrow.floor = ev.floor
        return narrow

    def _halves(self, ev: Evaluation, state: list[Val], half: int) -> list[Val]:
        """Combine the lower half of the lanes with the upper one."""
        w, parts = ev.w, []
        for start in (0, half):
            order = ", ".join(f"i32 {start + i}" for i in range(half))
            parts.append([w.pure(
                vector(half, x.ty.split(" x ")[1].rstrip(">")),
                f"shufflevector {x.ty} {{}}, {x.ty} poison, <{half} x i32> <{order}>", x)
                for x in state])
        return self.combined(self._narrower(ev, half), parts[0], parts[1])

    def _spilled(self, ev: Evaluation, x: Val, count: int) -> list[Val]:
        """The first lanes as scalars, by way of memory.

        LLVM 22 gets lanes of vector comparisons wrong that it takes out of AVX-512 registers.
        """
        w = ev.w
        if ev.n == 1:
            return [x]
        if x.ty.endswith(" x i1>"):
            return [self._lane(ev, x, i) for i in range(count)]
        ty = x.ty.split(" x ")[1].rstrip(">")
        spare = self.k.arena.take(64)
        base = self.k.arena.address(spare)
        w.do(f"store {x.ty} {x.text}, ptr {base.text}, align 64")
        out = []
        for i in range(count):
            p = w.gep(ty, base, w.const(i, "i64"))
            out.append(w.here(ty, f"load {ty}, ptr {p.text}, align 1"))
        self.k.arena.give(spare, 64)
        return out

    @staticmethod
    def _lane(ev: Evaluation, x: Val, i: int) -> Val:
        if ev.n == 1:
            return x
        ty = x.ty.split(" x ")[1].rstrip(">")
        return ev.w.pure(ty, f"extractelement {x.ty} {{}}, i64 {i}", x)


class Scan(Fold):
    """A scan op; its value at an element is known to later items of the nest."""

    def __init__(self, nest: Nest, item: Item) -> None:
        super().__init__(nest, item)
        self.parallel = not self.inner
        self.reverse: bool = self.op.attrs["reverse"]
        self.carry = [] if self.inner else [
            self.k.arena.tile(self._columns(), e) for e in self.accs]

    def _columns(self) -> tuple[int, ...]:
        shape = shape_of(self.op.operands[0].type)
        return shape[: self.axis] + shape[self.axis + 1 :] or (1,)

    def start(self, ev: Evaluation) -> list[Val]:
        if not self.inner:
            return []
        if self.kind is None:
            return self.poison(ev)
        return [identity(ev, self.kind, self.accs[0])]  # type: ignore[arg-type]

    def step(self, ev: Evaluation, index: Index, state: list[Val]) -> list[Val]:
        xs = self.sources(ev, index)
        if self.inner:
            ys, state = self._vector_step(ev, index, xs, state)
        else:
            ys = self._column_step(ev, index, xs)
        for r, y, e in zip(self.op.results, self.narrowed(ev, ys), self.elems):
            ev.remember_here(r, index, Vec(y))
            home = self.k.homes.get(r)
            if home is not None:
                ev.write(home, index, Vec(y), e)
        return state

    def _column_step(self, ev: Evaluation, index: Index, xs: list[Val]) -> list[Val]:
        at = self.without_axis(index) or (ev.zero_index,)
        old = [ev.vec(ev.read(b, at, e), e) for b, e in zip(self.carry, self.accs)]
        ys = self.choose(ev, self.is_first(ev, index), xs, self.combined(ev, old, xs))
        for b, y, e in zip(self.carry, ys, self.accs):
            ev.write(b, at, Vec(y), e)
        return ys

    def _vector_step(self, ev: Evaluation, index: Index, xs: list[Val],
                     carry: list[Val]) -> tuple[list[Val], list[Val]]:
        n = ev.n
        valid = min(n, ev.position.extent - ev.position.off) if (
            ev.exec_mask is not None and ev.position.iv is None) else n
        if self.kind is not None and ev.exec_mask is not None:
            fill = identity(ev, self.kind, self.accs[0])  # type: ignore[arg-type]
            xs = [ev.w.select(ev.exec_mask, xs[0], fill)]
        ys = xs
        step = 1
        while step < n:
            ys = self._prefix(ev, ys, step, valid)
            step *= 2
        total = [self._last(ev, y) for y in ys]
        if self.kind is not None:
            return self.combined(ev, carry, ys), self.combined(ev, carry, total)
        first = self._first_chunk(ev)
        out = self.choose(ev, first, ys, self.combined(ev, carry, ys))
        return out, self.choose(ev, first, total, self.combined(ev, carry, total))

    def _first_chunk(self, ev: Evaluation) -> Val:
        w, n = ev.w, ev.n
        start = (ev.position.extent - 1) // n * n if self.reverse else 0
        if ev.position.iv is None:
            return w.const(int(ev.position.off == start), "i1")
        return w.icmp("eq", ev.pos(), w.const(start, "i64"))

    def _prefix(self, ev: Evaluation, xs: list[Val], step: int, valid: int) -> list[Val]:
        """Combine every lane with the one `step` before it."""
        w, n = ev.w, ev.n
        ids = [identity(ev, self.kind, self.accs[0])] if self.kind else xs  # type: ignore[arg-type]
        picks, has = [], []
        for i in range(n):
            j = i + step if self.reverse else i - step
            inside = 0 <= j < n and (not self.reverse or j < valid or self.kind is not None)
            picks.append(j if inside else n + i)
            has.append(inside)
        order = ", ".join(f"i32 {p}" for p in picks)
        turned = [w.pure(x.ty, f"shufflevector {x.ty} {{}}, {x.ty} {{}}, <{n} x i32> <{order}>",
                         x, fill) for x, fill in zip(xs, ids)]
        ys = self.combined(ev, turned, xs)
        if self.kind is not None:
            return ys
        bits = ", ".join(f"i1 {'true' if h else 'false'}" for h in has)
        return self.choose(ev, w.literal(f"<{bits}>", vector(n, "i1")), ys, xs)

    def _last(self, ev: Evaluation, y: Val) -> Val:
        """The total of a vector, in every lane."""
        if ev.n == 1:
            return y
        last = 0 if self.reverse else ev.n - 1
        order = ", ".join([f"i32 {last}"] * ev.n)
        return ev.w.pure(y.ty, f"shufflevector {y.ty} {{}}, {y.ty} poison, "
                               f"<{ev.n} x i32> <{order}>", y)

    def finish(self, ev: Evaluation, row: Index, state: list[Val]) -> None:
        return None


__all__ = ["Reduce", "Scan", "intrinsic"]
