"""Barriers: none is missing and none is superfluous, by walking along paths through kernels.

A path is a list of accesses and barriers in the order in which a thread meets them. Two accesses
that conflict need a barrier between them; a barrier without which no path has such a pair is one
too many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

import tegula
import tegula.language as tl
from tegula.codegen.simt import lower as lowering
from tegula.codegen.simt.scratch import Access, Barriers, Plan
from tegula.config import config
from tegula.conformance.programs import random_program
from tegula.conformance.session import compile_module
from tegula.ir import types as ir
from tegula.ir.core import Block, Function, Op
from tegula.ir.types import Pointer
from tegula.plugin.registry import registry
from tegula.runtime import compiler
from tegula_cuda.target import resolve

PATHS = 12


@dataclass(frozen=True)
class Step:
    """One thing on a path: an access, a barrier that the op brings along, or the op's beginning."""

    op: Op
    time: int
    """Which of the ops on the path; an op's own accesses are each thread's in order."""
    access: Access | None = None
    kind: str = "access"


def conflict(a: Access, b: Access) -> bool:
    """Whether it matters which of two accesses comes first. A buffer's own accesses are left to
    whoever made the buffer."""
    if not (a.writes or b.writes) or a.shared is not b.shared:
        return False
    if not a.shared:
        return None in (a.root, b.root) or a.root is b.root
    if a.buffer is not None and a.buffer == b.buffer:
        return False
    return max(a.low, b.low) < min(a.high, b.high)


class Walk:
    """One kernel and its plan."""

    def __init__(self, function: Function, plan: Plan) -> None:
        self.function, self.plan = function, plan
        self.phases = Barriers(function, plan, True)._phases
        self.paths = [self._path(seed) for seed in range(PATHS)]

    def _path(self, seed: int) -> list[Step]:
        """Loops run two or three times (with seed 1 not at all); branches are chosen anew each
        time."""
        choose = random.Random(seed)
        out: list[Step] = []

        def block(b: Block) -> None:
            for op in b.ops:
                time = len(out)
                if op.name in ("for", "while"):
                    for _ in range(0 if seed == 1 else choose.choice((2, 3))):
                        for region in op.regions:
                            block(region)
                    if op.name == "while":
                        block(op.regions[0])
                elif op.name == "if":
                    block(choose.choice(op.regions))
                elif op.name == "barrier" or (op.name == "bulk_begin" and op.attrs["waits"]):
                    out.append(Step(op, time, kind="barrier"))
                else:
                    before, after = self.phases(op)
                    out.append(Step(op, time, kind="begin"))
                    out.extend(Step(op, time, a) for a in before)
                    if after is not None:
                        out.append(Step(op, time, kind="barrier"))
                        out.extend(Step(op, time, a) for a in after)

        block(self.function.body)
        return out

    def missing(self, barriers: set[Op] | None = None) -> list[tuple[str, str]]:
        """Ops that conflict on some path and have no barrier in between."""
        wanted = self.plan.barriers if barriers is None else barriers
        return [pair for path in self.paths for pair in self._conflicts(path, wanted)]

    def _conflicts(self, path: list[Step], barriers: set[Op]) -> Iterator[tuple[str, str]]:
        since: list[Step] = []
        for step in path:
            if step.kind == "barrier" or (step.kind == "begin" and step.op in barriers):
                since = []
            elif step.access is not None:
                for other in since:
                    if other.time == step.time or other.access is None:
                        continue
                    if conflict(step.access, other.access):
                        yield other.op.name, step.op.name
                since.append(step)

    def superfluous(self, barriers: set[Op] | None = None) -> list[str]:
        """Ops whose barrier no path needs."""
        wanted = self.plan.barriers if barriers is None else barriers
        return [op.name for op in wanted if not self.missing(wanted - {op})]


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Walk]]:
    """The kernels that are lowered, with the plan of each."""
    found: list[Walk] = []
    plan_memory = lowering.plan_memory

    def planned(function: Function, *args: Any) -> Plan:
        plan = plan_memory(function, *args)
        found.append(Walk(function, plan))
        return plan

    monkeypatch.setattr(lowering, "plan_memory", planned)
    with config.scope(cache=False, ptxas="driver"):
        yield found


@tegula.jit
def reduced(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    best, total = -1.0, 0.0
    for k in range(n):
        v = tl.load(x + k * N + i)
        best = max(best, tl.max(v))
        if best > 3:
            total += tl.sum(tl.cumsum(v))
        tl.store(y + i, v * total)
        total += tl.load(y + (n - k))
    tl.store(y, total)


@tegula.jit
def sorted_rows(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    v = tl.sort(tl.load(x + at))
    tl.store(y + at, tl.trans(v) + tl.sum(v, 1)[:, None])


@tegula.jit
def product(x, y, z, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    acc = tl.zeros((N, N), tl.float32)
    for k in range(n):
        acc = tl.dot(tl.load(x + k * N + at), tl.load(y + k * N * N + at), acc)
        acc = acc * tl.max(acc, 1)[:, None]
    tl.store(z + at, acc)


@tegula.jit
def passed_on(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    k = 0
    while tl.sum(tl.load(x + i)) < n:
        tl.store(x + i, tl.load(x + (N - 1) - i) + 1)
        if k > 2:
            tl.atomic_add(y + i, 1.0)
        k += 1
    tl.store(y + i, tl.load(y + (N - 1) - i))


@tegula.jit
def perhaps(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = 0.0
    tl.store(x + i, i)
    if n > 3:
        total = tl.sum(tl.load(y + i))
    if n < 3:
        tl.store(y + i, total)
    tl.store(y + i, tl.load(x + (N - 1) - i) + total)


F32, F16 = Pointer(ir.f32), Pointer(ir.f16)
KERNELS: dict[str, tuple[Any, dict[str, Any], dict[str, int]]] = {
    "reduced": (reduced, {"x": F32, "y": F32, "n": ir.i32}, {"N": 1024}),
    "sorted_rows": (sorted_rows, {"x": F32, "y": F32}, {"N": 32}),
    "product": (product, {"x": F16, "y": F16, "z": F32, "n": ir.i32}, {"N": 64}),
    "perhaps": (perhaps, {"x": F32, "y": F32, "n": ir.i32}, {"N": 512}),
    "passed_on": (passed_on, {"x": F32, "y": F32, "n": ir.i32}, {"N": 512}),
}


def lower(name: str, arch: str) -> None:
    kernel, types, constants = KERNELS[name]
    backend = registry.backend("cuda")
    request = compiler.Request(
        fn=kernel,
        types=types,
        constants=constants,
        attrs={key: {"divisible": 16} for key in types},
        context=backend.context(resolve(arch), {}),
        backend=backend,
        name=name,
    )
    compiler._compile(request, compiler.Timing())


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("name", KERNELS)
def test_barriers_of_kernels(walks: list[Walk], name: str, arch: str) -> None:
    lower(name, arch)
    for walk in walks:
        assert walk.plan.barriers or (name, arch) == ("product", "sm_90a")  # the pipeline's own
        assert walk.missing() == [] and walk.superfluous() == []


@pytest.mark.parametrize("first", [0, 10])
def test_barriers_of_random_programs(walks: list[Walk], first: int) -> None:
    backend = registry.backend("cuda")
    for seed in range(first, first + 10):
        case = random_program(seed).case()
        compile_module(backend, resolve("sm_90a"), case.launch.module, case.options)
    assert sum(len(walk.plan.barriers) for walk in walks) > 0
    for walk in walks:
        assert walk.missing() == [] and walk.superfluous() == []


@pytest.mark.parametrize("name", KERNELS)
def test_one_barrier_less_or_more_is_noticed(walks: list[Walk], name: str) -> None:
    lower(name, "sm_90a")
    walk = walks[-1]
    known = walk.plan.barriers
    for op in known:
        assert walk.missing(known - {op})
    others = {s.op for p in walk.paths for s in p if s.kind == "begin"} - known
    assert others
    for op in others:
        assert walk.superfluous(known | {op})
