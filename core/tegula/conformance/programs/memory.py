"""Steps that touch memory: loads, stores, atomics, descriptors, indices that wrap around."""

from __future__ import annotations

from tegula.conformance.programs.base import (
    INPUT_SIZE,
    SHAPES,
    WORK_SIZE,
    dtype_of,
    numel,
)
from tegula.conformance.programs.values import Collecting
from tegula.ir import Pointer, Value
from tegula.ir import types as t
from tegula.ir.types import shape_of, with_shape

ATOMIC_KINDS = ("add", "max", "min", "and", "or", "xor")
MATH = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt")
MATH_ULP = 8.0
"""Error that elementary functions may have in random programs."""


class Memory(Collecting):
    """Loads, stores, atomics and descriptors."""

    in_pointers: list[Value]
    work: Value | None

    def inside(self, size: int) -> Value:
        """Offsets within a buffer of `size` elements, of some shape."""
        shape = self.pick(((), *SHAPES))
        source = self.having(lambda v: shape_of(v.type) == shape and dtype_of(v) is t.i32)
        if source is None or self.choose(2):
            source = self.indices(shape)
        unsigned = self.b.cast(source, to=t.u32)
        limit = self.b.constant(size, with_shape(t.u32, shape))
        offsets = self.b.rem(unsigned, limit)
        return self.b.cast(offsets, to=self.pick((t.i32, t.i32, t.i64)))

    def load(self) -> None:
        pointer = self.pick(self.in_pointers)
        assert isinstance(pointer.type, Pointer)
        dtype = pointer.type.elem
        if self.choose(3) == 0:
            self.add(self.b.load(self.at(pointer, self.inside(INPUT_SIZE))))
            return
        shape = self.pick(SHAPES)
        step = self.b.splat(self.b.mul(self.pid, self.n), shape=shape)
        offsets = self.b.add(self.indices(shape), step)
        if self.choose(4) == 0:
            offsets = self.b.mul(offsets, self.b.constant(self.pick((2, 3, -1)), offsets.type))
        low = self.b.cmp(offsets, self.b.constant(0, offsets.type), pred="ge")
        high = self.b.cmp(offsets, self.b.constant(INPUT_SIZE, offsets.type), pred="lt")
        mask = self.b.and_(low, high)
        if self.choose(2):
            mask = self.b.and_(mask, self.mask_for(shape))
        other = None
        if self.choose(2):
            other = self.b.constant(self.number(dtype), with_shape(dtype, shape))
        more = self.pick(({}, {}, {"volatile": True}, {"cache": ".cg", "evict": "evict_first"}))
        self.add(self.b.load(self.at(pointer, offsets), mask, other, **more))

    def far_index(self) -> None:
        """Indices near the largest number, of which some wrap around."""
        shape = self.pick(SHAPES)
        far = self.b.splat(self.far, shape=shape)
        index = self.b.add(far, self.indices(shape))
        if self.choose(3) == 0:
            index = self.b.mul(index, self.b.constant(self.pick((2, 3, -1)), index.type))
        self.add(index)
        self.add(self.b.cmp(index, self.like(index), pred=self.pick(("lt", "le", "gt", "ge"))))

    def far_load(self) -> None:
        """Elements whose offsets wrap around, or those before, of a pointer moved the other way."""
        pointer = self.pick(self.in_pointers)
        shape = self.pick(SHAPES)
        b, wrapped = self.b, bool(self.choose(2))
        far = b.splat(self.far, shape=shape)
        index = b.add(far, self.indices(shape))
        back = b.neg(b.cast(self.far, to=t.i64))
        if wrapped:
            back = b.add(back, b.constant(1 << 32, t.i64))
        mask = b.cmp(index, far, pred="lt" if wrapped else "ge")
        offset = b.cast(index, to=t.i64) if self.choose(2) else index
        self.add(b.load(self.at(b.addptr(pointer, back), offset), mask))

    def store(self) -> None:
        """A value to a buffer of its own: forwards, backwards, or with a mask."""
        v = self.tile()
        shape = shape_of(v.type)
        count = numel(v)
        pointer = self.own(self.output(dtype_of(v), count * self.grid), count)
        offsets = self.indices(shape)
        if self.choose(3) == 0:
            offsets = self.b.sub(self.b.constant(count - 1, offsets.type), offsets)
        which = self.choose(4)
        mask = None if which > 1 else self.end_of(shape) if which else self.mask_for(shape)
        self.b.store(self.at(pointer, offsets), v, mask)

    def end_of(self, shape: tuple[int, ...]) -> Value:
        """A mask that ends somewhere in the tile, or behind it, as known when the kernel runs."""
        index = self.indices(shape)
        end = self.pick((self.n, self.n, self.pid, self.far))
        end = self.b.add(end, self.b.constant(self.pick((0, 5, 17)), t.i32))
        limit = self.b.splat(end, shape=shape) if shape else end
        return self.b.cmp(index, limit, pred=self.pick(("lt", "lt", "le", "ge")))

    def math(self) -> None:
        """An elementary function; its result goes nowhere but to memory, compared with care."""
        v = self.having(lambda v: dtype_of(v) in (t.f32, t.f64))
        if v is None or self.in_function:
            return
        self.used.add("math")
        name = self.pick(MATH)
        if name in ("sin", "cos"):
            limit = 1000.0
            v = self.b.min(
                self.b.max(v, self.b.constant(-limit, v.type)), self.b.constant(limit, v.type)
            )
        result = self.b.create(name, v)
        count = numel(v)
        pointer = self.own(self.output(dtype_of(v), count * self.grid, MATH_ULP), count)
        self.b.store(self.at(pointer, self.indices(shape_of(v.type))), result)

    def work_access(self) -> None:
        """A load from, or a store to, the buffer that is read and written."""
        assert self.work is not None
        v = self.having(lambda v: dtype_of(v) is t.i32 and numel(v) <= 16)
        if v is None or self.choose(3) == 0:
            self.add(self.b.load(self.at(self.work, self.inside(WORK_SIZE))))
            return
        shape = shape_of(v.type)
        start = self.b.addptr(self.work, self.b.constant(self.choose(8), t.i32))
        mask = self.mask_for(shape) if self.choose(2) else None
        self.b.store(self.at(start, self.indices(shape)), v, mask)

    def work_atomic(self) -> None:
        """An update whose old values are seen: every address once, of this program only."""
        assert self.work is not None
        v = self.having(lambda v: dtype_of(v) is t.i32 and numel(v) <= 16)
        if v is None:
            return
        shape = shape_of(v.type)
        where = self.at(self.work, self.indices(shape))
        if self.choose(4) == 0:
            self.add(self.b.atomic_cas(where, self.like(v), v))
            return
        if self.choose(4) == 0:
            self.ordered_access(where, v)
            return
        kind = self.pick((*ATOMIC_KINDS, "xchg"))
        mask = self.mask_for(shape) if self.choose(2) else None
        self.add(self.b.atomic_rmw(where, v, mask, kind=kind))

    def ordered_access(self, where: Value, v: Value) -> None:
        """Reads and writes as one step each; a poll that ends at once."""
        mask = self.mask_for(shape_of(v.type)) if self.choose(2) else None
        which = self.choose(3)
        if which == 0:
            self.add(self.b.atomic_load(where, mask, sem=self.pick(("relaxed", "acquire"))))
        elif which == 1:
            self.b.atomic_store(where, v, mask, sem=self.pick(("relaxed", "release")))
        else:
            assert self.work is not None
            now = self.b.constant(0, t.i64)
            expected = self.b.constant(self.choose(2), t.i32)
            self.add(self.b.atomic_poll(self.work, expected, now))

    def shared_atomic(self) -> None:
        """Updates of one kind to few addresses, from all lanes and programs."""
        v = self.having(lambda v: dtype_of(v) in (t.i32, t.i64, t.u32, t.u64, t.f32))
        if v is None:
            return
        dtype, shape = dtype_of(v), shape_of(v.type)
        kind = self.pick(ATOMIC_KINDS[:1] if dtype.is_float else ATOMIC_KINDS)
        target = self.output(dtype, 7)
        flat = self.indices(shape)
        where = self.b.rem(flat, self.b.constant(self.pick((1, 3, 7)), flat.type))
        mask = self.mask_for(shape) if self.choose(2) else None
        self.b.atomic_rmw(self.at(target, where), self.tame(v), mask, kind=kind)

    def descriptor(self) -> None:
        """A block of an input seen as a matrix, partly outside of it."""
        if self.choose(3) == 0:
            self.descriptor_store()
            return
        pointer = self.pick(self.in_pointers)
        assert isinstance(pointer.type, Pointer)
        b = self.b
        rows, columns, pitch = 8, 15, 18
        shape = [b.constant(rows, t.i32), b.constant(columns, t.i32)]
        strides = [b.constant(pitch, t.i64), b.constant(1, t.i64)]
        padding = "nan" if pointer.type.elem.is_float and self.choose(2) else "zero"
        block = self.pick(((4, 8), (1, 16), (3, 5), (8, 4)))
        desc = b.make_descriptor(pointer, shape, strides, block_shape=block, padding=padding)
        first = b.add(b.mul(self.pid, b.constant(3, t.i32)), b.constant(self.choose(5) - 2, t.i32))
        second = self.having(lambda v: v.type is t.i32) or first
        second = b.rem(second, b.constant(20, t.i32))
        self.add(b.desc_load(desc, [first, second]))

    def descriptor_store(self) -> None:
        """A matrix to a buffer of its own, of which a part falls outside."""
        v = self.having(lambda v: len(shape_of(v.type)) == 2)
        if v is None:
            return
        b, block = self.b, shape_of(v.type)
        rows, columns = 1 + self.choose(block[0]), 1 + self.choose(block[1])
        pitch = columns + self.choose(3)
        dtype = dtype_of(v)
        base = self.own(self.output(dtype, rows * pitch * self.grid), rows * pitch)
        shape = [b.constant(n, t.i32) for n in (rows, columns)]
        strides = [b.constant(n, t.i64) for n in (pitch, 1)]
        desc = b.make_descriptor(base, shape, strides, block_shape=block)
        first = [b.constant(self.choose(5) - 2, t.i32) for _ in range(2)]
        b.desc_store(desc, v, first)
