"""The pass `contract`: a product that is added once is rounded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tegula.ir.builder import Builder
from tegula.ir.core import Block, Cloner, Function, Op, Value
from tegula.ir.types import elem_of, f32, f64

from .base import Pass, PassContext


@dataclass(frozen=True)
class Contract(Pass):
    """Turn a product and the sum or difference that alone uses it into one fused operation, which
    rounds once where the two round twice. Only f32 and f64, for which machines have it.

    Before:
        kernel @k(%p: ptr<f32>, %a: f32, %b: f32, %c: f32) {
          %0 = mul %a, %b : f32
          %1 = add %0, %c : f32
          store %p, %1
          return
        }
    After:
        kernel @k(%p: ptr<f32>, %a: f32, %b: f32, %c: f32) {
          %0 = fma %a, %b, %c : f32
          store %p, %0
          return
        }
    """

    name = "contract"

    def run_function(self, function: Function, ctx: PassContext) -> Function:
        found = _pairs(function)
        if not found:
            return function
        products = {product for product, _ in found.values()}

        def hook(op: Op, cloner: Cloner) -> Sequence[Value] | None:
            if op in products:
                return [cloner.value(op.operands[0])]  # nobody is left who asks for it
            if op not in found:
                return None
            product, place = found[op]
            return [_fused(op, product, place, cloner)]

        return Cloner(hook).function(function)


def _pairs(function: Function) -> dict[Op, tuple[Op, int]]:
    """Sums and differences with the product that goes into each, and as which operand."""
    uses: Counter[Value] = Counter()
    for op in function.body.walk():
        uses.update(op.operands)
    out: dict[Op, tuple[Op, int]] = {}
    for op in function.body.walk():
        if op.name not in ("add", "sub") or elem_of(op.operands[0].type) not in (f32, f64):
            continue
        for place, v in enumerate(op.operands):
            owner = v.owner
            if owner is not None and owner.name == "mul" and uses[v] == 1:
                out[op] = (owner, place)
                break
    return out


def _fused(op: Op, product: Op, place: int, cloner: Cloner) -> Value:
    block = Block()
    b = Builder(block, op.loc)
    x, y = cloner.values(product.operands)
    other = cloner.value(op.operands[1 - place])
    if op.name == "sub":
        if place == 0:
            other = b.neg(other)
        else:
            x = b.neg(x)
    result: Value = b.fma(x, y, other)
    cloner.out.extend(block.ops)
    return result
