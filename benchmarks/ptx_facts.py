"""What the fastest configuration of each row of `figures/gpu_h200.json` becomes: registers, spills,
shared memory, instructions, and how wide its accesses to global memory are. Needs ptxas, no GPU.

    python benchmarks/ptx_facts.py [out.json]
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["IMPL"] = "tegula"
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import kernels as K  # noqa: E402

from tegula.ir import DTYPES, Pointer  # noqa: E402
from tegula.plugin.registry import registry  # noqa: E402
from tegula.runtime import compiler, stages  # noqa: E402

ARCH = "sm_90a"
OPTIONS = ("num_warps", "num_stages")
ROW = {"sak": 1, "sbn": 1, "scn": 1}
COLUMN = {"sak": 1, "sbk": 1, "scn": 1}  # the right factor of 8-bit floats

# Types are given as in a signature: `*` is a pointer, `!` a number that no power of two divides.
SIZES = "M i32 N i32 K i32"
ATTENTION = "q_ptr *bf16 k_ptr *bf16 v_ptr *bf16 o_ptr *bf16 lse_ptr *f32 scale f32 S i32"
SOFTMAX = "out_ptr *f16 in_ptr *f16 in_stride i32 out_stride i32 n_cols i32"
LAYER_NORM = (
    "x_ptr *f16 y_ptr *f16 w_ptr *f16 b_ptr *f16 mean_ptr *f32 rstd_ptr *f32 stride i32 n_cols i32 "
    "eps f32"
)


def product(e: str, out: str) -> str:
    strides = "sam i32 sbn i32 scm i32" if e == "f8e4nv" else "sam i32 sbk i32 scm i32"
    return f"a_ptr *{e} b_ptr *{e} c_ptr *{out} {SIZES} {strides}"


def described(e: str) -> str:
    return f"a_ptr *{e} b_ptr *{e} c_ptr *f16 {SIZES}"


ROWS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "vector_add_f32": (K.add_kernel, "x_ptr *f32 y_ptr *f32 out_ptr *f32 n i32", {}),
    **{f"softmax_f16_{n}": (K.softmax_kernel, SOFTMAX, {"BLOCK": n}) for n in (1024, 4096, 16384)},
    "layernorm_f16_8192": (K.layernorm_kernel, LAYER_NORM, {"BLOCK": 8192}),
    "dropout_f32": (K.dropout_kernel, "x_ptr *f32 out_ptr *f32 n i32 p f32 seed i32!", {}),
    "cumsum_f32_4096": (K.cumsum_kernel, "x_ptr *f32 out_ptr *f32 n_cols i32", {"BLOCK": 4096}),
    "transpose_f16_16384": (K.transpose_kernel, "x_ptr *f16 out_ptr *f16 m i32 n i32", {}),
    "atomic_hist_i32": (K.atomic_hist_kernel, "x_ptr *i32 out_ptr *i32 n i32", {}),
    "matmul_f16_4096": (K.matmul_kernel, product("f16", "f16"), ROW),
    "matmul_f16_8192": (K.matmul_kernel, product("f16", "f16"), ROW),
    "matmul_bf16_8192": (K.matmul_kernel, product("bf16", "bf16"), ROW),
    "matmul_f8e4m3_4096": (K.matmul_kernel, product("f8e4nv", "f16"), COLUMN),
    "matmul_f8e4m3_8192": (K.matmul_kernel, product("f8e4nv", "f16"), COLUMN),
    "matmul_f16_1024": (K.matmul_kernel, product("f16", "f16"), ROW),
    "matmul_f32_tf32_4096": (K.matmul_kernel, product("f32", "f32"), ROW),
    "matmul_desc_f16_8192": (K.matmul_desc_persistent_kernel, described("f16"), {"GROUP": 8}),
    "matmul_desc_f8e4m3_8192": (K.matmul_desc_persistent_kernel, described("f8e4nv"), {"GROUP": 8}),
    **{
        f"attention_bf16_d{d}_{kind}": (
            K.attention_fwd_kernel, ATTENTION, {"D": d, "CAUSAL": kind == "causal"}
        )
        for d in (64, 128)
        for kind in ("full", "causal")
    },
}  # fmt: skip
MORE = {"matmul_desc": {"NUM_SMS": 132}}
"""Constants that a machine gives."""


def compiled(row: str, chosen: dict[str, Any]) -> tuple[Any, str]:
    """The artifact of a row in a configuration, and its PTX."""
    kernel, signature, fixed = ROWS[row]
    words = signature.split()
    types, attrs = {}, {}
    for name, text in zip(words[::2], words[1::2]):
        elem = DTYPES[text.strip("*!")]
        types[name] = Pointer(elem) if text.startswith("*") else elem
        if text.startswith("*") or text == "i32":
            attrs[name] = {"divisible": 16}
    options = {n: chosen[n] for n in OPTIONS if n in chosen}
    constants = {**fixed, **{n: v for n, v in chosen.items() if n not in OPTIONS}}
    for prefix, given in MORE.items():
        constants |= given if row.startswith(prefix) else {}
    backend = registry.backend("cuda")
    from tegula_cuda.target import resolve

    request = compiler.Request(
        fn=kernel, types=types, constants=constants, attrs=attrs, backend=backend,
        context=backend.context(resolve(ARCH), options), name=kernel.fn.__name__,
    )  # fmt: skip
    texts: dict[str, str] = {}
    with stages.recording(texts.__setitem__):
        artifact = compiler._compile(request, compiler.Timing())
    return artifact, texts["ptx"]


def widths(ptx: str) -> dict[str, int]:
    """How many accesses to global memory move how many bytes, by kind."""
    found: Counter[str] = Counter()
    for kind, vector, bits in re.findall(r"\b(ld|st)\.global\S*?(?:\.v(\d))?\.[bfus](\d+)\b", ptx):
        found[f"{kind} {int(vector or 1) * int(bits) // 8}"] += 1
    for size in re.findall(r"cp\.async\.c[ag]\.\S+ \[[^]]+\], \[[^]]+\], (\d+)", ptx):
        found[f"cp.async {size}"] += 1
    for kind in re.findall(r"cp\.async\.bulk\.tensor\S*\.(global\.shared|shared\S*\.global)", ptx):
        found["bulk st" if kind.startswith("global") else "bulk ld"] += 1
    for size in re.findall(r"\batom\.\S*\.[bfus](\d+)\b", ptx):
        found[f"atom {int(size) // 8}"] += 1
    return dict(sorted(found.items()))


def units(ptx: str) -> str:
    """The matrix instructions."""
    found = re.findall(r"\b(wgmma|mma)\.(?:mma_async|sync)\.\S*?\.(m\d+n\d+k\d+)", ptx)
    shapes = Counter(" ".join(pair) for pair in found)
    return ", ".join(f"{n} {shape}" for shape, n in sorted(shapes.items()))


def facts(row: str, chosen: dict[str, Any]) -> dict[str, Any]:
    made, ptx = compiled(row, chosen)
    body = [line for line in ptx.splitlines() if re.match(r"\s+(@!?%p\d+ )?[a-z].*;", line)]
    return {
        "config": chosen,
        "registers": made.metadata["registers"],
        "spilled bytes": made.metadata["spills"],
        "shared bytes": made.metadata["shared_bytes"],
        "ptx instructions": len(body),
        "global accesses by bytes": widths(ptx),
        "matrix instructions": units(ptx),
    }


def all_facts() -> Iterator[tuple[str, dict[str, Any]]]:
    figures = json.loads((HERE / "figures" / "gpu_h200.json").read_text())
    for row in ROWS:
        yield row, facts(row, figures["rows"][row]["tegula_cfg"])


def line(row: str, known: dict[str, Any]) -> str:
    """A row of the table in the notes."""
    accesses = ", ".join(f"{n} x {kind}" for kind, n in known["global accesses by bytes"].items())
    numbers = ("registers", "spilled bytes", "shared bytes", "ptx instructions")
    cells = [row, *(str(known[n]) for n in numbers), accesses, known["matrix instructions"]]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    found = {}
    for row, known in all_facts():
        found[row] = known
        print(line(row, known), flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
