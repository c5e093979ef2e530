"""Masks that compare an index with a bound, and where along a row they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tegula.codegen.loops.elementwise import RULES
from tegula.codegen.loops.evaluate import Index, fact_key
from tegula.codegen.loops.lanes import Lane, Lin, Position, Uni, Vec
from tegula.codegen.loops.text import Val
from tegula.ir.core import Value
from tegula.ir.types import DType, elem_of, i1, shape_of

if TYPE_CHECKING:
    from tegula.codegen.loops.nest import Nest

Term = tuple[Value, Index]
_SWAP = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


@dataclass
class Terms:
    """Comparisons in the masks of a nest: those of loads and stores, and per store."""

    all: dict[Term, None] = field(default_factory=dict)
    stores: list[list[Term]] = field(default_factory=list)
    """Per item with a mask; empty where nothing bounds it."""


def collect_terms(nest: Nest, index: Index) -> Terms:
    """The comparisons that masks of the nest are conjunctions of."""
    terms = Terms()
    for v, i in nest.walk(index):
        op = v.owner
        if op is not None and op.name == "load":
            mask = op.operand("mask")
            if mask is not None:
                _split(nest, mask, i, terms.all)
    for item in nest.slot.items:
        own: dict[Term, None] = {}
        if item.op is not None and item.op.name == "store":
            mask = item.op.operand("mask")
            if mask is not None:
                _split(nest, mask, index, own)
                terms.all.update(own)
        terms.stores.append(list(own))
    return terms


def _split(nest: Nest, mask: Value, index: Index, out: dict[Term, None]) -> None:
    """Break a conjunction into comparisons of indices."""
    stack: list[Term] = [(mask, index)]
    k = nest.k
    while stack:
        v, i = stack.pop()
        op = v.owner
        if op is None or (v in k.homes and v not in nest.ev.producing):
            continue
        if op.name == "and" and elem_of(v.type) is i1:
            stack += [(o, i) for o in op.operands]
        elif op.name in ("splat", "broadcast", "expand_dims", "permute", "reshape", "hint"):
            stack += nest.ev._operands(op, v, i)
        elif op.name == "cmp" and _is_index_compare(nest, v, i):
            out[v, i] = None


def _is_index_compare(nest: Nest, v: Value, index: Index) -> bool:
    x = nest.k.exprs
    assert v.owner is not None
    for o in v.owner.operands:
        e = elem_of(o.type)
        if not isinstance(e, DType) or e.is_float or e.bits == 1:
            return False
        if any(leaf.owner is not None and leaf.owner.name == "load" for leaf in x.leaves(o)
               if index):
            return False
        if any(x.stride(o, d) is None for d in range(len(index))):
            return False
    return True


def everywhere(nest: Nest, terms: Terms) -> tuple[set[object], Val]:
    """Comparisons that can be decided for the whole tile, and when all of them hold.

    What grows along every dimension is below a bound everywhere if its last element is, unless it
    wraps around on the way.
    """
    k, w = nest.k, nest.w
    values: set[object] = set()
    condition = w.const(1, "i1")
    for v in dict.fromkeys(v for v, _ in terms.all):
        op = v.owner
        assert op is not None
        corner = _corner(nest, v)
        steady = None if corner is None else w.const(1, "i1")
        for o in op.operands:
            more = nest.wrapping.everywhere(o)
            steady = None if steady is None or more is None else w.both(steady, more)
        if corner is None or steady is None:
            continue
        a, b = (nest.ev.eval(o, corner) for o in op.operands)
        assert isinstance(a, Uni) and isinstance(b, Uni)
        holds = RULES["cmp"](k.scalar_lanes, op, a.val, b.val)
        values.add(v)
        condition = w.both(condition, w.both(steady, holds))
    return values, condition


def _corner(nest: Nest, v: Value) -> Index | None:
    """The element of a comparison that is the last to hold; None if there is no such one."""
    op, x = v.owner, nest.k.exprs
    assert op is not None
    upward = op.attrs["pred"] in ("lt", "le")
    if not upward and op.attrs["pred"] not in ("gt", "ge"):
        return None
    corner: list[Lane] = []
    for d, size in enumerate(shape_of(v.type)):
        a, b = (x.stride(o, d) for o in op.operands)
        if not isinstance(a, int) or not isinstance(b, int):
            return None
        if any(_has_remainder(o) for o in op.operands):
            return None
        grows = a - b > 0
        corner.append(nest.k.index_const(size - 1 if grows == upward and a != b else 0))
    return tuple(corner)


def _has_remainder(v: Value) -> bool:
    """Whether a remainder is part of an index (then it does not grow steadily)."""
    stack, seen = [v], set()
    while stack:
        x = stack.pop()
        op = x.owner
        if op is None or x in seen:
            continue
        seen.add(x)
        if op.name == "rem" and shape_of(x.type):
            return True
        stack += op.operands
    return False


class Bounds:
    """Where along the current row the masks hold.

    `limit`: all of them do before it.  `stop`: from there on no item does anything.
    """

    def __init__(self, nest: Nest, terms: Terms) -> None:
        self.nest, self.w = nest, nest.w
        self.terms = terms
        nest.ev.position = Position(None, 0, nest.n, nest.extent)
        self._known: dict[Term, tuple[Val | None, Val | None, bool] | None] = {}
        usable = {t: b for t in terms.all if (b := self._bound(t)) is not None}
        self.terms = Terms(dict.fromkeys(usable), [
            [t for t in own if t in usable] for own in terms.stores])
        extent = self.w.const(nest.extent, "i64")
        self.limit = self._meet([usable[t] for t in usable]) or extent
        self.always = not usable or self.limit.const == nest.extent
        self.facts = {fact_key(*t) for t in usable} if self.always and usable else set()
        self.stop = self._stop() or extent

    def _bound(self, term: Term) -> tuple[Val | None, Val | None, bool] | None:
        """Upper bound, condition, and whether the condition is the same for the whole row."""
        if term not in self._known:
            self._known[term] = self._find_bound(term)
        return self._known[term]

    def _find_bound(self, term: Term) -> tuple[Val | None, Val | None, bool] | None:
        v, index = term
        op, ev, w = v.owner, self.nest.ev, self.w
        assert op is not None
        e = elem_of(op.operands[0].type)
        assert isinstance(e, DType)
        a, b = (ev.eval(o, index) for o in op.operands)
        pred = op.attrs["pred"]
        if isinstance(a, Uni) and isinstance(b, Uni):
            return None, ev.eval(v, index).val, True  # type: ignore[union-attr]
        if isinstance(a, Uni):
            a, b, pred = b, a, _SWAP[pred]
        wide_a, wide_b = self._wide(a, e), self._wide(b, e)
        if not (isinstance(wide_a, Lin) and isinstance(wide_b, Uni)):
            return None
        m, base, limit = wide_a.m, wide_a.base, wide_b.val
        if not isinstance(m, int) or m <= 0:
            return None
        if pred in ("lt", "le"):
            room = w.sub(limit, base) if e.bits < 64 else self._distance(limit, base)
            if pred == "le":
                room = w.add(room, w.const(1, "i64"))
            if m > 1:
                room = w.pure("i64", f"sdiv i64 {{}}, {m}", w.add(room, w.const(m - 1, "i64")))
            return w.clamp(room, 0, self.nest.extent), None, False
        if pred in ("gt", "ge"):
            return None, w.icmp("s" + pred, base, limit), False
        return None

    def _distance(self, limit: Val, base: Val) -> Val:
        """The difference of two 64-bit numbers, limited to what rows can have."""
        w, most = self.w, 1 << 62
        if limit.const is not None and base.const is not None:
            far = int(limit.const) - int(base.const)
            return w.const(max(-most, min(most, far)), "i64")
        return w.clamp(w.call("llvm.ssub.sat.i64", "i64", limit, base), -most, most)

    def _wide(self, x: Lane, e: DType) -> Lane | None:
        """In 64 bits; unsigned numbers of 64 bits compare differently."""
        if isinstance(x, Vec) or (e.bits == 64 and not e.is_signed):
            return None
        if isinstance(x, Lin) and not self.nest.ev.is_exact(x, e):
            return None
        return self.nest.ev.widen(x, e, "i64")

    def _meet(self, parts: list[tuple[Val | None, Val | None, bool]]) -> Val | None:
        """The part of the row where all bounds and conditions hold."""
        w = self.w
        limit: Val | None = None
        for upper, _, _ in parts:
            if upper is not None:
                limit = upper if limit is None else self._least(limit, upper)
        condition: Val | None = None
        for _, c, _ in parts:
            if c is not None and c.const != 1:
                condition = c if condition is None else w.pure(
                    "i1", "and i1 {}, {}", condition, c)
        if condition is not None:
            whole = limit or w.const(self.nest.extent, "i64")
            limit = w.select(condition, whole, w.const(0, "i64"))
        return limit

    def _least(self, a: Val, b: Val) -> Val:
        if a.const is not None and b.const is not None:
            return a if a.const <= b.const else b
        return self.w.call("llvm.smin.i64", "i64", a, b)

    def _stop(self) -> Val | None:
        """Where the last store of the row may be; None if items do something everywhere."""
        total: Val | None = None
        for item, own in zip(self.nest.slot.items, self.terms.stores):
            if item.kind == "touch":
                continue
            parts = [b for t in own if (b := self._bound(t)) and (b[0] is not None or b[2])]
            if item.kind != "store" or not parts:
                return None
            end = self._meet(parts)
            if end is None:
                return None
            total = end if total is None else self.w.call("llvm.smax.i64", "i64", total, end)
        return total
