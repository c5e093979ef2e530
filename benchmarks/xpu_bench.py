"""Every bench kernel on the first device of `xpu` beside backend `cpu`, in one run, in turns.

    IMPL=tegula python xpu_bench.py out.json [row,row...]

Each side takes the fastest of the same configurations; results are compared first.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import kernels as K
import numpy as np

import tegula
from tegula.plugin.registry import registry

ROUNDS, SECONDS = 9, 0.06
DEVICE = registry.backend("xpu").device(0)
RNG = np.random.default_rng(0)


@dataclass
class Row:
    """A kernel, its arguments, and (grid, constants) to choose from."""

    name: str
    kernel: Any
    args: list[Any]
    results: tuple[int, ...]
    ways: list[tuple[tuple[int, ...], dict[str, Any]]]


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def rows() -> Iterator[Row]:
    for n, blocks in ((1 << 24, (1024, 8192, 65536)), (1 << 12, (1024, 4096))):
        ways = [((-(-n // b),), {"BLOCK": b}) for b in blocks]
        args = [random(n), random(n), zeros(n), n]
        yield Row(f"vector_add_f32_{n}", K.add_kernel, args, (2,), ways)
    for r, c in ((8192, 1024), (1024, 8192)):
        args = [zeros(r, c), random(r, c), c, c, c]
        yield Row(f"softmax_f32_{r}x{c}", K.softmax_kernel, args, (0,), [((r,), {"BLOCK": c})])
    r, c = 2048, 4096
    args = [random(r, c), zeros(r, c), random(c), random(c), zeros(r), zeros(r), c, c, 1e-5]
    yield Row(f"layernorm_f32_{r}x{c}", K.layernorm_kernel, args, (1, 4, 5), [((r,), {"BLOCK": c})])
    n = 1 << 22
    ways = [((n // b,), {"BLOCK": b}) for b in (1024, 4096)]
    yield Row(f"dropout_f32_{n}", K.dropout_kernel, [random(n), zeros(n), n, 0.5, 123], (1,), ways)
    args = [random(r, c), zeros(r, c), c]
    yield Row(f"cumsum_f32_{r}x{c}", K.cumsum_kernel, args, (1,), [((r,), {"BLOCK": c})])
    n = 4096
    tiles = ((16, 16), (32, 32), (64, 64), (32, 128))
    ways = [((n // p, n // q), {"BM": p, "BN": q}) for p, q in tiles]
    args = [random(n, n), zeros(n, n), n, n]
    yield Row(f"transpose_f32_{n}", K.transpose_kernel, args, (1,), ways)
    n = 1 << 20
    args = [RNG.integers(0, 256, n).astype(np.int32), np.zeros(256, np.int32), n]
    ways = [((n // 1024,), {"BLOCK": 1024})]
    yield Row(f"histogram_i32_{n}", K.atomic_hist_kernel, args, (), ways)
    yield from products()


def products() -> Iterator[Row]:
    n = 512
    args = [random(n, n), random(n, n), zeros(n, n), n, n, n, n, 1, n, 1, n, 1]
    ways = [
        (((n // m) * (n // k),), {"BM": m, "BN": k, "BK": 32, "GROUP": 8})
        for m, k in ((32, 32), (64, 64), (128, 128))
    ]
    yield Row(f"matmul_f32_{n}", K.matmul_kernel, args, (2,), ways)
    args = [random(n, n), random(n, n), zeros(n, n), n, n, n]
    ways = [
        ((16,), {"BM": m, "BN": m, "BK": 32, "GROUP": 8, "NUM_SMS": 16, "SUB": 2}) for m in (32, 64)
    ]
    yield Row(f"matmul_desc_f32_{n}", K.matmul_desc_persistent_kernel, args, (2,), ways)
    heads, s, d = 8, 512, 64
    for causal in (False, True):
        args = [random(heads, s, d), random(heads, s, d), random(heads, s, d), zeros(heads, s, d),
                zeros(heads, s), d**-0.5, s]  # fmt: skip
        ways = [
            ((s // b, heads), {"D": d, "BM": b, "BN": b, "CAUSAL": causal}) for b in (32, 64)
        ]
        name = f"attention_f32_{'causal' if causal else 'full'}"
        yield Row(name, K.attention_fwd_kernel, args, (3, 4), ways)


Call = Callable[[], None]


def calls(row: Row) -> dict[str, list[tuple[str, Call]]]:
    """For each side its ways to run the row, results compared."""
    there = [tegula.asarray(a, device="xpu") if isinstance(a, np.ndarray) else a for a in row.args]

    def on_cpu(grid: Any, constants: Any) -> None:
        row.kernel[grid](*row.args, **constants)

    def on_xpu(grid: Any, constants: Any) -> None:
        row.kernel[grid](*there, **constants)
        DEVICE.synchronize()

    out: dict[str, list[tuple[str, Call]]] = {"cpu": [], "xpu": []}
    for grid, constants in row.ways:
        for side, run in (("cpu", on_cpu), ("xpu", on_xpu)):
            run(grid, constants)
            way = " ".join(f"{k}={v}" for k, v in constants.items())
            out[side].append((way, lambda r=run, g=grid, c=constants: r(g, c)))
        for i in row.results:
            np.testing.assert_allclose(there[i].numpy(), row.args[i], rtol=2e-3, atol=2e-3)
    return out


def seconds(call: Call, repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


def measure(row: Row) -> dict[str, Any]:
    """Medians of both sides, in microseconds."""
    best: dict[str, tuple[float, str, Call]] = {}
    for side, ways in calls(row).items():
        tried = [(min(seconds(call, 1) for _ in range(5)), way, call) for way, call in ways]
        best[side] = min(tried, key=lambda x: x[0])
    times: dict[str, list[float]] = {side: [] for side in best}
    for _ in range(ROUNDS):
        for side, (once, _, call) in best.items():
            times[side].append(seconds(call, max(1, int(SECONDS / once))))
    middle = {side: sorted(ts)[ROUNDS // 2] * 1e6 for side, ts in times.items()}
    return {
        "us": {side: round(t, 1) for side, t in middle.items()},
        "way": {side: way for side, (_, way, _) in best.items()},
        "xpu_over_cpu": round(middle["xpu"] / middle["cpu"], 2),
    }


def main() -> None:
    out, only = sys.argv[1], set(",".join(sys.argv[2:]).split(",")) - {""}
    found: dict[str, Any] = {"device": DEVICE.info.name}
    for row in rows():
        if only and row.name not in only:
            continue
        found[row.name] = measure(row)
        print(row.name, json.dumps(found[row.name]), flush=True)
        with open(out, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
