"""Tile IR as text. `parse_module(print_module(m))` prints the same text again."""

from __future__ import annotations

import math
from typing import Any

from .core import Block, Function, Module, Op, Value
from .location import Location
from .types import Descriptor, DType, Pointer, Tile

IMPLIED = ("type", "types")
"""Attributes that repeat the result types; the text has them once, after the colon."""


def print_module(module: Module, locations: bool = False) -> str:
    """The module's text. With `locations`, every op ends in its source place."""
    parts = [print_function(f, locations) for f in module.functions.values()]
    if module.attrs:
        parts.insert(0, f"module {_attrs(module.attrs)}\n")
    return "\n".join(parts)


def print_function(function: Function, locations: bool = False) -> str:
    return _Printer(locations).function(function)


def format_attr(value: Any) -> str:
    """One attribute value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return (
            repr(value)
            if math.isfinite(value)
            else ("nan" if value != value else "inf" if value > 0 else "-inf")
        )
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(format_attr, value))}]"
    if isinstance(value, (DType, Pointer, Tile, Descriptor)):
        return str(value)
    if value is None:
        return "none"
    raise TypeError(f"an attribute cannot hold {value!r}")


def format_location(loc: Location) -> str:
    text = f"@ {format_attr(loc.file)}:{loc.line}:{loc.column}"
    return text if loc.caller is None else f"{text} {format_location(loc.caller)}"


def _attrs(attrs: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{k} = {format_attr(v)}" for k, v in attrs.items()) + "}"


class _Printer:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.count = 0

    def name(self, v: Value) -> str:
        known = self.names.get(v)
        if known is None:
            if v.name:
                known, n = v.name, 1
                while known in self.taken:
                    known, n = f"{v.name}_{n}", n + 1
            else:
                known = str(self.count)
                self.count += 1
            self.taken.add(known)
            self.names[v] = known
        return f"%{known}"

    def function(self, f: Function) -> str:
        params = []
        for arg, attrs in zip(f.body.args, f.arg_attrs):
            params.append(f"{self.name(arg)}: {arg.type}{' ' + _attrs(attrs) if attrs else ''}")
        head = f"{f.kind} @{f.name}({', '.join(params)})"
        if f.result_types:
            head += f" -> {', '.join(map(str, f.result_types))}"
        if f.attrs:
            head += f" {_attrs(f.attrs)}"
        return "\n".join([head + " {", *self.block(f.body, 1), "}", ""])

    def block(self, block: Block, depth: int) -> list[str]:
        lines: list[str] = []
        for op in block.ops:
            self.op(op, depth, lines)
        return lines

    def op(self, op: Op, depth: int, lines: list[str]) -> None:
        pad = "  " * depth
        text = (
            pad
            + ", ".join(self.name(r) for r in op.results)
            + (" = " if op.results else "")
            + op.name
        )
        operands = self.operands(op)
        if operands:
            text += " " + ", ".join(operands)
        defaults = op.opdef.attrs
        shown = {
            k: v
            for k, v in op.attrs.items()
            if k not in IMPLIED and not (type(v) is type(defaults.get(k)) and v == defaults[k])
        }
        if shown:
            text += " " + _attrs(shown)
        if op.results:
            text += " : " + ", ".join(str(r.type) for r in op.results)
        if self.locations and op.loc is not None:
            text += " " + format_location(op.loc)
        for name, region in zip(op.opdef.regions, op.regions):
            params = ", ".join(f"{self.name(a)}: {a.type}" for a in region.args)
            lines.append(f"{text} {name}{f'({params})' if params else ''} {{")
            lines.extend(self.block(region, depth + 1))
            text = pad + "}"
        lines.append(text)

    def operands(self, op: Op) -> list[str]:
        out = []
        defs = op.opdef.operands
        for d in defs:
            values = [self.name(v) for v in op.group(d.name)]
            if d.arity == "one":
                out += values
            elif d.arity == "optional":
                out += [f"{d.name} = {v}" for v in values]
            elif values or len(defs) > 1:
                label = "" if len(defs) == 1 else f"{d.name} = "
                out.append(f"{label}[{', '.join(values)}]")
        return out
