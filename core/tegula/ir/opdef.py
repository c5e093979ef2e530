"""How an operation is declared: once, here, and everything else follows from it.

A declaration is a class in `tegula.ir.ops` under the decorator `@op(...)`:

    @op("add", traits="pure elementwise commutative")
    class Add:
        '''Sum. out = lhs + rhs, integers wrap.'''
        operands = "lhs rhs"
        infer = same_type
        def evaluate(op, lhs, rhs): return lhs + rhs

`operands` is a list of names; `name?` may be left out, `name*` stands for any number. `attrs`
gives names with
defaults (`REQUIRED` where there is none). `regions` names the blocks. `infer(op)` returns the
result types or raises
`IRError`: verifying an op is running it again. `evaluate(op, *operands)` is the op's meaning on
numpy arrays: the
interpreter, the constant folder and the tests' oracle all run it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .types import Type

if TYPE_CHECKING:
    from .core import Op

REQUIRED: Any = type("REQUIRED", (), {"__repr__": lambda self: "REQUIRED"})()

TRAITS = frozenset({"pure", "elementwise", "commutative", "terminator", "symbol", "scheduled"})
EFFECTS = frozenset({"read", "write", "atomic", "io"})


class IRError(Exception):
    """An operation is not well formed. The message says which rule it breaks."""


@dataclass(frozen=True)
class OperandDef:
    """A declared operand: its name and how many values it takes (one, at most one, any number)."""

    name: str
    arity: str = "one"  # one | optional | variadic


@dataclass(frozen=True, eq=False)
class OpDef:
    """The declaration of an operation."""

    name: str
    operands: tuple[OperandDef, ...]
    attrs: dict[str, Any]
    regions: tuple[str, ...]
    infer: Callable[[Op], Sequence[Type]]
    evaluate: Callable[..., Any] | None
    traits: frozenset[str]
    effects: frozenset[str]
    doc: str
    category: str
    explicit_results: bool = False
    """The result types cannot be inferred and are given when the op is built and printed (call)."""
    operand_index: dict[str, int] = field(default_factory=dict)
    simple: bool = True
    """Every operand takes exactly one value."""

    @property
    def pure(self) -> bool:
        return "pure" in self.traits

    @property
    def elementwise(self) -> bool:
        return "elementwise" in self.traits

    @property
    def terminator(self) -> bool:
        return "terminator" in self.traits


OPS: dict[str, OpDef] = {}
"""The ops that programs are made of."""

SCHEDULED: dict[str, OpDef] = {}
"""Ops with the trait `scheduled`: only later stages of a backend make them."""


def _operands(text: str) -> tuple[OperandDef, ...]:
    arity = {"?": "optional", "*": "variadic"}
    return tuple(OperandDef(n.rstrip("?*"), arity.get(n[-1], "one")) for n in text.split())


def op(
    name: str, *, traits: str = "", effects: str = "", category: str = ""
) -> Callable[[type], OpDef]:
    """Declare an op; see the module's page."""

    def declare(cls: type) -> OpDef:
        members = dict(vars(cls))
        doc = (members.get("__doc__") or "").strip()
        infer = members.get("infer")
        if not doc or infer is None:
            raise TypeError(f"op {name}: a docstring and `infer` are required")
        t, e = frozenset(traits.split()), frozenset(effects.split())
        if not t <= TRAITS or not e <= EFFECTS:
            raise TypeError(f"op {name}: unknown trait or effect in {sorted(t | e)}")
        operands = _operands(members.get("operands", ""))
        d = OpDef(
            name=name,
            operands=operands,
            attrs=dict(members.get("attrs", {})),
            regions=tuple(members.get("regions", "").split()),
            infer=_plain(infer),
            evaluate=_plain(members["evaluate"]) if "evaluate" in members else None,
            traits=t,
            effects=e,
            doc=doc,
            category=category or cls.__module__.rsplit(".", 1)[-1],
            explicit_results=bool(members.get("explicit_results", False)),
            operand_index={o.name: i for i, o in enumerate(operands)},
            simple=all(o.arity == "one" for o in operands),
        )
        if name in OPS or name in SCHEDULED:
            raise TypeError(f"op {name} is declared twice")
        (SCHEDULED if "scheduled" in t else OPS)[name] = d
        return d

    return declare


def _plain(f: Any) -> Callable[..., Any]:
    return f.__func__ if isinstance(f, staticmethod) else f


def check(condition: bool, message: str) -> None:
    """Raise IRError with the message unless the condition holds."""
    if not condition:
        raise IRError(message)


def same(types: Iterable[Type], what: str) -> Type:
    """The one type of all given; IRError names `what` if they differ."""
    it = iter(types)
    first = next(it)
    for t in it:
        if t is not first:
            raise IRError(f"{what} must have the same type, not {first} and {t}")
    return first
