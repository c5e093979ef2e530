"""Random functions full of loops and jumps compute what Python computes."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
from kernel_runner import call, jit

import tegula.language as tl

NAMES = ["a", "b", "c"]


class Writer:
    """Writes one function of random statements; every name has a value before it is read."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def text(self) -> str:
        self.lines = ["def f(n, k):", "    a = n", "    b = 3", "    c = k * 2"]
        self.body(1, 0, 4)
        self.lines.append("    return a * 7 + b * 5 + c")
        return "\n".join(self.lines) + "\n"

    def body(self, depth: int, loops: int, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement(depth, loops)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def value(self) -> str:
        return self.random.choice([*NAMES, *NAMES, "n", "k", "1", "2", "5"])

    def condition(self) -> str:
        op = self.random.choice(["<", ">", "==", "!=", "<="])
        return f"({self.value()} + {self.value()}) % 4 {op} {self.random.randint(0, 3)}"

    def statement(self, depth: int, loops: int) -> None:
        pick = self.random.random()
        if pick < 0.35 or depth > 5:
            name, op = self.random.choice(NAMES), self.random.choice("+-*")
            value = f"({self.value()} {op} {self.value()} + 194) % 97"  # never negative
            self.put(depth, f"{name} = {value}")
        elif pick < 0.6:
            self.put(depth, f"if {self.condition()}:")
            self.body(depth + 1, loops, 3)
            if self.random.random() < 0.5:
                self.put(depth, "else:")
                self.body(depth + 1, loops, 2)
        elif pick < 0.8 and loops < 3:
            self.loop(depth, loops)
        elif loops:
            jumps = ["break", "continue", "break", "continue", f"return {self.value()} + 1000"]
            self.put(depth, f"if {self.condition()}:")
            self.put(depth + 1, self.random.choice(jumps))
        else:
            self.put(depth, f"c += {self.value()}")

    def loop(self, depth: int, loops: int) -> None:
        self.loops += 1
        i = f"i{self.loops}"
        kind = self.random.random()
        if kind < 0.4:
            self.put(depth, f"for {i} in range({self.random.choice(['n', 'k', '3'])} % 5):")
        elif kind < 0.6:
            self.put(depth, f"for {i} in (2, 0, 5):")
        elif kind < 0.85:
            self.put(depth, f"{i} = 0")
            self.put(depth, f"while {i} < {self.random.choice(['n', 'k'])} % 6:")
            self.put(depth + 1, f"{i} += 1")
        else:
            self.put(depth, f"{i} = 0")
            self.put(depth, "while True:")
            self.put(depth + 1, f"{i} += 1")
            self.put(depth + 1, f"if {i} > 4:")
            self.put(depth + 2, "break")
        self.put(depth + 1, f"b = (b + {i}) % 89")
        self.body(depth + 1, loops + 1, 3)
        if self.random.random() < 0.3:
            self.put(depth, "else:")
            self.body(depth + 1, loops, 2)


@jit
def apply(out, n, k, f: tl.constexpr):
    tl.store(out, f(n, k))


def function_of(seed: int) -> Any:
    """A random function, as Python."""
    text, name = Writer(seed).text(), f"<random function {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize("block", range(6))
def test_random_functions(block):
    for seed in range(block * 10, block * 10 + 10):
        f = function_of(seed)
        for n, k in [(0, 3), (7, 2), (14, 21)]:
            assert call(apply, n, k, jit(f), dtype=np.int32) == f(n, k), (seed, n, k)
