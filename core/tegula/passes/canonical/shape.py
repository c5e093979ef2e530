"""Algebra of ops that move elements."""

from __future__ import annotations

from tegula.ir.core import Op, Value
from tegula.ir.types import Descriptor, Tile, elem_of, shape_of, with_shape
from tegula.rewrite import Rewriter, Rules

from .match import constant_of, made_by

shape = Rules("shape")

_SAME_EVERYWHERE = ("broadcast", "expand_dims", "reshape", "permute")


@shape.rule("splat", *_SAME_EVERYWHERE)
def of_constant(op: Op, b: Rewriter) -> Value | None:
    """splat(c) == c of the larger type; moving the elements of a filled tile gives a filled tile"""
    number = constant_of(op.operands[0])
    return None if number is None else b.constant(number, op.results[0].type)


@shape.rule(*_SAME_EVERYWHERE)
def of_splat(op: Op, b: Rewriter) -> Value | None:
    """broadcast(splat(x)) == splat(x) of the larger shape; so for the others; a scalar is x"""
    splat = made_by(op.operands[0], "splat")
    if splat is None:
        return None
    sizes = shape_of(op.results[0].type)
    return b.splat(splat.operands[0], shape=sizes) if sizes else splat.operands[0]


@shape.rule("hint")
def hint_of_constant(op: Op, b: Rewriter) -> Value | None:
    """hint(c) == c"""
    return op.operands[0] if constant_of(op.operands[0]) is not None else None


@shape.rule("broadcast", "reshape")
def to_same_shape(op: Op, b: Rewriter) -> Value | None:
    """broadcast(x) == reshape(x) == x where the shape stays"""
    x = op.operands[0]
    return x if x.type is op.results[0].type else None


@shape.rule("broadcast", "reshape")
def twice(op: Op, b: Rewriter) -> Value | None:
    """broadcast(broadcast(x)) == broadcast(x); reshape(reshape(x)) == reshape(x)"""
    inner = made_by(op.operands[0], op.name)
    return None if inner is None else b.create(op.name, inner.operands[0], shape=op.attrs["shape"])


@shape.rule("reshape")
def reshape_of_expand_dims(op: Op, b: Rewriter) -> Value | None:
    """reshape(expand_dims(x)) == reshape(x)"""
    inner = made_by(op.operands[0], "expand_dims")
    return None if inner is None else b.reshape(inner.operands[0], shape=op.attrs["shape"])


@shape.rule("expand_dims")
def expand_dims_of_reshape(op: Op, b: Rewriter) -> Value | None:
    """expand_dims(reshape(x)) == reshape(x)"""
    inner = made_by(op.operands[0], "reshape")
    if inner is None:
        return None
    return b.reshape(inner.operands[0], shape=shape_of(op.results[0].type))


@shape.rule("reshape")
def reshape_adds_one(op: Op, b: Rewriter) -> Value | None:
    """reshape(x) == expand_dims(x) where one dimension of size 1 is new"""
    old, new = shape_of(op.operands[0].type), tuple(op.attrs["shape"])
    if not old or len(new) != len(old) + 1:
        return None
    for axis, size in enumerate(new):
        if size == 1 and new[:axis] + new[axis + 1 :] == old:
            return b.expand_dims(op.operands[0], axis=axis)
    return None


@shape.rule("permute")
def permute_identity(op: Op, b: Rewriter) -> Value | None:
    """permute(x, (0, 1, ...)) == x"""
    dims = tuple(op.attrs["dims"])
    return op.operands[0] if dims == tuple(range(len(dims))) else None


@shape.rule("permute")
def permute_of_permute(op: Op, b: Rewriter) -> Value | None:
    """permute(permute(x, p), q) == permute(x, p[q])"""
    inner = made_by(op.operands[0], "permute")
    if inner is None:
        return None
    p, q = inner.attrs["dims"], op.attrs["dims"]
    return b.permute(inner.operands[0], dims=tuple(p[i] for i in q))


@shape.rule("permute")
def permute_of_ones(op: Op, b: Rewriter) -> Value | None:
    """permute(x) == reshape(x) where only dimensions of size 1 move"""
    old = shape_of(op.operands[0].type)
    moved = [d for d in op.attrs["dims"] if old[d] != 1]
    if moved != sorted(moved):
        return None
    return b.reshape(op.operands[0], shape=shape_of(op.results[0].type))


@shape.rule("permute")
def permute_of_broadcast(op: Op, b: Rewriter) -> Value | None:
    """permute(broadcast(x)) == broadcast(permute(x))"""
    inner = made_by(op.operands[0], "broadcast")
    if inner is None:
        return None
    moved = b.permute(inner.operands[0], dims=op.attrs["dims"])
    return b.broadcast(moved, shape=shape_of(op.results[0].type))


@shape.rule("expand_dims")
def expand_dims_of_broadcast(op: Op, b: Rewriter) -> Value | None:
    """expand_dims(broadcast(x)) == broadcast(expand_dims(x))"""
    inner = made_by(op.operands[0], "broadcast")
    if inner is None:
        return None
    larger = b.expand_dims(inner.operands[0], axis=op.attrs["axis"])
    return b.broadcast(larger, shape=shape_of(op.results[0].type))


@shape.rule("split")
def split_of_join(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """split(join(x, y)) == x, y; split of a filled tile is two filled tiles"""
    x = op.operands[0]
    join = made_by(x, "join")
    if join is not None:
        return join.operands
    t = op.results[0].type
    number, splat = constant_of(x), made_by(x, "splat")
    if number is not None:
        return (b.constant(number, t),) * 2
    if splat is None:
        return None
    sizes = shape_of(t)
    half = b.splat(splat.operands[0], shape=sizes) if sizes else splat.operands[0]
    return (half, half)


@shape.rule("join", "cat")
def join_of_filled(op: Op, b: Rewriter) -> Value | None:
    """join(c, c) == cat(c, c) == c of the larger type; join(x, y) == z where x, y == split(z)"""
    x, y = op.operands
    t = op.results[0].type
    number, other = constant_of(x), constant_of(y)
    if number is not None and other is not None and repr(number) == repr(other):
        return b.constant(number, t)
    left, right = made_by(x, "splat"), made_by(y, "splat")
    if left is not None and right is not None and left.operands[0] is right.operands[0]:
        return b.splat(left.operands[0], shape=shape_of(t))
    split = made_by(x, "split")
    if op.name == "join" and split is not None and tuple(split.results) == (x, y):
        return split.operands[0]
    return None


@shape.rule("cat")
def cat_of_nothing(op: Op, b: Rewriter) -> Value | None:
    """cat(x, y) == x where y has no elements, and the other way round"""
    for x in op.operands:
        if x.type is op.results[0].type:
            return x
    return None


@shape.rule("reduce")
def reduce_of_one(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """reduce(x) == x without the axis, where the axis has one element"""
    t = op.operands[0].type
    assert isinstance(t, Tile)
    if t.shape[op.attrs["axis"]] != 1:
        return None
    return tuple(b.reshape(x, shape=shape_of(r.type)) for x, r in zip(op.operands, op.results))


@shape.rule("scan")
def scan_of_one(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """scan(x) == x where the axis has one element"""
    t = op.operands[0].type
    assert isinstance(t, Tile)
    return op.operands if t.shape[op.attrs["axis"]] <= 1 else None


@shape.rule("reduce")
def reduce_of_filled(op: Op, b: Rewriter) -> tuple[Value, ...] | None:
    """max(c, c, ...) == min(c, c, ...) == c, and so for bitwise and, or"""
    from tegula.ir.patterns import combine_kind

    if len(op.operands) != 1:
        return None
    if combine_kind(op.regions[0]) not in ("max", "min", "maxnan", "minnan", "and", "or"):
        return None
    x, t = op.operands[0], op.results[0].type
    assert not isinstance(x.type, Descriptor)
    number, splat = constant_of(x), made_by(x, "splat")
    if number is not None:
        return (b.constant(number, with_shape(elem_of(x.type), shape_of(t))),)
    if splat is None:
        return None
    sizes = shape_of(t)
    return (b.splat(splat.operands[0], shape=sizes) if sizes else splat.operands[0],)
