"""What the planner asks about expressions: what they read, what they cost, how they stride."""

from __future__ import annotations

from math import prod

from tegula.analysis.alias import pointer_roots
from tegula.analysis.ranges import Ranges
from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.patterns import combine_kind, constant_value
from tegula.ir.types import DType, Tile, elem_of, is_pointer, shape_of

RUNTIME = "runtime"
"""A stride that is some uniform number, not known when compiling."""

Stride = int | str | None
"""Distance of neighbours along a dimension: a constant, RUNTIME, or None where there is none."""

MOVES = frozenset(
    {"splat", "broadcast", "expand_dims", "reshape", "permute", "join", "split", "hint", "flip",
     "slice", "gather"}
)
"""Ops that move elements and compute nothing."""

NODES = frozenset({"load", "reduce", "scan", "dot", "cat", "atomic_rmw", "atomic_cas",
                   "atomic_load", "atomic_poll", "for",
                   "while", "if", "sort", "histogram", "map"})  # fmt: skip
"""Ops that an expression does not reach through (a load it does, as a leaf that is evaluated)."""

_COST = {
    "constant": 0, "arange": 0, "cast": 1, "div": 8, "rem": 10, "sqrt": 8, "rsqrt": 12, "fma": 1,
    "load": 3, "mulhi": 3, "program_id": 0, "num_programs": 0,
}  # fmt: skip
MAX_DEPTH = 100
"""Recursion over operands ends here."""

CHEAP = 6
"""An expression of at most this cost is computed again rather than kept."""


def is_tile(v: Value) -> bool:
    return isinstance(v.type, Tile)


class Exprs:
    """Questions about values of one function, answered once each."""

    def __init__(self, function: Function) -> None:
        self.roots = pointer_roots(function)
        self.params = {v: i for i, v in enumerate(function.body.args)}
        self.ranges = Ranges({op.regions[0].args[0]: op for op in function.body.walk()
                              if op.name == "for"})
        self._leaves: dict[Value, dict[Value, bool]] = {}
        self._cost: dict[Value, int] = {}
        self._strides: dict[tuple[Value, int], Stride] = {}
        self._same: dict[Value, int] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._depth = 0
        self.kept: set[Value] = set()
        """Values that lie in buffers: expressions end at them."""

    def is_lazy(self, v: Value) -> bool:
        """Whether the value is computed where it is used."""
        op = v.owner
        return op is not None and (op.name == "load" or op.name not in NODES) and (
            is_tile(v) or op.opdef.pure
        ) and (op.name != "load" or is_tile(v))

    # -- leaves

    def leaves(self, v: Value) -> dict[Value, bool]:
        """Loads, results of nodes and block arguments that `v` is computed from.

        True for those read at the very element that is being computed, by no other way.
        """
        found = self._leaves.get(v)
        if found is not None:
            return found
        stack = [v]
        while stack:
            x = stack[-1]
            if x in self._leaves:
                stack.pop()
                continue
            if not self.is_lazy(x):
                self._leaves[x] = {x: True}
                stack.pop()
                continue
            op = x.owner
            assert op is not None
            missing = [o for o in op.operands if o not in self._leaves]
            if missing:
                stack += missing
                continue
            self._leaves[x] = self._combine(x, op)
            stack.pop()
        return self._leaves[v]

    def _combine(self, x: Value, op: Op) -> dict[Value, bool]:
        out: dict[Value, bool] = {x: True} if op.name == "load" else {}
        moves = op.name in MOVES and not self._is_identity(op)
        for o in op.operands:
            for leaf, exact in self._leaves[o].items():
                out[leaf] = out.get(leaf, True) and exact and not moves
        return out

    @staticmethod
    def _is_identity(op: Op) -> bool:
        return op.name == "hint" or (
            op.name in ("broadcast", "reshape") and shape_of(op.operands[0].type)
            == shape_of(op.results[0].type)
        )

    def loads_in(self, v: Value) -> list[Value]:
        return [x for x in self.leaves(v) if x.owner is not None and x.owner.name == "load"]

    # -- cost

    def cost(self, v: Value) -> int:
        """Rough number of instructions to compute one element (at most about 1000)."""
        found = self._cost.get(v)
        if found is not None:
            return found
        stack = [v]
        while stack:
            x = stack[-1]
            if x in self._cost:
                stack.pop()
                continue
            op = x.owner
            if op is None or not self.is_lazy(x) or not is_tile(x) or op.name == "splat":
                self._cost[x] = 0
                stack.pop()
                continue
            missing = [o for o in op.operands if o not in self._cost]
            if missing:
                stack += missing
                continue
            own = 0 if op.name in MOVES else _COST.get(op.name, 1)
            if op.name == "addptr":
                own = 0
            self._cost[x] = min(1000, own + sum(self._cost[o] for o in op.operands))
            stack.pop()
        return self._cost[v]

    def is_cheap(self, v: Value) -> bool:
        """Whether to compute the value again wherever it is needed."""
        if not is_tile(v):
            return True
        for leaf in self.leaves(v):
            owner = leaf.owner
            if owner is not None and owner.name == "load" and is_tile(leaf):
                return False
        e = elem_of(v.type)
        if isinstance(e, DType) and e.is_float:
            return self.cost(v) <= CHEAP // 2
        if self.cost(v) <= CHEAP:
            return True
        return self._is_index(v)

    def is_reloadable(self, v: Value) -> bool:
        """Whether reading memory again is as good as keeping the value: a contiguous load that was
        just made, and little arithmetic on it."""
        loads = [x for x in self.loads_in(v) if is_tile(x)]
        if not 1 <= len(loads) <= 2 or self.cost(v) > (_COST["load"] + 2) * len(loads):
            return False
        for leaf in self.leaves(v):
            if leaf not in loads and is_tile(leaf):
                return False
        for x in loads:
            op = x.owner
            assert op is not None
            if op.attrs["volatile"] or self.unit_dim(x) is None:
                return False
            if any(is_tile(o) and not self.is_cheap(o) for o in op.operands):
                return False
        return True

    def _is_index(self, v: Value) -> bool:
        """Whether an integer or pointer has a stride in every dimension (so it stays scalar)."""
        return all(self.stride(v, d) is not None for d in range(len(shape_of(v.type))))

    # -- strides

    def stride(self, v: Value, dim: int) -> Stride:
        """How far apart neighbours of `v` along `dim` are (in elements, for pointers)."""
        key = (v, dim)
        if key not in self._strides:
            if self._depth > MAX_DEPTH:
                return None  # no index is that complicated
            self._depth += 1
            self._strides[key] = self._find_stride(v, dim)
            self._depth -= 1
        return self._strides[key]

    def _find_stride(self, v: Value, dim: int) -> Stride:
        shape = shape_of(v.type)
        if not shape or shape[dim] == 1:
            return 0
        op = v.owner
        if op is None or v in self.kept or not self.is_lazy(v):
            return None
        name = op.name
        if name == "arange":
            return 1
        if name in ("constant", "splat"):
            return 0
        if name == "hint":
            return self.stride(op.operands[0], dim)
        if name == "broadcast":
            inner = shape_of(op.operands[0].type)[dim]
            return 0 if inner == 1 else self.stride(op.operands[0], dim)
        if name == "expand_dims":
            axis = op.attrs["axis"]
            return self.stride(op.operands[0], dim if dim < axis else dim - 1)
        if name == "permute":
            return self.stride(op.operands[0], op.attrs["dims"][dim])
        if name == "slice":
            return _times(self.stride(op.operands[0], dim), op.attrs["steps"][dim])
        if name == "flip":
            along = self.stride(op.operands[0], dim)
            return _times(along, -1) if dim == op.attrs["axis"] else along
        if name == "reshape":
            return self._reshape_stride(op, dim)
        if name == "load":
            return 0 if self._all_zero(op, dim) else None
        return self._elementwise_stride(op, dim)

    def _reshape_stride(self, op: Op, dim: int) -> Stride:
        source, shape = shape_of(op.operands[0].type), shape_of(op.results[0].type)
        if len([d for d in source if d != 1]) == 1:
            axis = next(i for i, d in enumerate(source) if d != 1)
            inner = self.stride(op.operands[0], axis)
            return _times(inner, prod(shape[dim + 1 :]))
        after = prod(shape[dim + 1 :])
        for i, d in enumerate(source):  # a dimension kept whole
            if d == shape[dim] and prod(source[i + 1 :]) == after:
                return self.stride(op.operands[0], i)
        return None

    def _all_zero(self, op: Op, dim: int) -> bool:
        return all(self.stride(o, dim) == 0 for o in op.operands if is_tile(o))

    def _elementwise_stride(self, op: Op, dim: int) -> Stride:
        if not op.opdef.elementwise:
            return None
        if self._all_zero(op, dim):
            return 0
        xs = [self.stride(o, dim) for o in op.operands]
        if op.name in ("add", "addptr"):
            return _plus(xs[0], xs[1])
        if op.name == "sub":
            return _plus(xs[0], _times(xs[1], -1))
        if op.name == "mul":
            for i in (0, 1):
                if xs[1 - i] == 0:
                    k = constant_value(op.operands[1 - i])
                    return _times(xs[i], k if k is not None else RUNTIME)
            return None
        if op.name == "shl" and xs[1] == 0:
            k = constant_value(op.operands[1])
            return _times(xs[0], 1 << k if k is not None and 0 <= k < 31 else RUNTIME)
        if op.name == "rem" and xs[1] == 0:  # linear except where it wraps around
            return xs[0]
        if op.name == "cast":
            e = elem_of(op.operands[0].type)
            to = op.attrs["to"]
            ints = isinstance(e, DType) and e.is_int and isinstance(to, DType) and to.is_int
            return xs[0] if ints and e.bits > 1 and to.bits > 1 else None
        return None

    def stays(self, v: Value, step: Stride, extent: int) -> bool:
        """Whether a linear index is proven to stay within its type, all along a row.

        With room for the row's length at both ends: a row may be counted from before its lanes.
        """
        e = elem_of(v.type)
        if step is None or not isinstance(e, DType) or not e.is_int or not e.is_signed:
            return False
        low, high = self.ranges.of(v)
        room = extent * (abs(step) if isinstance(step, int) else high - low)
        return low - room >= e.min_value and high + room <= e.max_value

    # -- equality of addresses

    def identity(self, v: Value) -> int:
        """A number that is equal for values which are surely equal.

        All pointer parameters count as one, so pointers into different buffers at the same offset
        agree; whether they come from one parameter is for `roots` to say.
        """
        found = self._same.get(v)
        if found is None:
            op = v.owner
            key: tuple[object, ...]
            if self._depth > MAX_DEPTH:
                return -1 - id(v)
            self._depth += 1
            if op is None and v in self.params and is_pointer(v.type):
                key = ("pointer",)
            elif op is None or not op.opdef.pure or op.regions:
                key = ("value", v)
            else:
                attrs = tuple([(k, str(a)) for k, a in op.attrs.items()])
                which = op.results.index(v)
                key = (op.name, attrs, which, *[self.identity(o) for o in op.operands])
            found = self._same[v] = self._numbers.setdefault(key, len(self._numbers))
            self._depth -= 1
        return found

    def unit_dim(self, v: Value) -> int | None:
        """The dimension along which most loads of an expression are contiguous."""
        rank = len(shape_of(v.type))
        votes = [0] * rank
        for leaf, exact in self.leaves(v).items():
            if exact and leaf.owner is not None and leaf.owner.name == "load" and is_tile(leaf):
                for d in range(rank):
                    votes[d] += self.stride(leaf.owner.operands[0], d) in (1, -1)
        best = max(votes, default=0)
        return max(d for d in range(rank) if votes[d] == best) if best else None


def is_elementwise(region: Block) -> bool:
    """Whether a region of scalars only computes, so that it may run on vectors."""
    return all(
        op.opdef.terminator or (not op.regions and (op.opdef.elementwise or op.name == "hint"))
        for op in region.ops
    )


def fold_kind(op: Op) -> str | None:
    """How a reduction or scan combines, if that has a neutral element; None otherwise.

    8-bit floats have none for most kinds, and some have no infinities.
    """
    e = elem_of(op.operands[0].type)
    if len(op.operands) != 1 or (isinstance(e, DType) and e.is_float and e.bits == 8):
        return None
    return combine_kind(op.regions[0])


def transposed_load(value: Value) -> tuple[Value, bool]:
    """The load behind a value that only permutes it, and whether the matrix is turned."""
    x, turned = value, False
    while x.owner is not None and x.owner.name == "permute" and len(x.owner.attrs["dims"]) == 2:
        turned ^= tuple(x.owner.attrs["dims"]) == (1, 0)
        x = x.owner.operands[0]
    plain = x.owner is not None and x.owner.name == "load" and not x.owner.attrs["volatile"]
    return (x, turned) if plain else (Value(value.type), False)


def _plus(a: Stride, b: Stride) -> Stride:
    if a is None or b is None:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return RUNTIME


def _times(a: Stride, b: Stride) -> Stride:
    if a is None or b is None:
        return None
    if a == 0 or b == 0:
        return 0
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return RUNTIME
