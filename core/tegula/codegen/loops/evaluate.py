"""Computes the elements of tile expressions at an index, on demand and once.

An index is a lane value per dimension of the tile.  The vector dimension of a nest has an `Along`
index; all others are the same in all lanes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tegula.codegen.loops import access, interleave, rare
from tegula.codegen.loops.buffers import Buffer
from tegula.codegen.loops.convert import cast, compare
from tegula.codegen.loops.elementwise import PREDICATES, RULES
from tegula.codegen.loops.exprs import RUNTIME
from tegula.codegen.loops.lanes import (
    Lane,
    Lanes,
    Lin,
    Position,
    Uni,
    Vec,
    mem_type,
    reg_type,
    suffix,
)
from tegula.codegen.loops.text import Scope, Val
from tegula.ir.core import Block, Op, Value
from tegula.ir.types import DType, Pointer, elem_of, i1, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.kernel import KernelEmitter

Index = tuple[Lane, ...]


class Along(Lin):
    """An index that runs along the vector dimension, one object for every position."""

    __slots__ = ()


class Unsupported(Exception):
    """An op that this lowering has no rule for."""

    def __init__(self, op: Op, why: str) -> None:
        super().__init__(why)
        self.op = op
        self.why = why


def fact_key(v: Value, index: Index) -> tuple[object, ...]:
    """A value at an index, whatever the position along the vector dimension."""
    return (v, *((i.base.text, i.m) if isinstance(i, Along) else i for i in index))


class Evaluation(Lanes):
    """Evaluates expressions inside one nest (or outside of all, with one lane)."""

    def __init__(self, k: KernelEmitter, n: int, extent: int) -> None:
        super().__init__(k.w, n, Position(None, 0, n, extent))
        self.k = k
        self.floor: Scope = k.w.scope
        self.producing: set[Value] = set()
        self.facts: set[object] = set()
        """Masks known to hold: at an index (`fact_key`), or everywhere (the value itself)."""
        self.wraps: dict[Value, Val] | None = None
        """Remainders that are known not to wrap along the vector dimension, with what to add."""
        self.flat: set[Value] = set()
        """Indices that are known to stay within their type in the whole tile."""
        self.exec_mask: Val | None = None
        self.bypass = False
        """Whether stores of whole vectors, which are aligned, bypass the caches."""
        self.zero_index = k.zero_index
        self.true = Uni(k.w.const(1, "i1"))

    # -- the engine

    def find(self, v: Value, index: Index) -> Lane | None:
        """What is remembered of a value at an index."""
        if self.facts and (v in self.facts or fact_key(v, index) in self.facts):
            return self.true
        key = (v, index)
        scope: Scope | None = self.w.scope
        while scope is not None:
            found = scope.memo.get(key)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def remember(self, v: Value, index: Index, lane: Lane) -> Lane:
        """Remember a value as long as its parts live; what rests on facts, as long as they hold."""
        (self.w.scope if self.facts else lane.scope).memo[v, index] = lane
        return lane

    def remember_here(self, v: Value, index: Index, lane: Lane) -> None:
        """Remember a value for the rest of the current scope only."""
        self.w.scope.memo[v, index] = lane

    def eval(self, v: Value, index: Index) -> Lane:
        """The value of `v` at an index."""
        found = self.find(v, index)
        if found is not None:
            return found
        stack: list[tuple[Value, Index, list[tuple[Value, Index]] | None]] = [(v, index, None)]
        while stack:
            v, index, wanted = stack[-1]
            if self.find(v, index) is not None:
                stack.pop()
                continue
            leaf = self._leaf(v, index)
            if leaf is not None:
                stack.pop()
                continue
            op = v.owner
            assert op is not None
            first = wanted is None
            if wanted is None:
                wanted = self._operands(op, v, index)
                stack[-1] = (v, index, wanted)
            values = []
            missing = False
            for o, i in wanted:
                x = self.find(o, i)
                if x is None:
                    stack.append((o, i, None))
                    missing = True
                else:
                    values.append(x)
            if missing:
                assert first, f"an operand of '{op.name}' is not to be seen from here"
                continue
            stack.pop()
            self._compute(op, v, index, values)
        result = self.find(v, index)
        assert result is not None
        return result

    def _leaf(self, v: Value, index: Index) -> Lane | None:
        """Values that need no operands: scalars that are there, buffers, constants, indices."""
        k = self.k
        known = k.env.get(v)
        if known is not None:
            return self.remember(v, index, Uni(known))
        home = k.homes.get(v)
        if home is not None and v not in self.producing:
            lane = self.read(home, index, elem_of(v.type))
            self.remember_here(v, index, lane)
            return lane
        op = v.owner
        if op is None:
            raise AssertionError(f"a block argument of type {v.type} was not set")
        if op.name == "constant":
            scalar = self.scalar_const(op.attrs["value"], elem_of(v.type))
            return self.remember(v, index, Uni(scalar))
        if op.name == "arange":
            start = self.w.const(op.attrs["start"], "i32")
            (i,) = index
            lane = self._index_as(i, "i32")
            moved = self.linear("add", [lane, Uni(start)], elem_of(v.type), elem_of(v.type))
            if moved is None:
                moved = Vec(self._vector_add(lane, start))
            return self.remember(v, index, self._checked(v, moved))
        if op.name == "program_id":
            return self.remember(v, index, Uni(k.w.literal(f"%pid{op.attrs['axis']}", "i32")))
        if op.name == "num_programs":
            return self.remember(v, index, Uni(k.w.literal(f"%np{op.attrs['axis']}", "i32")))
        return None

    def _index_as(self, i: Lane, ty: str) -> Lane:
        if isinstance(i, Uni):
            return Uni(self.w.resize(i.val, ty, True))
        if isinstance(i, Lin):
            m = i.m if isinstance(i.m, int) else self.w.resize(i.m, ty, True)
            return self.made(self.w.resize(i.base, ty, True), m)
        narrow = reg_type(i1)
        vt = i.val.ty.replace("i64", ty)
        assert narrow == "i1"
        return Vec(self.w.pure(vt, f"trunc {i.val.ty} {{}} to {vt}", i.val))

    def _vector_add(self, x: Lane, start: Val) -> Val:
        from tegula.ir.types import i32

        a, b = self.vec(x, i32), self.splat(start)
        return self.w.pure(a.ty, f"add {a.ty} {{}}, {{}}", a, b)

    # -- what an op needs, and what it makes of it

    def _operands(self, op: Op, v: Value, index: Index) -> list[tuple[Value, Index]]:
        name = op.name
        if rare.is_rare(op):
            return [(op.operands[0], index), (op.operands[2], index)]
        if op.opdef.elementwise or name == "load":
            return [(o, index) for o in op.operands]
        if name == "hint":
            return [(op.operands[0], index)]
        if name == "reshape" and interleave.applies(self, op, index):
            return []
        if name in ("splat", "broadcast", "expand_dims", "permute", "reshape", "slice"):
            return [(op.operands[0], self.moved(op, index))]
        if name == "flip":
            return [(op.operands[0], self._flipped(op, index))]
        if name == "gather":  # the element itself is looked up once its place is known
            return [(op.operands[1], index)]
        if name == "split":
            which = self.k.index_const(op.results.index(v))
            return [(op.operands[0], (*index, which))]
        if name == "join":
            last = index[-1]
            if isinstance(last, Uni) and last.val.const is not None:
                return [(op.operands[int(last.val.const)], index[:-1])]
            return [(o, index[:-1]) for o in op.operands]
        if name == "assume":
            return []
        raise Unsupported(op, f"no rule to lower '{name}' in an expression")

    def _flipped(self, op: Op, index: Index) -> Index:
        """The index counted from the other end of the axis."""
        axis = op.attrs["axis"]
        key = ("flip", shape_of(op.results[0].type)[axis], index[axis])
        known = self.k.reshapes.get(key)
        if known is None:
            last = self.k.index_const(shape_of(op.results[0].type)[axis] - 1)
            back = self._arith("mul", index[axis], self.k.index_const(-1))
            known = self.k.reshapes[key] = (self._arith("add", back, last),)
        return (*index[:axis], *known, *index[axis + 1 :])

    def _picked(self, op: Op, index: Index, place: Lane) -> Lane:
        """The element that a gather takes: its place is limited to the axis."""
        from tegula.ir.types import i64

        axis, source = op.attrs["axis"], op.operands[0]
        last = shape_of(source.type)[axis] - 1
        e = dtype_of(op.operands[1])
        lanes = self.k.scalar_lanes if isinstance(place, Uni) else self
        x = place.val if isinstance(place, Uni) else self.vec(place, e)
        wide = cast(lanes, x, e, i64)
        limit = lanes.splat(self.w.const(last, "i64"))
        ty = suffix(lanes.n, "i64")
        if e.is_signed:
            zero = lanes.splat(self.w.const(0, "i64"))
            wide = self.w.call(f"llvm.smax.{ty}", wide.ty, wide, zero)
        at = self.w.call(f"llvm.umin.{ty}", wide.ty, wide, limit)
        moved: Lane = Uni(at) if isinstance(place, Uni) else Vec(at)
        return self.eval(source, (*index[:axis], moved, *index[axis + 1 :]))

    def moved(self, op: Op, index: Index) -> Index:
        """The index of an op's operand that holds the element at `index` of its result."""
        name = op.name
        if name == "splat":
            return ()
        source = shape_of(op.operands[0].type)
        if name == "broadcast":
            shape = op.attrs["shape"]
            return tuple(self.zero_index if a == 1 and b != 1 else i
                         for i, a, b in zip(index, source, shape))
        if name == "expand_dims":
            axis = op.attrs["axis"]
            return index[:axis] + index[axis + 1 :]
        if name == "permute":
            out: list[Lane] = [self.zero_index] * len(index)
            for i, d in zip(index, op.attrs["dims"]):
                out[d] = i
            return tuple(out)
        if name == "slice":
            ways = zip(index, op.attrs["starts"], op.attrs["steps"], op.attrs["shape"])
            return tuple(self._affine(i, start, step, n) for i, start, step, n in ways)
        return self.reshaped(source, shape_of(op.results[0].type), index)

    def _affine(self, i: Lane, start: int, step: int, n: int) -> Lane:
        """The index start + i * step."""
        if n == 1:
            return self.k.index_const(start)
        key = ("slice", start, step, i)
        known = self.k.reshapes.get(key)
        if known is None:
            at = i if step == 1 else self._arith("mul", i, self.k.index_const(step))
            at = self._arith("add", at, self.k.index_const(start)) if start else at
            known = self.k.reshapes[key] = (at,)
        return known[0]

    def reshaped(self, source: tuple[int, ...], shape: tuple[int, ...], index: Index) -> Index:
        """The index into `source` of the element at `index` of the reshaped tile."""
        key = ("reshape", source, shape, index)
        known = self.k.reshapes.get(key)
        if known is not None:
            return known
        out: list[Lane] = [self.zero_index] * len(source)
        i, j = len(source) - 1, len(shape) - 1
        while i >= 0:
            if source[i] == 1:
                i -= 1
                continue
            lo_i, lo_j = i, j
            size_i, size_j = source[i], 1
            while lo_j >= 0 and size_j < size_i:
                size_j *= shape[lo_j]
                lo_j -= 1
            while size_j != size_i:
                if size_i < size_j:
                    lo_i -= 1
                    size_i *= source[lo_i]
                else:
                    size_j *= shape[lo_j]
                    lo_j -= 1
            linear = self._linearise(shape[lo_j + 1 : j + 1], index[lo_j + 1 : j + 1])
            self._delinearise(source, lo_i, i, linear, out)
            i, j = lo_i - 1, lo_j
        result = tuple(out)
        self.k.reshapes[key] = result
        return result

    def _linearise(self, shape: tuple[int, ...], index: Index) -> Lane:
        total: Lane | None = None
        step = 1
        for d, i in zip(reversed(shape), reversed(index)):
            if d != 1:
                term = i if step == 1 else self._arith("mul", i, self.k.index_const(step))
                total = term if total is None else self._arith("add", total, term)
            step *= d
        return total if total is not None else self.zero_index

    def _delinearise(self, source: tuple[int, ...], lo: int, hi: int, linear: Lane,
                     out: list[Lane]) -> None:
        """Spread a position over the dimensions lo..hi of `source`."""
        if lo == hi:
            out[lo] = linear
            return
        for d in range(hi, lo - 1, -1):
            inner = prod(source[d + 1 : hi + 1])
            q = linear if inner == 1 else self._arith("div", linear, self.k.index_const(inner))
            out[d] = q if d == lo else self._arith("rem", q, self.k.index_const(source[d]))

    def _arith(self, name: str, a: Lane, b: Lane) -> Lane:
        """Index arithmetic in i64 (non-negative)."""
        from tegula.ir.types import i64

        if isinstance(a, Uni) and isinstance(b, Uni):
            x, y = a.val, b.val
            if name in ("add", "mul"):
                return Uni(getattr(self.w, name)(x, y))
            verb = "udiv" if name == "div" else "urem"
            if x.const is not None and y.const is not None:
                q, r = divmod(int(x.const), int(y.const))
                return Uni(self.w.const(q if name == "div" else r, "i64"))
            return Uni(self.w.pure("i64", f"{verb} i64 {{}}, {{}}", x, y))
        if name in ("add", "mul"):
            made = self.linear(name, [a, b], i64, i64)
            if made is not None:
                return made
        elif (block := self._block_of(a, b)) is not None:
            return block[0] if name == "div" else block[1]
        verb = {"div": "udiv", "rem": "urem"}.get(name, name)
        va, vb = self.vec(a, i64), self.vec(b, i64)
        return Vec(self.w.pure(va.ty, f"{verb} {va.ty} {{}}, {{}}", va, vb))

    def _block_of(self, a: Lane, b: Lane) -> tuple[Lane, Lane] | None:
        """Quotient and remainder of a linear index whose lanes all lie in one block of size b."""
        if not (isinstance(a, Lin) and a.m == 1 and isinstance(b, Uni)):
            return None
        size, base = b.val.const, a.base.const
        if size is None or self.n == 1 or int(size) % self.n:
            return None
        if base is None or int(base) % self.n or self.position.off % self.n:
            return None
        w = self.w
        first = w.add(self.pos(), a.base)
        q = w.pure("i64", "udiv i64 {}, {}", first, b.val)
        r = w.pure("i64", "urem i64 {}, {}", first, b.val)
        return Uni(q), Lin(w.sub(r, self.pos()), 1)

    def _compute(self, op: Op, v: Value, index: Index, xs: list[Lane]) -> None:
        name = op.name
        if name == "load":
            self.remember_here(v, index, self._load(op, xs))
            return
        if name == "gather":
            self.remember_here(v, index, self._picked(op, index, xs[0]))
            return
        if name == "join" and len(xs) == 2:
            last = index[-1]
            first = self._arith_compare(last)
            self.remember(v, index, self.choose(first, xs[0], xs[1], op, v))
            return
        if not op.opdef.elementwise:
            self.remember_here(v, index, xs[0] if xs else interleave.value(self, op, index))
            return
        if rare.is_rare(op):
            self.remember(v, index, rare.select(self, op, index, *xs))
            return
        self.remember(v, index, self.apply(op, v, xs))

    def _arith_compare(self, last: Lane) -> Lane:
        from tegula.ir.types import i64

        if isinstance(last, Uni):
            return Uni(self.w.icmp("eq", last.val, self.w.const(0, "i64")))
        x = self.vec(last, i64)
        return Vec(compare(self, "icmp eq", x, self.splat(self.w.const(0, "i64"))))

    def choose(self, c: Lane, a: Lane, b: Lane, op: Op, v: Value) -> Lane:
        if isinstance(c, Uni) and c.val.const is not None:
            return a if c.val.const else b
        e = elem_of(v.type)
        if isinstance(c, Uni) and isinstance(a, Uni) and isinstance(b, Uni):
            return Uni(self.w.select(c.val, a.val, b.val))
        cv = c.val if isinstance(c, Uni) else self.vec(c, i1)
        return Vec(self.w.select(cv, self.vec(a, e), self.vec(b, e)))

    def apply(self, op: Op, v: Value, xs: list[Lane]) -> Lane:
        """An elementwise op on lane values."""
        name = op.name
        if name == "select":
            return self.choose(xs[0], xs[1], xs[2], op, v)
        rule = RULES.get(name)
        if rule is None:
            raise Unsupported(op, f"no rule to lower '{name}'")
        types = [elem_of(o.type) for o in op.operands]
        if name in ("and", "or") and types[0] is i1:
            short = self._logic(name, xs)
            if short is not None:
                return short
        if all(isinstance(x, Uni) for x in xs):
            return Uni(rule(self.k.scalar_lanes, op, *[x.val for x in xs]))
        if name == "cmp":
            known = self._constant_compare(op, xs)
            if known is not None:
                return known
        if any(isinstance(x, Lin) for x in xs):
            to: Any = types[1] if name == "addptr" else elem_of(v.type)
            if name == "rem" and self.wraps is not None and v in self.wraps:
                x = xs[0]
                if isinstance(x, Lin):
                    return Lin(self.w.add(x.base, self.wraps[v]), x.m, exact=True)
            lane = self.linear(name, xs, types[0], to)
            if lane is not None:
                return self._checked(v, lane)
        return Vec(rule(self, op, *[self.vec(x, t) for x, t in zip(xs, types)]))

    def _checked(self, v: Value, lane: Lane) -> Lane:
        """A lane value of which it is noted whether it is known to stay within its type."""
        if isinstance(lane, Lin) and not lane.exact and isinstance(elem_of(v.type), DType):
            step = lane.m if isinstance(lane.m, int) else RUNTIME
            lane.exact = v in self.flat or self.k.exprs.stays(v, step, self.position.extent)
        return lane

    def _constant_compare(self, op: Op, xs: list[Lane]) -> Lane | None:
        """A comparison whose lanes are all known, as at the end of a row."""
        if self.position.iv is not None or self.n == 1:
            return None
        sides = []
        for x in xs:
            base = x.val if isinstance(x, Uni) else x.base if isinstance(x, Lin) else None
            m = x.m if isinstance(x, Lin) else 0
            if base is None or base.const is None or not isinstance(m, int):
                return None
            sides.append([int(base.const) + m * (self.position.off + i) for i in range(self.n)])
        e = elem_of(op.operands[0].type)
        if not isinstance(e, DType) or e.is_float or any(
                not e.min_value <= v <= e.max_value for side in sides for v in side):
            return None
        lanes = [PREDICATES[op.attrs["pred"]](a, b) for a, b in zip(*sides)]
        if all(lanes) or not any(lanes):
            return Uni(self.w.const(int(lanes[0]), "i1"))
        return Vec(self.mask(lanes))

    @staticmethod
    def _logic(name: str, xs: list[Lane]) -> Lane | None:
        """Conjunction and disjunction with a constant."""
        for a, b in (xs, xs[::-1]):
            if isinstance(a, Uni) and a.val.const is not None:
                keeps = bool(a.val.const) == (name == "and")
                return b if keeps else a
        return None

    def _load(self, op: Op, xs: list[Lane]) -> Lane:
        ptr = xs[0]
        mask = xs[1] if op.operand("mask") is not None else None
        other = xs[-1] if op.operand("other") is not None else None
        pe = elem_of(op.operands[0].type)
        assert isinstance(pe, Pointer)
        hoist = None if op.attrs["volatile"] else self.floor
        if self.k.prefetch.active and isinstance(ptr, Lin) and ptr.m == 1:
            self.k.prefetch.load(op, self.at_pos(ptr, pe), pe.elem)
        return access.load(self, ptr, mask, other, pe.elem, self.exec_mask, hoist,
                           op.attrs["volatile"])

    # -- buffers

    def pointer(self, b: Buffer, index: Index) -> Lane:
        """Where an element of a buffer is."""
        w = self.w
        base: Val = b.base
        m: int | Val = 0
        vectors: Val | None = None
        for i, stride in zip(index, b.strides):
            if isinstance(i, Uni):
                base = w.gep(mem_type(b.elem), base, w.mul(i.val, w.const(stride, "i64")))
            elif isinstance(i, Lin):
                base = w.gep(mem_type(b.elem), base, w.mul(i.base, w.const(stride, "i64")))
                step = i.m * stride if isinstance(i.m, int) else w.mul(
                    i.m, w.const(stride, "i64"))
                m = self.add_steps(m, step, "i64")
            else:
                scaled = self._arith("mul", i, self.k.index_const(stride))
                assert isinstance(scaled, Vec)
                vectors = scaled.val if vectors is None else w.pure(
                    scaled.val.ty, f"add {scaled.val.ty} {{}}, {{}}", vectors, scaled.val)
        lane = self.made(base, m)
        if vectors is None:
            return lane
        p = self.vec(lane, Pointer(b.elem))  # type: ignore[arg-type]
        return Vec(w.pure(p.ty, f"getelementptr {mem_type(b.elem)}, {p.ty} {{}}, "
                                f"{vectors.ty} {{}}", p, vectors))

    def read(self, b: Buffer, index: Index, e: Any) -> Lane:
        """An element of a buffer, as element type `e`."""
        ptr = self.pointer(b, index)
        exec_mask = self.exec_mask
        if isinstance(ptr, Lin) and ptr.m == 1:
            exec_mask = None  # rows are padded to whole vectors
        lane = access.load(self, ptr, None, None, b.elem, exec_mask,  # type: ignore[arg-type]
                           self.floor)
        if b.elem is e:
            return lane
        lanes = self.k.scalar_lanes if isinstance(lane, Uni) else self
        assert isinstance(lane, Uni | Vec)
        x = cast(lanes, lane.val, b.elem, e)
        return Uni(x) if isinstance(lane, Uni) else Vec(x)

    def write(self, b: Buffer, index: Index, lane: Lane, e: Any) -> None:
        """Store an element of type `e` to a buffer."""
        if b.elem is not e:
            if isinstance(lane, Uni):
                lane = Uni(cast(self.k.scalar_lanes, lane.val, e, b.elem))
            else:
                lane = Vec(cast(self, self.vec(lane, e), e, b.elem))
        ptr = self.pointer(b, index)
        exec_mask = self.exec_mask
        if isinstance(ptr, Lin) and ptr.m == 1 and b.padded:
            exec_mask = None
        access.store(self, ptr, lane, None, b.elem, exec_mask)  # type: ignore[arg-type]

    # -- regions

    def region(self, block: Block, args: list[Lane]) -> list[Lane]:
        """The values that a combining region yields for given arguments."""
        values: dict[Value, Lane] = dict(zip(block.args, args))
        for op in block.ops:
            if op.opdef.terminator:
                return [self._region_value(values, v) for v in op.operands]
            if op.regions or not (op.opdef.elementwise or op.name == "hint"):
                raise Unsupported(op, f"'{op.name}' in the region of a reduction or scan")
            xs = [self._region_value(values, o) for o in op.operands]
            if op.name == "constant":
                values[op.results[0]] = Uni(
                    self.scalar_const(op.attrs["value"], elem_of(op.results[0].type)))
            elif op.name == "hint":
                values[op.results[0]] = xs[0]
            else:
                values[op.results[0]] = self.apply(op, op.results[0], xs)
        raise AssertionError("a region without terminator")

    def _region_value(self, values: dict[Value, Lane], v: Value) -> Lane:
        found = values.get(v)
        return found if found is not None else self.eval(v, ())


def dtype_of(v: Value) -> DType:
    e = elem_of(v.type)
    assert isinstance(e, DType)
    return e
