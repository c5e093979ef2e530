"""Which of Triton's own tests do not apply to Tegula: the rules of `triton_tests.py`.

A case that fails does not apply if a rule below matches. A rule looks at the test's text (with the
text of the kernels and helpers of its file that it names, and its parameters) and at its error,
never at its name; if it asks for both, both have to match.

Tests that look at the IR of another compiler are run once more without the statements that do
(see `without_ir_text`): a case is about IR text only if all the rest of it passes.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import types
from dataclasses import dataclass
from typing import Any

IR_TEXT = "text of another compiler's IR; the rest of the test passes"


@dataclass(frozen=True)
class Rule:
    """A reason why a failing test does not apply, and what has to be found for it."""

    why: str
    error: str
    """Pattern in the error."""
    text: str = ""
    """Pattern in the test's text or parameters."""

    def holds(self, text: str, error: str) -> bool:
        return re.search(self.error, error) is not None and re.search(self.text, text) is not None


_ACCEPTED = r"DID NOT RAISE|assert '' != ''"
"""What is to be refused works."""

RULES = (
    Rule("inline assembly of a GPU", r"inline_asm", r"inline_asm_elementwise"),
    Rule("registers of a GPU", r"has no (attribute )?.?(smid|num_threads|globaltimer|memrealtime)"),
    Rule("compiles for a GPU by name", r"no backend '(cuda|hip|xpu)'", r"override_arch|GPUTarget"),
    Rule("memory of a GPU", r"(not compiled with|compiled without) (CUDA|XPU)|pin_memory|"
                            r"Cannot access accelerator device"),
    Rule("prints once per thread of a GPU", r"Expected line .* (\d\d+) time\(s\), but saw 1 time"),
    Rule("files of another compiler in a traceback", r"point inside core|__traceback__",
         r"point inside core"),
    Rule("rounds results to bfloat16 and compares to a thousandth, which bfloat16 does not have",
         r"Tensor-likes are not close", r"\ndtype_dst_str='bfloat16'"),
    Rule("expects a limit that Tegula does not have: num_ctas by architecture",
         _ACCEPTED, r"num_ctas > 1 requires"),
    Rule("expects a limit that Tegula does not have: powers of two",
         _ACCEPTED, r"power of 2|pow2|power_of_two"),
    Rule("expects a limit that Tegula does not have: dtypes of reductions into memory",
         _ACCEPTED, r"SUPPORTED_REDUCE_DTYPES"),
    Rule("expects a limit that Tegula does not have: 16 bytes in a row of a descriptor",
         _ACCEPTED, r"at least 16 bytes"),
    Rule("expects a limit that Tegula does not have: 8-bit floats by architecture",
         _ACCEPTED, r"not supported in this architecture"),
    Rule("expects a limit that Tegula does not have: dtypes of histograms",
         _ACCEPTED, r"histogram only supports"),
    Rule("expects a limit that Tegula does not have: imprecise sums",
         _ACCEPTED, r"max_num_imprecise_acc"),
    Rule("expects a limit that Tegula does not have: tensors of the host",
         _ACCEPTED, r"pin_memory"),
    Rule("expects a limit that Tegula does not have: arguments of noinline functions",
         _ACCEPTED, r"noinline"),
    Rule("expects a limit that Tegula does not have: starred targets",
         _ACCEPTED, r"starred assignment"),
    Rule("expects a limit that Tegula does not have: return in a loop",
         _ACCEPTED, r"Cannot have `return` statements"),
)  # fmt: skip

NOTES = {
    "test_scaled_dot[64-64-128-False-False-True-e4m3-fp16-4-16-1]":
        "one element of 4096, which cancels to a millionth of its terms: the sums in float32 of "
        "the test's reference are made in another order",
    "test_poison_return":
        "stores the result of a function that returned nothing; here that is an error",
}  # fmt: skip
"""What is known about cases that do not pass; for the page, nothing is judged by it."""

WORDS = re.compile(
    r"Regex pattern did not match|"
    r"^>? +(assert|with pytest.raises).*(str\(|\.value|match=|message|error)", re.MULTILINE
)  # fmt: skip
"""An error was raised as it should be, and its text is another one."""


def judge(text: str, error: str) -> tuple[str, str]:
    """Whether a failure counts, and its reason."""
    for rule in RULES:
        if rule.holds(text, error):
            return "not applicable", rule.why
    if WORDS.search(error) and "DID NOT RAISE" not in error:
        return "other words", error
    return "failed", error


@functools.cache
def source_of(function: Any) -> str:
    """The text of a test, with that of the kernels and helpers of its file that it names."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    module = sys.modules[function.__module__]
    for name in set(re.findall(r"\w+", text)):
        helper = getattr(module, name, None)
        helper = getattr(helper, "fn", helper)
        if isinstance(helper, types.FunctionType) and helper.__module__ == module.__name__:
            text += inspect.getsource(helper)
    return text


# -- tests of IR text

LOOKS = frozenset({"asm", "n_regs", "n_spills", "str_nodebug", "create_location_snapshot"})
"""Attributes of compiled kernels and modules that lead to another compiler's text."""


class _Strip(ast.NodeTransformer):
    """Takes away the statements that look at IR text, or at what was computed from it."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.lines: set[int] = set()

    def looks(self, node: ast.AST | None) -> bool:
        if node is None:
            return False
        return any(
            (isinstance(n, ast.Attribute) and n.attr in LOOKS)
            or (isinstance(n, ast.Name) and n.id in self.names)
            for n in ast.walk(node)
        )

    def find(self, body: list[ast.stmt]) -> None:
        """Collect the variables that hold such text."""
        size = -1
        while size != len(self.names):
            size = len(self.names)
            for st in body:
                for node in ast.walk(st):
                    if isinstance(node, ast.Assign) and self.looks(node.value):
                        self._add(*node.targets)
                    elif isinstance(node, ast.NamedExpr | ast.AugAssign) and self.looks(node.value):
                        self._add(node.target)
                    elif isinstance(node, ast.For) and self.looks(node.iter):
                        self._add(node.target)

    def _add(self, *targets: ast.expr) -> None:
        for target in targets:
            self.names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out = []
        for st in body:
            kept = self.statement(st)
            if kept is None:
                last = st.end_lineno or st.lineno
                self.lines |= set(range(st.lineno, last + 1))
            else:
                out.append(kept)
        return out or [ast.copy_location(ast.Pass(), body[0])]

    def statement(self, st: ast.stmt) -> ast.stmt | None:
        if isinstance(st, ast.FunctionDef | ast.ClassDef):  # kernels
            return st
        if isinstance(st, ast.If | ast.While):
            if self.looks(st.test):
                return None
        elif isinstance(st, ast.For):
            if self.looks(st.iter):
                return None
        elif isinstance(st, ast.With):
            if any(self.looks(i.context_expr) for i in st.items):
                return None
        elif self.looks(st):
            return None
        for part in ("body", "orelse"):
            inner = getattr(st, part, None)
            if inner:
                setattr(st, part, self.block(inner))
        return st


@functools.cache
def without_ir_text(function: Any) -> tuple[Any, frozenset[int]] | None:
    """A test without the statements that look at IR text, and the lines that these had; None if it
    has no such statements.
    """
    module = sys.modules[function.__module__]
    path = inspect.getsourcefile(function)
    assert path is not None
    with open(path) as file:
        tree = ast.parse(file.read())
    first = function.__code__.co_firstlineno
    found = [
        n for n in tree.body
        if isinstance(n, ast.FunctionDef) and n.name == function.__name__
        and first in {n.lineno, *(d.lineno for d in n.decorator_list)}
    ]  # fmt: skip
    if not found:
        return None
    test, strip = found[0], _Strip()
    strip.find(test.body)
    test.body = strip.block(test.body)
    if not strip.lines:
        return None
    test.decorator_list = []
    scope: dict[str, Any] = {}
    code = compile(ast.Module([test], []), path, "exec")
    exec(code, module.__dict__, scope)
    return scope[test.name], frozenset(strip.lines)


def failed_at(error: BaseException, function: Any) -> int:
    """The line of a test at which an error left it."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is function.__code__:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
