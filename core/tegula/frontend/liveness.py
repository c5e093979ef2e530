"""What a function's syntax tree says about its variables, found in one pass up and one pass down.

For every `if`, `for` and `while`: which names it may assign, which are read afterwards, and for
loops which are read in an iteration before they are written there. Loops carry, and ifs hand on,
only what is needed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .jumps import exit_flag
from .names import nodes

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass
class Facts:
    """About one compound statement."""

    assigned: Names = NONE
    """Names that it may assign, nested statements included."""
    live_out: Names = NONE
    """Names that may be read after it."""
    exposed: Names = NONE
    """For loops: names that an iteration may read before it writes them, the loop variable left
    out.
    """
    in_test: Names = NONE
    """For `while`: names that its condition assigns by `:=`."""
    returns: ast.stmt | None = None
    """The first `return` inside."""


@dataclass
class Flow:
    """Facts of all compound statements of a function."""

    of: dict[ast.stmt, Facts] = field(default_factory=dict)

    @classmethod
    def of_body(cls, body: list[ast.stmt]) -> Flow:
        """The facts of a function's body, loops without jumps."""
        flow = cls()
        flow._up(body)
        flow._down(body, NONE)
        return flow

    def __post_init__(self) -> None:
        self._effect: dict[ast.stmt, tuple[Names, Names, Names]] = {}

    # A statement's effect is (names read before written, names surely written, names possibly
    # written).

    def _up(self, body: list[ast.stmt]) -> tuple[Names, Names, Names, ast.stmt | None]:
        reads, writes, may = NONE, NONE, NONE
        returns: ast.stmt | None = None
        effects = [self._statement(st) for st in body]
        for (r, w, m, ret), _ in zip(reversed(effects), body, strict=True):
            reads = r | (reads - w)
            writes |= w
            may |= m
            returns = ret or returns
        return reads, writes, may, returns

    def _statement(self, st: ast.stmt) -> tuple[Names, Names, Names, ast.stmt | None]:
        kind = type(st)
        if kind is ast.If:
            result = self._if(st)  # type: ignore[arg-type]
        elif kind is ast.For:
            result = self._for(st)  # type: ignore[arg-type]
        elif kind is ast.While:
            result = self._while(st)  # type: ignore[arg-type]
        else:
            reads, writes = names_in(st)
            if kind is ast.AugAssign and isinstance(st.target, ast.Name):  # type: ignore[attr-defined]
                reads |= {st.target.id}  # type: ignore[attr-defined]
            result = (reads, writes, writes, st if kind is ast.Return else None)
        self._effect[st] = result[:3]
        return result

    def _if(self, st: ast.If) -> tuple[Names, Names, Names, ast.stmt | None]:
        test_reads, test_writes = names_in(st.test)
        r1, w1, m1, ret1 = self._up(st.body)
        r2, w2, m2, ret2 = self._up(st.orelse)
        may = m1 | m2
        self.of[st] = Facts(assigned=may, returns=ret1 or ret2)
        reads = test_reads | ((r1 | r2) - test_writes)
        return reads, test_writes | (w1 & w2), may | test_writes, ret1 or ret2

    def _for(self, st: ast.For) -> tuple[Names, Names, Names, ast.stmt | None]:
        iter_reads, iter_writes = names_in(st.iter)
        _, target = names_in(st.target)
        r, _, m, ret = self._up(st.body)
        _, _, m2, ret2 = self._up(st.orelse)
        exposed = (r - target) | _flag(st)
        self.of[st] = Facts(assigned=m | target | m2, exposed=exposed, returns=ret or ret2)
        reads = iter_reads | (exposed - iter_writes)
        return reads, iter_writes, m | m2 | target | iter_writes, ret or ret2

    def _while(self, st: ast.While) -> tuple[Names, Names, Names, ast.stmt | None]:
        test_reads, test_writes = names_in(st.test)
        test_reads |= _flag(st)
        r, _, m, ret = self._up(st.body)
        _, _, m2, ret2 = self._up(st.orelse)
        exposed = test_reads | (r - test_writes)
        may = m | test_writes
        self.of[st] = Facts(assigned=may, exposed=exposed, in_test=test_writes, returns=ret or ret2)
        return exposed, test_writes, may | m2, ret or ret2

    def _down(self, body: list[ast.stmt], live: Names) -> Names:
        for st in reversed(body):
            facts = self.of.get(st)
            if facts is not None:
                facts.live_out = live
                if isinstance(st, ast.If):
                    self._down(st.body, live)
                    self._down(st.orelse, live)
                elif isinstance(st, (ast.For, ast.While)):
                    self._down(st.body, live | facts.exposed)
            reads, writes, _ = self._effect[st]
            live = reads | (live - writes)
        return live


def _flag(loop: ast.For | ast.While) -> Names:
    """The variable that a loop looks at before each turn."""
    name = exit_flag(loop)
    return NONE if name is None else frozenset({name})


def names_in(node: ast.AST) -> tuple[Names, Names]:
    """Names that a simple statement or an expression reads, and those that it writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    for n in nodes(node):
        if type(n) is ast.Name:
            (reads if type(n.ctx) is ast.Load else writes).add(n.id)
    return frozenset(reads), frozenset(writes)
