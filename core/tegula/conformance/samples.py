"""The smallest kernel of every op and dtype, made from the op's declaration.

What an op takes is asked of the declaration itself: a dtype belongs to an op if the op can be built
with it. The compile tests and the coverage list are derived from this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tegula.conformance.case import combine_region
from tegula.conformance.values import has_meaning
from tegula.ir import Block, Builder, DType, Function, Module, Pointer, Tile, Value
from tegula.ir.opdef import IRError, OpDef
from tegula.ir.ops import OPS
from tegula.ir.types import DTYPES, f32, i1, i32, i64

SIZE = 8
DEFAULTS: dict[str, dict[str, Any]] = {
    "cmp": {"pred": "lt"},
    "atomic_rmw": {"kind": "xchg"},
    "hint": {"kind": "multiple_of", "values": (1,)},
    "splat": {"shape": (SIZE,)},
    "broadcast": {"shape": (SIZE,)},
    "reshape": {"shape": (2, SIZE // 2)},
    "expand_dims": {"axis": 0},
    "flip": {"axis": 0},
    "slice": {"starts": (1,), "steps": (2,), "shape": (3,)},
    "permute": {"dims": (0,)},
}


class _Kernel:
    """A kernel with one pointer parameter per tile that it needs."""

    def __init__(self) -> None:
        self.body = Block()
        self.b = Builder(self.body)
        self.params: list[Value] = []

    def pointers(self, dtype: DType, shape: tuple[int, ...] = (SIZE,)) -> Value:
        p = Value(Pointer(dtype), f"p{len(self.params)}")
        self.params.append(p)
        count = 1
        for n in shape:
            count *= n
        line = self.b.arange(start=0, end=count)
        offsets = line if len(shape) == 1 else self.b.reshape(line, shape=shape)
        return self.b.addptr(self.b.splat(p, shape=shape), offsets)

    def tile(self, dtype: DType, shape: tuple[int, ...] = (SIZE,)) -> Value:
        return self.b.load(self.pointers(dtype, shape))

    def scalar(self, dtype: DType) -> Value:
        p = Value(Pointer(dtype), f"p{len(self.params)}")
        self.params.append(p)
        return self.b.load(p)

    def keep(self, value: Value) -> None:
        """Store a result, so that nothing of the sample is dead."""
        if isinstance(value.type, Tile):
            assert isinstance(value.type.elem, DType)
            self.b.store(self.pointers(value.type.elem, value.type.shape), value)
        else:
            assert isinstance(value.type, DType)
            p = Value(Pointer(value.type), f"p{len(self.params)}")
            self.params.append(p)
            self.b.store(p, value)

    def module(self) -> Module:
        self.b.return_()
        self.body.args = self.params
        return Module([Function("sample", self.body)])


def sample(name: str, dtype: DType, **attrs: Any) -> Module:
    """The smallest kernel that uses an op with a dtype. Raises IRError if the op refuses it."""
    k = _Kernel()
    build = _SPECIAL.get(name, _plain)
    build(k, OPS[name], dtype, {**DEFAULTS.get(name, {}), **attrs})
    return k.module()


def _plain(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    shape = (SIZE,)
    if d.name == "broadcast":
        shape = (1,)
    if d.name == "split":
        shape = (SIZE, 2)
    if d.name == "splat":
        operands = [k.scalar(t)]
    else:
        operands = [
            k.tile(i1 if o.name == "cond" else t, shape) for o in d.operands if o.arity == "one"
        ]
    result = k.b.create(d.name, *operands, **attrs)
    for value in result if isinstance(result, tuple) else (result,):
        k.keep(value)


def _constant(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.constant(1, Tile((SIZE,), t)))


def _arange(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    if t is not i32:
        raise IRError("arange makes i32")
    k.keep(k.b.arange(start=1, end=SIZE + 1))


def _place(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    if t is not i32:
        raise IRError(f"{d.name} makes i32")
    k.keep(k.b.create(d.name, **{"axis": 0, **attrs}))


def _cast(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    to = attrs.pop("to", f32 if t is not f32 else i32)
    k.keep(k.b.create("cast", k.tile(t), to=to, **attrs))


def _bitcast(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    same = (u for u in DTYPES.values() if u.bits == t.bits and u is not t and has_meaning(u))
    k.keep(k.b.bitcast(k.tile(t), to=next(same, t)))


def _addptr(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.load(k.b.addptr(k.pointers(f32), k.tile(t))))


def _load(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.load(k.pointers(t), k.tile(i1), k.tile(t), **attrs))


def _store(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.b.store(k.pointers(t), k.tile(t), k.tile(i1), **attrs)


def _atomic_rmw(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.create("atomic_rmw", k.pointers(t), k.tile(t), **attrs))


def _atomic_cas(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.atomic_cas(k.pointers(t), k.tile(t), k.tile(t), **attrs))


def _atomic_load(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.atomic_load(k.pointers(t), k.tile(i1), **attrs))


def _atomic_store(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.b.atomic_store(k.pointers(t), k.tile(t), k.tile(i1), **attrs)


def _atomic_poll(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    p = Value(Pointer(t), f"p{len(k.params)}")
    k.params.append(p)
    k.keep(k.b.atomic_poll(p, k.scalar(t), k.b.constant(1000, i64), **attrs))


def _descriptor(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    padding = attrs.pop("padding", "zero")
    base = Value(Pointer(t), f"p{len(k.params)}")
    k.params.append(base)
    shape = [k.b.constant(SIZE, i32)] * 2
    strides = [k.b.constant(SIZE, i64), k.b.constant(1, i64)]
    desc = k.b.make_descriptor(base, shape, strides, block_shape=(4, 4), padding=padding)
    zero = k.b.constant(0, i32)
    if d.name == "desc_store":
        k.b.desc_store(desc, k.tile(t, (4, 4)), [zero, zero], **attrs)
    else:
        k.keep(k.b.desc_load(desc, [zero, zero], **attrs))


def _fold(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    attrs = {"axis": 0, **attrs}
    (value,) = k.b.create(d.name, [k.tile(t)], regions=[combine_region("max", t)], **attrs)
    k.keep(value)


def _dot(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    acc = t if t.bits >= 32 else f32 if t.is_float else i32
    if t is i1:
        raise IRError("a dot of truth values is not asked for")
    a, b, c = k.tile(t, (4, 4)), k.tile(t, (4, 4)), k.tile(acc, (4, 4))
    k.keep(k.b.dot(a, b, c, **attrs))


def _gather(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.gather(k.tile(t), k.tile(i32), axis=0))


def _sort(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    result = k.b.sort(k.tile(t), [], axis=0, **attrs)
    k.keep(result[0] if isinstance(result, tuple) else result)


def _histogram(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.keep(k.b.histogram(k.tile(t), k.tile(i1), bins=4))


def _map(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    body = Block([t])
    Builder(body).yield_(body.args)
    result = k.b.create("map", [k.tile(t)], regions=[body])
    k.keep(result[0] if isinstance(result, tuple) else result)


def _for(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    if t is i1 or not t.is_int:
        raise IRError("loops count in integers")
    body = Block([t, t])
    inner = Builder(body)
    inner.yield_([inner.add(*body.args)])
    bounds = [k.scalar(t) for _ in range(3)]
    (value,) = k.b.for_(*bounds, [k.scalar(t)], body, **attrs)
    k.keep(value)


def _while(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    before, after = Block([t]), Block([t])
    Builder(before).condition(k.scalar(i1), before.args)
    Builder(after).yield_(after.args)
    (value,) = k.b.while_([k.scalar(t)], before, after)
    k.keep(value)


def _if(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    then, other = Block(), Block()
    Builder(then).yield_([k.tile(t)])
    Builder(other).yield_([k.tile(t)])
    (value,) = k.b.if_(k.scalar(i1), then, other)
    k.keep(value)


def _print(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    k.b.print([k.tile(t)], prefix="x ", **attrs)


def _truth(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    if t is not i1:
        raise IRError(f"{d.name} takes i1")
    condition = k.scalar(i1) if d.name == "assume" else k.tile(i1)
    k.b.create(d.name, condition, **attrs)


def _foreign(k: _Kernel, d: OpDef, t: DType, attrs: dict[str, Any]) -> None:
    given = {"asm": "", "constraints": "=r,r", "symbol": "no_such_function", "elems": t.name}
    wanted = {name: given[name] for name in d.attrs if name in given}
    k.keep(k.b.create(d.name, [k.tile(t)], **wanted))


_SPECIAL: dict[str, Callable[[_Kernel, OpDef, DType, dict[str, Any]], None]] = {
    "constant": _constant, "arange": _arange, "program_id": _place, "num_programs": _place,
    "cast": _cast, "bitcast": _bitcast, "addptr": _addptr, "load": _load, "store": _store,
    "atomic_rmw": _atomic_rmw, "atomic_cas": _atomic_cas, "make_descriptor": _descriptor,
    "atomic_load": _atomic_load, "atomic_store": _atomic_store, "atomic_poll": _atomic_poll,
    "desc_load": _descriptor, "desc_store": _descriptor, "reduce": _fold, "scan": _fold,
    "dot": _dot, "gather": _gather, "sort": _sort, "histogram": _histogram, "map": _map,
    "for": _for, "while": _while, "if": _if, "print": _print, "assert": _truth,
    "assume": _truth, "inline_asm": _foreign, "extern_call": _foreign,
}  # fmt: skip

STRUCTURAL = frozenset({"yield", "condition", "return", "call"})
"""Ops that carry values of any type and compute nothing; cases cover them, not samples."""


def is_foreign(name: str) -> bool:
    """Whether an op means what its target says it means: only its refusal can be tested."""
    return OPS[name].category == "foreign"


def signatures() -> Iterator[tuple[str, DType]]:
    """Every op with every dtype that it can be built with."""
    for name in OPS:
        if name in STRUCTURAL or is_foreign(name):
            continue
        for dtype in DTYPES.values():
            if not has_meaning(dtype):
                continue
            try:
                sample(name, dtype)
            except IRError:
                continue
            yield name, dtype
