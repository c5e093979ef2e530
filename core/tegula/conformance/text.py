"""Launches as text: a `.tir` file that says its arguments and what they have to hold afterwards.

The format is that of the file tests with `; run: execute`, so a file that the fuzzer writes can be
put beside them as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tegula.conformance.case import Buffer, Case, Expected, Launch
from tegula.conformance.values import Rule, has_meaning, storage
from tegula.ir import DType, parse_module, print_module
from tegula.ir.types import DTYPES, Pointer, f64


def to_text(case: Case, remarks: list[str] | None = None) -> str:
    """The text of a case. Rules other than equality are written as `~`."""
    launch = case.launch
    lines = ["; run: execute"]
    lines += [f"; {line}" for remark in remarks or [] for line in remark.splitlines()]
    lines.append(f"; grid: {launch.grid}")
    lines += [f"; option {name} = {value!r}" for name, value in case.options.items()]
    (function,) = launch.module.kernels
    for param, arg in zip(function.body.args, launch.args):
        if isinstance(arg, Buffer):
            lines.append(f"; arg {param.name} = {literal(arg.data, arg.dtype)}")
        else:
            lines.append(f"; arg {param.name} = {arg!r}")
    dtypes = {b.name: b.dtype for b in launch.buffers}
    for name, wanted in case.expected.items():
        sign = "=" if wanted.rule.exact else "~"
        lines.append(f"; expect {name} {sign} {literal(wanted.data, dtypes[name])}")
    return "\n".join(lines) + "\n" + print_module(launch.module)


def literal(data: np.ndarray, t: DType) -> str:
    """An expression that gives the array again, NaN payloads aside."""
    raw = data.tobytes()
    if data.size > 4 and raw == raw[: data.itemsize] * data.size:
        one = literal(data[:1], t).removeprefix(f"{t.name}([").removesuffix("])")
        return f"{t.name}(full({data.size}, {one}))"
    if t.is_int or not has_meaning(t):
        return f"{t.name}([{', '.join(str(int(v)) for v in data)}])"
    wide = np.float64 if t is f64 else np.float32
    with np.errstate(all="ignore"):
        numbers = [str(v) for v in data.astype(wide)]
    return f"{t.name}([{', '.join(numbers)}])"


def from_text(text: str) -> Case:
    """The case that `to_text` wrote, or that somebody wrote by hand."""
    module = parse_module(text)
    (function,) = module.kernels
    found: dict[str, list[tuple[str, str, str]]] = {"arg": [], "expect": [], "option": []}
    pattern = r"^;[ \t]*(arg|expect|option)[ \t]+([\w.]+)[ \t]*([=~])[ \t]*(.*)$"
    for kind, name, sign, value in re.findall(pattern, text, re.MULTILINE):
        found[kind].append((name, sign, value))
    grid = re.search(r"^;[ \t]*grid:[ \t]*(.*)$", text, re.MULTILINE)
    given: dict[str, Any] = {}
    for name, _, value in found["arg"]:
        given[name] = _evaluate(value, given)
    written = {n for n, _, _ in found["expect"]}
    args: list[Any] = []
    for param in function.body.args:
        name = param.name or ""
        if name not in given:
            raise ValueError(
                f"the file says nothing of argument '{name}': add `; arg {name} = ...`"
            )
        value = given[name]
        if isinstance(param.type, Pointer):
            t = param.type.elem
            data = np.asarray(value).reshape(-1).astype(storage(t))
            args.append(Buffer(name, t, data, writable=not param.type.const or name in written))
        else:
            args.append(value)
    sizes = _evaluate(grid[1], {}) if grid else 1
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    x, y, z = (*sizes, 1, 1)[:3]
    expected = {
        name: Expected(
            np.asarray(_evaluate(value, given)).reshape(-1), Rule(ulp=0 if sign == "=" else 16)
        )
        for name, sign, value in found["expect"]
        if value
    }
    options = {name: _evaluate(value, {}) for name, _, value in found["option"]}
    return Case(Launch(module, args, (x, y, z)), expected, options)


def read(path: Path) -> Case:
    return from_text(path.read_text())


def _evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    known: dict[str, Any] = {"np": np, "inf": np.inf, "nan": np.nan, "arange": np.arange}
    known |= {n: getattr(np, n) for n in ("zeros", "ones", "full", "tile", "exp", "sqrt", "log")}
    for t in DTYPES.values():
        known[t.name] = _maker(t)
    return eval(expression.strip(), {"__builtins__": {}}, {**known, **names})


def _maker(t: DType) -> Any:
    def make(values: Any) -> np.ndarray:
        values = np.asarray(values)
        with np.errstate(all="ignore"):
            if t.is_float and values.dtype != storage(t):
                values = values.astype(np.float64)
            return values.astype(storage(t))

    return make
