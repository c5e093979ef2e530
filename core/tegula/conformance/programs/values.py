"""Steps that compute values: arithmetic, conversions, shapes, combining."""

from __future__ import annotations

from math import prod

from tegula.conformance.programs.base import (
    FLOATS,
    INTS,
    MAX_ELEMENTS,
    SHAPES,
    Base,
    dtype_of,
    numel,
)
from tegula.ir import Block, Builder, DType, Tile, Value
from tegula.ir import types as t
from tegula.ir.types import shape_of, with_shape


class Arithmetic(Base):
    """Elementwise steps."""

    def constant(self) -> None:
        dtype = self.pick((*INTS[:4], *FLOATS, t.i1))
        shape = self.pick(((), *SHAPES))
        if dtype is t.i32 and len(shape) == 1 and self.choose(2):
            start = self.choose(5) - 2
            self.add(self.b.arange(start=start, end=start + shape[0]))
        else:
            self.add(self.b.constant(self.number(dtype), with_shape(dtype, shape)))

    def unary(self) -> None:
        v = self.tile()
        dtype = dtype_of(v)
        names = ["neg", "abs"] if dtype.is_float else ["neg", "abs", "not"]
        if dtype.is_float and self.choose(2) == 0:
            names = ["floor", "ceil", "trunc", "rint"]
            names += ["sqrt", "sqrt"] if dtype in (t.f32, t.f64) else []
        self.add(self.b.create(self.pick(names), v))

    def binary(self) -> None:
        v = self.tile()
        dtype = dtype_of(v)
        u = self.like(v)
        names = ["add", "sub", "mul", "div", "rem", "min", "max"]
        if not dtype.is_float:
            names += ["and", "or", "xor", "shl", "shr"]
            names += ["mulhi"] if dtype is not t.i1 else []
        elif self.choose(4) == 0:
            self.add(self.b.fma(v, u, self.like(v)))
            return
        name = self.pick(names)
        attrs = {"nan": self.pick(("ignore", "propagate"))} if name in ("min", "max") else {}
        first, second = (v, u) if self.choose(2) else (u, v)
        result = self.b.create(name, first, second, **attrs)
        self.add(self.one_zero(result) if name in ("min", "max") else result)

    def one_zero(self, v: Value) -> Value:
        """-0.0 becomes 0.0 where a tie of zeros may give either, so that results are unique."""
        if not dtype_of(v).is_float:
            return v
        return self.b.add(v, self.b.constant(0.0, v.type))

    def compare(self) -> None:
        v = self.tile()
        self.add(self.b.cmp(v, self.like(v), pred=self.pick(("eq", "ne", "lt", "le", "gt", "ge"))))

    def select(self) -> None:
        v = self.tile()
        u = self.like(v)
        mask = self.mask_for(shape_of(v.type))
        self.add(self.b.select(mask, v, u, unlikely=self.choose(4) == 0))

    def cast(self) -> None:
        v = self.tile()
        dtype = dtype_of(v)
        to = self.pick((*INTS, *self.floats(), t.i1))
        whole = not (to.is_float and to.bits == 8)  # their bits may be those of an infinity
        if dtype.bits == to.bits and dtype is not t.i1 and whole and self.choose(3) == 0:
            source = v
            if dtype.is_float:  # bits of NaN are nobody's promise
                number = self.b.cmp(v, v, pred="eq")
                source = self.b.select(number, v, self.b.constant(1.0, v.type))
            self.add(self.b.bitcast(source, to=to))
            return
        rounding = "rtz" if dtype.is_float and to.is_float and self.choose(4) == 0 else "rtne"
        self.add(self.b.cast(v, to=to, rounding=rounding))


class Shapes(Arithmetic):
    """Steps that move elements."""

    def reshape(self) -> None:
        v = self.tile()
        shape = shape_of(v.type)
        if not shape:
            self.add(self.b.splat(v, shape=self.pick(SHAPES)))
            return
        which = self.choose(5)
        if which == 0 and len(shape) < 4:
            self.add(self.b.expand_dims(v, axis=self.choose(len(shape) + 1)))
        elif which == 1:
            dims = list(range(len(shape)))
            first = self.choose(len(dims))
            self.add(self.b.permute(v, dims=tuple(dims[first:] + dims[:first])))
        elif which == 2:
            forms = [(prod(shape),), (1, prod(shape)), (prod(shape), 1), shape[::-1]]
            forms += [(2, prod(shape) // 2)] if prod(shape) % 2 == 0 else []
            self.add(self.b.reshape(v, shape=self.pick(forms)))
        elif which == 3 and prod(shape) == 1:
            self.add(self.b.reshape(v, shape=()))
        else:
            larger = tuple(self.pick((1, 2, 3, 8)) if s == 1 else s for s in shape)
            if prod(larger) <= MAX_ELEMENTS:
                self.add(self.b.broadcast(v, shape=larger))

    def spread(self) -> None:
        """Two tiles brought to one shape, as broadcasting does."""
        v = self.having(lambda v: len(shape_of(v.type)) == 1)
        if v is None:
            return
        n = shape_of(v.type)[0]
        m = self.pick((1, 2, 5))
        if n * m > MAX_ELEMENTS:
            return
        column = self.b.arange(start=0, end=m)
        wide = self.b.broadcast(self.b.expand_dims(v, axis=0), shape=(m, n))
        tall = self.b.broadcast(self.b.expand_dims(column, axis=1), shape=(m, n))
        self.add(self.b.add(wide, self.b.cast(tall, to=dtype_of(v))))

    def slice(self) -> None:
        """Every so many elements, some dimensions backwards."""
        v = self.having(lambda v: bool(shape_of(v.type)) and 0 not in shape_of(v.type))
        if v is None:
            return
        starts, steps, shape = [], [], []
        for size in shape_of(v.type):
            step = self.pick((1, 1, 2, -1, 3))
            start = self.choose(size)
            room = (size - 1 - start) // step if step > 0 else start // -step
            starts.append(start)
            steps.append(step)
            shape.append(1 + self.choose(room + 1))
        self.add(self.b.slice(v, starts=tuple(starts), steps=tuple(steps), shape=tuple(shape)))

    def grid_number(self) -> None:
        axis = self.choose(3)
        op = self.b.num_programs if self.choose(2) else self.b.program_id
        self.add(op(axis=axis))

    def promise(self) -> None:
        """Something true: an assertion, an assumption, or what is known of an index."""
        which = self.choose(3)
        if which == 0:
            v = self.having(lambda v: dtype_of(v).is_int)
            if v is not None:
                u = self.like(v)
                below = self.b.cmp(v, u, pred="lt")
                mask = self.mask_for(shape_of(v.type)) if self.choose(2) else None
                holds = self.b.or_(below, self.b.cmp(v, u, pred="ge"))
                self.b.assert_(holds, mask, message="one of both")
        elif which == 1:
            self.b.assume(self.b.cmp(self.n, self.b.constant(64, self.n.type), pred="lt"))
        else:
            n = self.pick((5, 16, 33))
            start = self.pick((0, 8, -16))
            line = self.b.arange(start=start, end=start + n)
            kind = self.pick(("multiple_of", "max_contiguous", "max_constancy"))
            value = {"multiple_of": 8, "max_contiguous": n, "max_constancy": 1}[kind]
            self.add(self.b.hint(line, kind=kind, values=(value,)))

    def combine_tiles(self) -> None:
        v = self.tile()
        shape = shape_of(v.type)
        which = self.choose(3)
        small = 2 * prod(shape) <= MAX_ELEMENTS
        if which == 0 and shape and small:
            self.add(self.b.cat(v, self.like(v), axis=self.choose(len(shape))))
        elif which == 1 and len(shape) < 3 and small:
            self.add(self.b.join(v, self.like(v)))
        elif shape and shape[-1] == 2:
            self.add_all(self.b.split(v))


class Combining(Shapes):
    """Reductions, scans and products; float sums are of small integers, exact in any order."""

    def tame(self, v: Value, limit: float = 2.0) -> Value:
        """Small integers in place of floats; other dtypes as they are."""
        if not dtype_of(v).is_float:
            return v
        b = self.b
        low = b.max(v, b.constant(-limit, v.type))
        return b.rint(b.min(low, b.constant(limit, v.type)))

    def limit(self, dtype: DType) -> float:
        return 1.0 if dtype.is_float and dtype.mantissa < 10 else 2.0

    def region(self, dtype: DType, name: str) -> Block:
        block = Block([dtype, dtype])
        inner = Builder(block)
        attrs = {"nan": self.pick(("ignore", "propagate"))} if name in ("min", "max") else {}
        inner.yield_([inner.create(name, *block.args, **attrs)])
        return block

    def source(self) -> Value | None:
        return self.having(
            lambda v: bool(shape_of(v.type)) and 0 not in shape_of(v.type) and numel(v) <= 256
        )

    def fold_name(self, dtype: DType) -> str:
        if dtype.is_float:
            return self.pick(("add", "max", "min") if dtype.bits > 8 else ("max", "min"))
        return self.pick(("add", "mul", "max", "min", "and", "or", "xor"))

    def reduce(self) -> None:
        v = self.source()
        if v is None:
            return
        dtype = dtype_of(v)
        axis = self.choose(len(shape_of(v.type)))
        if self.choose(3) == 0 and dtype is not t.i1:
            v = self.numbers(v)
            pairs = [v, self.positions(v, axis)]
            best, where = self.b.reduce(pairs, argmax_region(dtype), axis=axis)
            self.add_all((self.one_zero(best), where))
            return
        name = self.fold_name(dtype)
        source = self.tame(v, self.limit(dtype)) if name == "add" else v
        (folded,) = self.b.reduce([source], self.region(dtype, name), axis=axis)
        self.add(self.one_zero(folded))

    def pair_source(self) -> tuple[Value, Value] | None:
        """Two tiles of integers of one shape."""
        v = self.having(
            lambda v: bool(shape_of(v.type)) and 0 < numel(v) <= 256
            and dtype_of(v).is_int and dtype_of(v) is not t.i1
        )  # fmt: skip
        if v is None:
            return None
        shape = shape_of(v.type)
        u = self.having(
            lambda u: shape_of(u.type) == shape
            and dtype_of(u).is_int and dtype_of(u) is not t.i1
        )  # fmt: skip
        return v, u if u is not None else v

    def reduce_pair(self) -> None:
        """Two results of one reduction, each of its own kind."""
        pair = self.pair_source()
        if pair is None:
            return
        types = [dtype_of(v) for v in pair]
        block = Block([*types, *types])
        b = Builder(block)
        a0, b0, a1, b1 = block.args
        names = [self.pick(("add", "max", "min", "xor", "mul")) for _ in range(2)]
        b.yield_([b.create(names[0], a0, a1), b.create(names[1], b0, b1)])
        axis = self.choose(len(shape_of(pair[0].type)))
        self.add_all(self.b.reduce(pair, block, axis=axis))

    def scan_pair(self) -> None:
        """Linear functions one after the other: associative, and the order shows."""
        pair = self.pair_source()
        if pair is None:
            return
        v, u = pair
        dtype = dtype_of(v)
        u = u if dtype_of(u) is dtype else self.b.cast(u, to=dtype)
        block = Block([dtype] * 4)
        b = Builder(block)
        a0, b0, a1, b1 = block.args
        b.yield_([b.mul(a0, a1), b.add(b.mul(b0, a1), b1)])
        axis, reverse = self.choose(len(shape_of(v.type))), bool(self.choose(2))
        self.add_all(self.b.scan([v, u], block, axis=axis, reverse=reverse))

    def numbers(self, v: Value) -> Value:
        """The value without NaN, of which no order can be told."""
        if not dtype_of(v).is_float:
            return v
        return self.b.select(self.b.cmp(v, v, pred="eq"), v, self.b.constant(1.0, v.type))

    def positions(self, v: Value, axis: int) -> Value:
        shape = shape_of(v.type)
        along = self.b.arange(start=0, end=shape[axis])
        ones = tuple(s if i == axis else 1 for i, s in enumerate(shape))
        return self.b.broadcast(self.b.reshape(along, shape=ones), shape=shape)

    def scan(self) -> None:
        v = self.source()
        if v is None:
            return
        dtype = dtype_of(v)
        name = self.fold_name(dtype)
        source = self.tame(v, self.limit(dtype)) if name == "add" else v
        axis, reverse = self.choose(len(shape_of(v.type))), bool(self.choose(2))
        region = self.region(dtype, name)
        (prefix,) = self.b.scan([source], region, axis=axis, reverse=reverse)
        self.add(self.one_zero(prefix))

    def dot(self) -> None:
        v = self.having(
            lambda v: len(shape_of(v.type)) == 2 and dtype_of(v) is not t.i1 and numel(v) <= 256
        )
        if v is None:
            return
        dtype, (m, k) = dtype_of(v), shape_of(v.type)
        if not dtype.is_float and dtype.bits > 32:
            return
        acc = t.i32 if not dtype.is_float else t.f64 if dtype is t.f64 else t.f32
        n = self.pick((1, 3, 4, 16, 20))
        if n * max(m, k) > MAX_ELEMENTS:
            return
        known = self.having(lambda u: shape_of(u.type) == (k, n) and dtype_of(u) is dtype)
        if known is None:
            turned = self.having(lambda u: shape_of(u.type) == (n, k) and dtype_of(u) is dtype)
            if turned is not None:
                known = self.b.permute(turned, dims=(1, 0))
            else:
                known = self.b.constant(self.number(dtype), Tile((k, n), dtype))
        total = self.having(lambda u: u.type is Tile((m, n), acc))
        if total is None:
            total = self.b.constant(self.number(acc), Tile((m, n), acc))
        left, right, total = (self.tame(x, 2.0) for x in (v, known, total))
        self.used.add("float sums")
        self.add(self.one_zero(self.b.dot(left, right, total)))


class Collecting(Combining):
    """Steps that move elements by their values."""

    def row_source(self) -> Value | None:
        return self.having(lambda v: bool(shape_of(v.type)) and 0 < numel(v) <= 256)

    def flip(self) -> None:
        v = self.row_source()
        if v is not None:
            self.add(self.b.flip(v, axis=self.choose(len(shape_of(v.type)))))

    def gather(self) -> None:
        v = self.row_source()
        if v is None:
            return
        shape = shape_of(v.type)
        index = self.having(lambda u: shape_of(u.type) == shape and dtype_of(u) is t.i32)
        if index is None:
            flat = self.b.arange(start=-2, end=prod(shape) - 2)
            index = self.b.reshape(flat, shape=shape)
        self.add(self.b.gather(v, index, axis=self.choose(len(shape))))

    def sort(self) -> None:
        v = self.row_source()
        if v is None or dtype_of(v) is t.i1 or (dtype_of(v).is_float and dtype_of(v).bits == 8):
            return
        axis, down = self.choose(len(shape_of(v.type))), bool(self.choose(2))
        more = [self.positions(v, axis)] if self.choose(2) else []
        found = self.b.sort(v, more, axis=axis, descending=down)
        self.add_all(found if isinstance(found, tuple) else (found,))

    def histogram(self) -> None:
        v = self.having(lambda v: bool(shape_of(v.type)) and dtype_of(v).is_int)
        if v is not None:
            mask = self.mask_for(shape_of(v.type)) if self.choose(2) else None
            self.add(self.b.histogram(v, mask, bins=self.pick((1, 5, 16))))

    def map(self) -> None:
        """A function with a branch, of each element."""
        v = self.row_source()
        if v is None:
            return
        dtype = dtype_of(v)
        block, then, other = Block([dtype]), Block(), Block()
        b = Builder(block)
        (x,) = block.args
        with b.at(then):
            b.yield_([b.neg(x)])
        with b.at(other):
            b.yield_([b.create(self.pick(("add", "mul")), x, x)])
        (value,) = b.if_(b.cmp(x, b.constant(self.number(dtype), dtype), pred="lt"), then, other)
        b.yield_([value])
        found = self.b.create("map", [v], regions=[block])
        self.add_all(found if isinstance(found, tuple) else (found,))


def argmax_region(dtype: DType) -> Block:
    """(value, index) pairs to the larger value, of equal ones to the smaller index."""
    block = Block([dtype, t.i32, dtype, t.i32])
    b = Builder(block)
    v0, i0, v1, i1 = block.args
    more = b.cmp(v0, v1, pred="gt")
    tie = b.and_(b.cmp(v0, v1, pred="eq"), b.cmp(i0, i1, pred="lt"))
    first = b.or_(more, tie)
    b.yield_([b.select(first, v0, v1), b.select(first, i0, i1)])
    return block
