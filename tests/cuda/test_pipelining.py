"""In which order pipelined loops copy, multiply and wait; no device is needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("tegula_cuda")

from cuda_ptx import ptx_of

import tegula
import tegula.language as tl
from tegula.ir import types as ir
from tegula.ir.types import Pointer
from tegula_cuda import ptxas

F32, F16 = Pointer(ir.f32), Pointer(ir.f16)
EVENTS = {
    r"cp\.async\.wait_group (\d+)": "copied but {}",
    r"bar\.sync": "meet",
    r"wgmma\.mma_async": "multiply",
    r"wgmma\.wait_group\S* (\d+)": "multiplied but {}",
    r"cp\.async\.c[ag]\.": "copy",
}


@tegula.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x, y = a + rm[:, None] * K + rk[None, :], b + rk[:, None] * BN + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        s = tl.load(x, mask=rk[None, :] < K - k, other=0.0)
        t = tl.load(y, mask=rk[:, None] < K - k, other=0.0)
        acc = tl.dot(s, t, acc)
        x += BK
        y += BK * BN
    tl.store(c + rm[:, None] * BN + rn[None, :], acc)


@tegula.jit
def attention(q, k, v, o, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rm, rn, rd = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + rm[:, None] * D + rd[None, :])
    acc = tl.zeros((BM, D), dtype=tl.float32)
    most = tl.full((BM,), -float("inf"), dtype=tl.float32)
    for n in range(0, S, BN):
        y = tl.load(k + (n + rn)[:, None] * D + rd[None, :])
        s = tl.dot(x, tl.trans(y))
        more = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - more[:, None])
        acc = acc * tl.exp2(most - more)[:, None]
        z = tl.load(v + (n + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), z, acc)
        most = more
    tl.store(o + rm[:, None] * D + rd[None, :], acc)


def product_ptx(stages: int) -> str:
    sizes = {"BM": 128, "BN": 128, "BK": 64}
    return ptx_of(product, sizes, a=F16, b=F16, c=F32, K=ir.i32, num_warps=8, num_stages=stages)


def attention_ptx(stages: int, BM: int = 64, warps: int = 4) -> str:
    sizes = {"BM": BM, "BN": 64, "D": 64}
    types = {"q": F16, "k": F16, "v": F16, "o": F32, "S": ir.i32}
    return ptx_of(attention, sizes, num_warps=warps, num_stages=stages, **types)


def blocks(ptx: str) -> list[tuple[str, list[str]]]:
    """The parts of the pipelined loop with products: their text, and what happens in each,
    neighbours that are alike once."""
    out = []
    for text in re.split(r"^\$L__\w+:", ptx, flags=re.MULTILINE):
        seen: list[str] = []
        for hit in re.finditer("|".join(EVENTS), text):
            for pattern, name in EVENTS.items():
                whole = re.fullmatch(pattern, hit[0])
                if whole is not None:
                    event = name.format(*whole.groups())
                    seen += [event] if seen[-1:] != [event] else []
        if "multiply" in seen:
            out.append((text, seen))
    return sorted(out, key=lambda block: -len(block[1]))


def events(ptx: str) -> list[list[str]]:
    return [seen for _, seen in blocks(ptx)]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_next_product_begins_before_the_last_one_ends(stages: int) -> None:
    assert events(product_ptx(stages)) == [
        [f"copied but {stages - 2}", "meet", "multiply", "multiplied but 1", "meet", "copy"]
    ]


@pytest.mark.parametrize("stages", [2, 3])
def test_a_product_runs_until_the_first_one_of_the_next_iteration(stages: int) -> None:
    first = [f"copied but {stages - 2}", "meet", "multiply", "multiplied but 0", "meet", "copy"]
    assert events(attention_ptx(stages)) == [first, ["multiply"]]


def test_copies_take_few_instructions() -> None:
    """Constants stand last in addresses of shared memory, where copies take them as they are; what
    stays the same in a loop is added to a pointer before it."""
    loop, _ = blocks(product_ptx(4))[0]
    places = re.findall(r"cp\.async\.cg\.shared\.global \[(%r\d+)\]", loop)
    moved = dict(re.findall(r"add\.s32\s+(%r\d+), (%r\d+), \d+;", loop))
    assert len(places) == 8 and len({moved.get(p, p) for p in places}) == 2
    loop, _ = blocks(attention_ptx(3))[0]
    copies = len(re.findall(r"cp\.async\.cg", loop))
    assert copies == 8 and len(re.findall(r"add\.s64|mul\.wide", loop)) < 3 * copies


def test_groups_of_warps_are_not_kept_in_step() -> None:
    first = ["copied but 0", "meet", "copy", "multiply", "multiplied but 0"]
    assert events(attention_ptx(2, BM=128, warps=8)) == [first, ["multiply", "multiplied but 0"]]


@pytest.mark.skipif(ptxas.find() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("made", [product_ptx, attention_ptx])
def test_products_run_beside_the_threads(tmp_path: Path, made: object, stages: int) -> None:
    """ptxas says so where it makes every product wait for the one before."""
    file = tmp_path / "kernel.ptx"
    assert callable(made)
    file.write_text(made(stages))
    command = [str(ptxas.find()), "-arch=sm_90a", "-v", str(file), "-o", str(tmp_path / "out")]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "serialized" not in said.stdout + said.stderr
