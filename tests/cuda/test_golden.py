"""The instructions of a few small kernels, as they lie in `golden/`.

Each file lists a kernel's PTX without its registers. What changes them on purpose is written anew
with `pytest --bless`, and the difference is read before it is committed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

from cuda_ptx import ptx_of

import tegula
import tegula.language as tl
from tegula.ir import types as ir
from tegula.ir.types import Pointer

GOLDEN = Path(__file__).parent / "golden"


@tegula.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@tegula.jit
def total(x, y, BLOCK: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, BLOCK))))


@tegula.jit
def product(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(z + at, tl.dot(tl.load(x + at), tl.load(y + at)))


F32, F16 = Pointer(ir.f32), Pointer(ir.f16)
KERNELS: dict[str, tuple[Any, dict[str, int], dict[str, Any]]] = {
    "copy": (copy, {"BLOCK": 1024}, {"x": F32, "y": F32, "n": ir.i32}),
    "total": (total, {"BLOCK": 512}, {"x": F32, "y": F32}),
    "small": (product, {"N": 16}, {"x": F16, "y": F16, "z": F32}),
    "product": (product, {"N": 64}, {"x": F16, "y": F16, "z": F32}),
}
PAIRS = [
    ("copy", "sm_75"), ("total", "sm_80"), ("small", "sm_75"), ("small", "sm_80"),
    ("product", "sm_90a"),
]  # fmt: skip


def instructions(ptx: str) -> str:
    """The kernel's instructions and labels, one a line, registers left out."""
    body = ptx[ptx.index("\n{") :]
    out = []
    for line in re.sub(r"//.*", "", body).splitlines():
        text = line.strip()
        if not text or text.startswith(("{", "}", ".reg")):
            continue
        text = re.sub(r"%(?:r|rd|f|fd|rs|rh|p|b|h)\d+", "%", text)
        out.append(re.sub(r"(?:%, )*%(?=[;,\]}])", "%", text))
    return "\n".join(out) + "\n"


@pytest.mark.parametrize(("name", "arch"), PAIRS)
def test_instructions_are_as_they_were(name: str, arch: str, pytestconfig: pytest.Config) -> None:
    kernel, constants, types = KERNELS[name]
    made = instructions(ptx_of(kernel, constants, arch, **types))
    path = GOLDEN / f"{name}.{arch}.txt"
    if pytestconfig.getoption("--bless"):
        path.write_text(made, encoding="utf-8")
    known = path.read_text(encoding="utf-8")
    assert made == known, "if it is right so: pytest --bless, and look at the difference"
