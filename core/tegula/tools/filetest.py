"""File tests: `.tir` files that hold cases with their expectations beside the code.

A file is a list of cases between lines `; -----`.  A case says what is done with it, its own header
or else the file's:

    ; run: opt canonicalize,dce     the module after the passes is what `; expect:` shows
    ; run: verify                   the module is well formed, or `; error:` says why not
    ; run: roundtrip                its text is read back as the same text
    ; run: execute                  its kernel computes what is expected, on every backend

Executed cases give `; grid: 2`, arguments `; arg n = 10` or `; arg x = f32(arange(10))` (Python
expressions with numpy's names and the dtypes as functions), and expectations by argument:
`; expect y = f32([0, 2])` exactly (NaN equals NaN), `; expect y ~ f32(exp(x))` to rounding, and
`; prints: text` per line printed.  `; pipeline: cse,dce` runs passes first.  `; error: text` says
that the run ends in an error whose message has the text.  Expectations can be written by the run
itself: `pytest --bless`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tegula.ir.core import Module
from tegula.ir.opdef import IRError
from tegula.ir.parser import ParseError, parse_module
from tegula.ir.printer import print_module
from tegula.ir.types import DTYPES, i1, numpy_dtype
from tegula.ir.verify import VerifyError, verify

SEPARATOR = "; -----"
COMMANDS = ("opt", "verify", "roundtrip", "execute")
Runner = Callable[[Module, Any, dict[str, Any], str], list[str]]


class FileTestFailure(AssertionError):
    """A case does not behave as its comments say."""


@dataclass
class Case:
    """One case of a file: its lines, and what they say."""

    path: Path
    number: int
    first_line: int
    lines: list[str]
    command: str
    argument: str
    directives: list[tuple[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What the case is called in reports: its title or first function, and its number."""
        titles = [value for key, value in self.directives if key == "case"]
        found = re.search(r"^\s*(?:kernel|func) @([\w.]+)", "\n".join(self.lines), re.MULTILINE)
        title = titles[0] if titles else found.group(1) if found else ""
        return f"{self.number}-{title.replace(' ', '-')}" if title else str(self.number)

    @property
    def code(self) -> str:
        """The IR text; comments keep their lines, so that positions are the file's."""
        return "\n" * (self.first_line - 1) + "\n".join(self.lines) + "\n"

    def all(self, key: str) -> list[str]:
        """Values of a directive, in order."""
        return [value for k, value in self.directives if k == key]

    def one(self, key: str, default: str | None = None) -> str | None:
        """The only value of a directive."""
        return next(iter(self.all(key)), default)

    def expected_text(self) -> str | None:
        """The lines under `; expect:`."""
        at = next((i for i, line in enumerate(self.lines) if line.strip() == "; expect:"), None)
        if at is None:
            return None
        shown = []
        for line in self.lines[at + 1 :]:
            if not line.startswith(";"):
                break
            shown.append(line[2:] if line.startswith("; ") else line[1:])
        return "\n".join(shown).strip("\n")

    def with_expected_text(self, text: str) -> list[str]:
        """The case's lines with another `; expect:` block at their end."""
        kept: list[str] = []
        inside = False
        for line in self.lines:
            if line.strip() == "; expect:":
                inside = True
            elif not inside or not line.startswith(";"):
                inside = False
                kept.append(line)
        while kept and not kept[-1].strip():
            kept.pop()
        block = [f"; {line}".rstrip() for line in text.strip("\n").splitlines()]
        return [*kept, "; expect:", *block]


_DIRECTIVE = re.compile(r"^;\s*(run|case|grid|pipeline|error|prints|arg|expect)(?::|\s)\s*(.*)$")


def read_cases(path: Path) -> list[Case]:
    """The cases of a file."""
    cases: list[Case] = []
    default = ("", "")
    for number, (first_line, lines) in enumerate(_split(path.read_text())):
        directives = _directives(lines)
        run = next((value for key, value in directives if key == "run"), None)
        command, _, argument = (run or "").partition(" ")
        if run is None:
            command, argument = default
        elif number == 0:
            default = (command, argument)
        if command not in COMMANDS:
            raise FileTestFailure(
                f"{path}:{first_line}: a case needs `; run:` with one of {', '.join(COMMANDS)}"
            )
        cases.append(Case(path, number, first_line, lines, command, argument.strip(), directives))
    return cases


def _split(text: str) -> Iterator[tuple[int, list[str]]]:
    start = 1
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(SEPARATOR):
            yield start, lines
            start, lines = number + 1, []
        else:
            lines.append(line)
    yield start, lines


def _directives(lines: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    inside = False
    for line in lines:
        if line.strip() == "; expect:":
            inside = True
        elif not line.startswith(";"):
            inside = False
        match = None if inside else _DIRECTIVE.match(line)
        if match:
            found.append((match.group(1), match.group(2).strip()))
    return found


def run_case(case: Case, backend: str = "interpreter", bless: bool = False) -> list[str] | None:
    """Run a case.  Raises FileTestFailure; with `bless`, returns the lines it ought to have."""
    runner = {"opt": _opt, "verify": _verify, "roundtrip": _roundtrip, "execute": _execute}
    message = case.one("error")
    try:
        return runner[case.command](case, backend, bless)
    except FileTestFailure:
        raise
    except Exception as error:
        if message is None or not isinstance(error, _expected_errors()):
            raise
        if message not in str(error):
            raise _failure(case, message, str(error), "the error is another one") from error
    return None


def _expected_errors() -> tuple[type[Exception], ...]:
    from tegula.errors import TegulaError

    return (TegulaError, ParseError, VerifyError, IRError)


def _no_error(case: Case) -> None:
    message = case.one("error")
    if message is not None:
        raise _failure(case, message, "", "no error was raised")


def _failure(case: Case, expected: str, actual: str, what: str) -> FileTestFailure:
    diff = "\n".join(
        difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm=""
        )
    )
    again = f"pytest {case.path} -k '{case.name}'"
    return FileTestFailure(
        f"{case.path}:{case.first_line}: {what}\n{diff}\n"
        f"again: {again}\nif the new result is right: {again} --bless"
    )


def _compared(case: Case, actual: str, bless: bool) -> list[str] | None:
    expected = case.expected_text()
    actual = actual.strip("\n")
    if bless:
        return case.with_expected_text(actual) if expected != actual else None
    if expected is None:
        raise _failure(case, "", actual, "the case has no `; expect:`")
    if expected != actual:
        raise _failure(case, expected, actual, "the result is another one")
    return None


def _opt(case: Case, backend: str, bless: bool) -> list[str] | None:
    from tegula.passes import Pipeline

    module = Pipeline.parse(case.argument).run(parse_module(case.code), verify=True)
    _no_error(case)
    return _compared(case, print_module(module), bless)


def _verify(case: Case, backend: str, bless: bool) -> list[str] | None:
    verify(parse_module(case.code))
    _no_error(case)
    return None


def _roundtrip(case: Case, backend: str, bless: bool) -> list[str] | None:
    text = print_module(parse_module(case.code), locations=True)
    again = print_module(parse_module(text), locations=True)
    _no_error(case)
    if text != again:
        raise _failure(case, text, again, "the text changes when it is read and printed again")
    return _compared(case, text, bless) if bless or case.expected_text() is not None else None


# -- executed cases


def _names(args: dict[str, Any]) -> dict[str, Any]:
    """What expressions may use: numpy's names, dtypes as functions, the arguments' first values."""

    def maker(dtype: np.dtype) -> Callable[[Any], np.ndarray]:
        return lambda values: np.asarray(values).astype(dtype)

    names: dict[str, Any] = {"np": np, "inf": np.inf, "nan": np.nan}
    for name in ("arange", "zeros", "ones", "full", "exp", "sqrt", "log", "cumsum", "sum", "tile"):
        names[name] = getattr(np, name)
    for dtype_name, dtype in DTYPES.items():
        if dtype_name != "f8e4b15":
            names[dtype_name] = maker(np.dtype(np.uint8) if dtype is i1 else numpy_dtype(dtype))
    return {**names, **args}


def _execute(case: Case, backend: str, bless: bool) -> list[str] | None:
    from tegula.passes import Pipeline

    module = parse_module(case.code)
    verify(module)
    module = Pipeline.parse(case.one("pipeline", "") or "").run(module, verify=True)
    first: dict[str, Any] = {}
    for text in case.all("arg"):
        name, _, expression = text.partition("=")
        first[name.strip()] = _evaluated(case, expression, first)
    args = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in first.items()}
    grid = _evaluated(case, case.one("grid", "1") or "1", {})
    with np.errstate(all="ignore"):
        printed = execute_on(module, grid, args, backend)
        _no_error(case)
        return _judged(case, first, args, printed, bless)


def execute_on(module: Module, grid: Any, args: dict[str, Any], backend: str) -> list[str]:
    """Run the module's kernel on a backend, in place; returns the lines printed, if it says."""
    if backend == "interpreter":
        from tegula.interp import run_kernel

        printed: list[str] = []
        run_kernel(module, grid, args, output=printed.append)
        return printed
    from .execute import run_on

    run_on(module, grid, args, backend)
    return []


def _evaluated(case: Case, expression: str, names: dict[str, Any]) -> Any:
    try:
        return eval(expression.strip(), {"__builtins__": {}}, _names(names))
    except Exception as error:
        raise FileTestFailure(
            f"{case.path}:{case.first_line}: cannot evaluate {expression.strip()!r}: {error}"
        ) from error


def _judged(
    case: Case, first: dict[str, Any], args: dict[str, Any], printed: list[str], bless: bool
) -> list[str] | None:
    lines = list(case.lines)
    for text in case.all("expect"):
        name, sign, expression = re.split(r"\s*([=~])\s*", text, maxsplit=1)
        actual = args[name]
        wanted = _evaluated(case, expression, first) if expression else None
        if wanted is not None and _agree(actual, wanted, sign == "~"):
            continue
        if not bless:
            raise _failure(case, _literal(wanted), _literal(actual), f"'{name}' is another")
        old = next(i for i, line in enumerate(lines) if re.match(rf";\s*expect\s+{name}\b", line))
        lines[old] = f"; expect {name} {sign} {_literal(actual)}"
    shown = case.all("prints")
    if shown and printed and shown != printed:
        raise _failure(case, "\n".join(shown), "\n".join(printed), "it prints something else")
    return lines if lines != case.lines else None


def _agree(actual: Any, wanted: Any, roughly: bool) -> bool:
    wanted = np.asarray(wanted)
    if actual.dtype != wanted.dtype or actual.size != wanted.size:
        return False
    a, w = actual.reshape(-1), wanted.reshape(-1)
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, w))
    digits = {2: 2e-3, 4: 2e-6, 8: 1e-13}.get(a.dtype.itemsize, 0.1)
    if a.dtype.name == "bfloat16":
        digits = 2e-2
    a, w = a.astype(np.float64), w.astype(np.float64)
    if roughly:
        return bool(np.allclose(a, w, digits, digits, equal_nan=True))
    return bool(np.array_equal(a, w, equal_nan=True))


def _literal(value: Any) -> str:
    """An expression that gives the array."""
    if not isinstance(value, np.ndarray):
        return str(value)
    by_dtype = {numpy_dtype(t): n for n, t in DTYPES.items() if n not in ("f8e4b15", "i1")}
    wide = value.astype(np.float64 if value.dtype.kind not in "iub" else object)
    numbers = ", ".join(str(v).removesuffix(".0") for v in wide.reshape(-1).tolist())
    return f"{by_dtype[value.dtype]}([{numbers}])"


def blessed(path: Path, changes: dict[int, list[str]]) -> None:
    """Write a file again with other lines for some of its cases."""
    parts = []
    for case in read_cases(path):
        lines = changes.get(case.number, case.lines)
        parts.append("\n".join(lines).strip("\n"))
    path.write_text(f"\n\n{SEPARATOR}\n\n".join(parts) + "\n")
