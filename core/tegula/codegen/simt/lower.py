"""The entry of the lowering: a module with one kernel becomes LLVM text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tegula.codegen.loops.prepare import prepare, without_descriptors
from tegula.codegen.simt import (  # noqa: F401  (each enters its ops into the table)
    assembly,
    buffers,
    collect,
    combine,
    control,
    convert,
    division,
    dot,
    memory,
    output,
    products,
    shapes,
    sorting,
)
from tegula.codegen.simt.assign import assign_layouts
from tegula.codegen.simt.blocks import block_loads
from tegula.codegen.simt.bulk import store_blocks
from tegula.codegen.simt.hooks import Simt
from tegula.codegen.simt.kernel import Emitter
from tegula.codegen.simt.padding import pad_tiles
from tegula.codegen.simt.pipeline import pipeline_loops
from tegula.codegen.simt.registry import Context, shared_size
from tegula.codegen.simt.scratch import held_bytes, plan_memory
from tegula.codegen.simt.tensormaps import mapped
from tegula.codegen.simt.whole import split_whole
from tegula.ir.core import Function, Module
from tegula.ir.types import DType, elem_of

MANY = 16
"""Registers of a tile from which on masks cost more than a second body."""


@dataclass
class Lowered:
    """A kernel as LLVM text, and what a launch has to know."""

    text: str
    shared_bytes: int
    asserts: list[str] = field(default_factory=list)
    alias_pairs: list[tuple[int, int, bool]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    lane_bytes: int = 0
    """What a thread holds of the largest tile of numbers."""


def entry_of(name: str) -> str:
    """The symbol of a kernel: its name, letters beyond ASCII by their code points."""
    return "".join(c if c.isascii() else f"_u{ord(c):x}_" for c in name)


def lower(module: Module, simt: Simt, *, num_warps: int = 4, num_stages: int = 2,
          assume_disjoint: bool = True, debug: bool = False) -> Lowered:
    """Lower the module's kernel for `num_warps` warps of a machine."""
    (kernel,) = module.kernels
    bulk = simt.bulk_copies is not None and assume_disjoint
    foreign = frozenset({"inline_asm"} if simt.assembly else ())
    if simt.block_loads:
        kernel = block_loads(kernel, simt, num_warps)
    function = pad_tiles(prepare(module, kernel, mapped if bulk else None, foreign))
    if simt.by_register:
        function = split_whole(function, MANY * num_warps * simt.warp_size)
    for variant in _variants(function, simt, num_warps, num_stages):
        assigned = assign_layouts(without_descriptors(variant), simt, num_warps)
        ctx = Context(assigned.layouts, simt, num_warps)
        plan = plan_memory(assigned.function, ctx, assume_disjoint)
        if plan.shared_bytes <= simt.shared_limit:
            break
    k = Emitter(assigned.function, ctx, plan, debug)
    k.axes, k.origins = assigned.axes, assigned.origin
    body = k.run()
    threads = ctx.threads
    parts = [simt.header(), *k.w.declares.values()]
    if plan.shared_bytes:
        parts.append(simt.shared(plan.shared_bytes))
    parts += [simt.kernel(entry_of(kernel.name), k.params(), body, threads),
              simt.footer(entry_of(kernel.name), threads)]
    text = "\n".join(p for p in parts if p) + "\n"
    metadata = {"maps": [m.to_json() for m in plan.bulk.maps]} if plan.bulk.maps else {}
    held = [layout.registers * shared_size(elem_of(v.type))
            for v, layout in assigned.layouts.items() if isinstance(elem_of(v.type), DType)]
    return Lowered(text, plan.shared_bytes, k.asserts, plan.alias_pairs, metadata,
                   max(held, default=0))


def _variants(function: Function, simt: Simt, warps: int, stages: int) -> Iterator[Function]:
    """Pipelined kernels, those that take more shared memory first."""
    blocks = any(op.name == "desc_store" for op in function.body.walk())
    made = pipeline_loops(function, simt, warps, stages)
    if any(op.name == "bulk_begin" and not op.attrs["waits"] for op in made.body.walk()):
        yield from _stored(made, simt) if blocks else (made,)
        made = pipeline_loops(function, simt, warps, stages, early=False)
    if blocks:
        yield from _stored(made, simt)
    yield made


def _stored(function: Function, simt: Simt) -> Iterator[Function]:
    for apart in (True, False):
        made = store_blocks(function, apart)
        if held_bytes(made) <= simt.shared_limit:
            yield made
