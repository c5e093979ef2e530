"""Kernels under the debugger: the same results as compiled, and pdb sees arrays."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.config import config

FACTOR = tl.constexpr(3)


@tl.aggregate
class Best:
    value: tl.tensor
    where: tl.tensor

    @tegula.jit
    def better(self, other):
        if other.value > self.value:
            return other
        return self


@tegula.jit
def scaled(x, k: tl.constexpr = 2):
    y = 0.5
    return x * k + y


@tegula.jit
def everything(x, out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * B + tl.arange(0, B)
    mask = offsets < n and offsets >= 0
    tile = tl.load(x + offsets, mask, other=0.0)
    half = tile.to(tl.float16)
    third = half * 0.5
    total = 0
    for i in range(4):
        if i == 1:
            continue
        total += i * FACTOR
        if total > 100:
            break
    best = Best(tl.max(tile), 0)
    for k in tl.static_range(3):
        total += k.to(tl.int32) + getattr(total, "to")(tl.int32) * 0  # noqa: B009
        best = best.better(Best(tl.sum(tile) / (k + 1), k))
    count = 7
    while count // 2 > 1:
        count -= 2
    pair = [a + b for a, b in zip((1, 2), (count, total))]
    picked = tile[1:5:2]
    y = scaled(third.to(tl.float32)) + total + best.value + best.where + pair[0] * pair[1]
    y += tl.sum(picked) if not pid else (-count % 4) * 1.0
    y = tl.where(0 < y < 50, y, -y) + tl.cumsum(tile)
    assert pid < 100
    tl.store(out + offsets, y, mask)


def launch(n, **options):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n).astype(np.float32)
    out = np.zeros(n, np.float32)
    everything[(-(-n // 16),)](x, out, n, B=16, **options)
    return out


@pytest.mark.parametrize("n", [16, 37])
def test_the_debugger_computes_what_compiled_code_computes(n):
    compiled = launch(n, device="interpreter")
    with config.scope(debugger=True):
        debugged = launch(n)
    np.testing.assert_array_equal(debugged, compiled)
    assert np.abs(compiled).min() > 0


@tegula.jit
def reads_outside(x, out):
    tl.store(out, tl.load(x + 100))


def test_errors_name_the_line():
    x = np.zeros(4, np.float32)
    with config.scope(debugger=True), pytest.raises(Exception, match=r"test_stepping.py:\d+"):
        reads_outside[(1,)](x, np.zeros(1, np.float32))


@tegula.jit
def stops(x):
    breakpoint()
    tl.store(x, 1)


def test_breakpoints_change_nothing_in_compiled_kernels():
    x = np.zeros(1, np.int32)
    stops[(1,)](x, device="interpreter")
    assert x[0] == 1


SCRIPT = """
import numpy as np
import tegula
import tegula.language as tl

@tegula.jit
def inner(v):
    doubled = v * 2
    return doubled

@tegula.jit
def kernel(x, n, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    breakpoint()
    tile = tl.load(x + offsets)
    tile = inner(tile)
    tl.store(x + offsets, tile)

x = np.arange(8, dtype=np.float32)
kernel[(2,)](x, 8, B=4)
print("result", x.tolist())
"""


def test_pdb_steps_through_a_kernel(tmp_path):
    script = tmp_path / "stepped.py"
    script.write_text(textwrap.dedent(SCRIPT))
    commands = [
        "p offsets", "n", "p n + 1", "p tile", "s", "s", "p v", "n", "p doubled", "w", "u",
        "p n", "c", "p offsets", "p tl.sum(offsets)", "c",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(script)],
        input="\n".join(commands) + "\n",
        env={**os.environ, "TEGULA_DEBUGGER": "1", "TEGULA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    text = done.stdout
    assert done.returncode == 0, done.stderr
    assert "<tensor <[4], int32> array([0, 1, 2, 3], dtype=int32)>" in text
    assert "<tensor int32 9>" in text
    assert text.count("array([0., 1., 2., 3.], dtype=float32)") == 2  # in both functions
    assert "-> doubled = v * 2" in text and "array([0., 2., 4., 6.], dtype=float32)" in text
    assert "array([4, 5, 6, 7], dtype=int32)" in text and "<tensor int32 22>" in text
    assert "(Pdb) <tensor int32 8>" in text  # one step up from `inner` is `kernel`
    assert "session.py" not in text and "jit.py" not in text
    assert "result [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]" in text
