"""Tensor descriptors whose blocks the tensor memory accelerator copies: which are, and how."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.errors import TegulaError
from tegula.frontend import HostDescriptor
from tegula.frontend.arguments import flat_names
from tegula.ir import types as ir
from tegula.ir.types import Pointer
from tegula.plugin.records import Artifact
from tegula.plugin.registry import registry
from tegula.runtime import compiler
from tegula_cuda import ptxas
from tegula_cuda.target import resolve

LOAD, STORE = "mbarrier::complete_tx::bytes", "global.shared::cta.tile.bulk_group"
SIZES = {"BM": 128, "BN": 128, "BK": 64}
F16, F32 = Pointer(ir.f16), Pointer(ir.f32)


@tegula.jit
def blocks(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), 8):
        om = tile // tl.cdiv(N, BN) * BM
        on = tile % tl.cdiv(N, BN) * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([om, k]), b.load([on, k]).T, acc)
        c.store([om, on], acc.to(c.dtype))


@tegula.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            PADDING: tl.constexpr = "zero", STEP: tl.constexpr = 1):  # fmt: skip
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, STEP], [BM, BK], PADDING)
    b = tl.make_tensor_descriptor(b_ptr, [N, K * 1], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    blocks(a, b, c, M, N, K, BM, BN, BK)


@tegula.jit
def halves(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Results leave in two parts."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN // 2])
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), 8):
        om = tile // tl.cdiv(N, BN) * BM
        on = tile % tl.cdiv(N, BN) * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([om, k]), b.load([on, k]).T, acc)
        left, right = tl.split(tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1)))
        c.store([om, on], left.to(c.dtype))
        c.store([om, on + BN // 2], right.to(c.dtype))


@tegula.jit
def strided(a_ptr, b_ptr, c_ptr, S, M, K, BM: tl.constexpr, BK: tl.constexpr):
    """A tensor of four axes, two of them one block long; strides are products."""
    a = tl.make_tensor_descriptor(a_ptr, [2, S, M, K + 3], [S * M * 2, M * K, K, 1], [1, 1, BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [M, K], [K.to(tl.int64) * 2, 1], [BM, BK])
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        x = a.load([1, tl.program_id(0), 0, k]).reshape(BM, BK)
        acc = tl.dot(x, b.load([0, k]).T, acc)
    i = tl.arange(0, BM)
    tl.store(c_ptr + i[:, None] * BM + i[None, :], acc)


@tegula.jit
def in_place(a_ptr, b_ptr, M, K, BM: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [M, K], [K, 1], [BM, BK])
    for tile in range(8):
        acc = tl.zeros((BM, BM), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([tile * BM, k]), b.load([0, k]).T, acc)
        a.store([tile * BM, 0], acc.to(tl.float16))


def compiled(
    kernel: Any, constants: Any, arch: str = "sm_90a", aligned: bool = True, **types: Any
) -> Artifact:
    """A kernel's artifact; keywords are the types of its parameters, or options."""
    options = {n: types.pop(n) for n in list(types) if n not in kernel.arg_names}
    names = [name for arg, t in types.items() for name, _ in flat_names(arg, t)]
    backend = registry.backend("cuda")
    request = compiler.Request(
        fn=kernel,
        types=types,
        constants=constants,
        attrs={name: {"divisible": 16} if aligned else {} for name in names},
        context=backend.context(resolve(arch), options),
        backend=backend,
        name=kernel.fn.__name__,
    )
    return compiler._compile(request, compiler.Timing())


def made(kernel: Any = product, constants: Any = None, **given: Any) -> tuple[Artifact, str]:
    """The artifact of a kernel, and its PTX."""
    if kernel is product:
        given = {"a_ptr": F16, "b_ptr": F16, "c_ptr": F16, **dict.fromkeys("MNK", ir.i32), **given}
        constants = {"PADDING": "zero", "STEP": 1, **SIZES, **(constants or {})}
    with config.scope(ptxas="driver"):
        artifact = compiled(kernel, constants, **given)
    return artifact, artifact.data.decode()


def test_blocks_of_a_loop_and_results_are_copied_by_the_accelerator() -> None:
    artifact, ptx = made()
    assert "cp.async.ca" not in ptx and "cp.async.cg" not in ptx and "ld.global" not in ptx
    # Both factors: two stages before the loop over tiles, two after each, one in the inner loop.
    assert ptx.count(LOAD) == 2 * (2 + 2 + 1)
    assert ptx.count(STORE) == 2  # two panels of 128 bytes
    assert "st.global" not in ptx and "stmatrix" in ptx
    assert ptx.count(".param .align 64 .b8") == 3
    assert ptx.count("mbarrier.init") == 3
    m, n, k = ([0, 1, [[slot, 32]], 32] for slot in (3, 4, 5))
    assert artifact.metadata["maps"] == [
        {"base": 0, "itemsize": 2, "box": [128, 64], "row_bytes": 128, "sizes": [m, k],
         "strides": [k]},
        {"base": 1, "itemsize": 2, "box": [128, 64], "row_bytes": 128, "sizes": [n, k],
         "strides": [k]},
        {"base": 2, "itemsize": 2, "box": [128, 64], "row_bytes": 128, "sizes": [m, n],
         "strides": [n]},
    ]  # fmt: skip
    assert [2, 0, False] in artifact.metadata["alias_pairs"]
    assert [2, 1, False] in artifact.metadata["alias_pairs"]


@pytest.mark.parametrize("arch", ["sm_90", "sm_100a", "sm_120a"])
def test_machines_without_that_matrix_unit_have_the_accelerator_too(arch: str) -> None:
    _, ptx = made(arch=arch, constants={"BM": 64, "BN": 64})
    assert LOAD in ptx and STORE in ptx and "wgmma" not in ptx
    if ptxas.find() is not None:
        constants = {"PADDING": "zero", "STEP": 1, "BM": 64, "BN": 64, "BK": 64}
        types = {"a_ptr": F16, "b_ptr": F16, "c_ptr": F16, **dict.fromkeys("MNK", ir.i32)}
        assert compiled(product, constants, arch, **types).metadata["spills"] == 0


def test_what_a_launch_has_to_compute() -> None:
    types = {"a_ptr": F16, "b_ptr": F16, "c_ptr": F32, **dict.fromkeys("SMK", ir.i32)}
    artifact, ptx = made(strided, {"BM": 64, "BK": 32}, **types)
    assert "tensor.4d" in ptx and "tensor.2d" in ptx
    assert ptx.count(LOAD) == 2 * (2 + 1) and STORE not in ptx
    first, second = artifact.metadata["maps"]
    s, m, k = ([slot, 32] for slot in (3, 4, 5))
    assert first["box"] == [1, 1, 64, 32] and first["row_bytes"] == 64
    assert first["sizes"] == [[2, 0, [], 32], [0, 1, [s], 32], [0, 1, [m], 32], [3, 1, [k], 32]]
    assert first["strides"] == [[0, 2, [s, m], 32], [0, 1, [m, k], 32], [0, 1, [k], 32]]
    assert second["strides"] == [[0, 2, [k], 64]]


def test_host_made_descriptors_are_the_same() -> None:
    desc = [HostDescriptor(ir.f16, (128, side)) for side in (64, 64, 128)]
    types = {**dict(zip("abc", desc)), **dict.fromkeys("MNK", ir.i32)}
    artifact, ptx = made(blocks, SIZES, **types)
    assert ptx.count(LOAD) == 10 and ptx.count(STORE) == 2
    assert [m["base"] for m in artifact.metadata["maps"]] == [0, 4, 8]


@pytest.mark.parametrize(
    "change",
    [{"tensor_copies": False}, {"arch": "sm_80"}, {"aligned": False}],
    ids=str,
)
def test_others_take_the_way_over_pointers(change: dict[str, Any]) -> None:
    artifact, ptx = made(**change)
    assert "cp.async.bulk" not in ptx and "mbarrier" not in ptx
    assert "maps" not in artifact.metadata
    assert "st.global" in ptx


def test_blocks_that_are_padded_with_nan_take_the_way_over_pointers() -> None:
    artifact, ptx = made(constants={"PADDING": "nan"})
    assert [m["base"] for m in artifact.metadata["maps"]] == [1, 2]
    assert "cp.async.c" in ptx or "ld.global" in ptx


def test_what_a_kernel_reads_and_writes_takes_the_way_over_pointers() -> None:
    types = {"a_ptr": F16, "b_ptr": F16, **dict.fromkeys("MK", ir.i32)}
    artifact, ptx = made(in_place, {"BM": 64, "BK": 64}, **types)
    assert [m["base"] for m in artifact.metadata["maps"]] == [1] and STORE not in ptx


def test_stores_take_less_shared_memory_where_it_is_short() -> None:
    bytes_of = [made(constants={"BN": 256}, num_warps=8, num_stages=n) for n in (3, 4)]
    assert [ptx.count(STORE) for _, ptx in bytes_of] == [4, 0]
    assert all(a.metadata["shared_bytes"] < 227 << 10 for a, _ in bytes_of)


@pytest.mark.skipif(ptxas.find() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("elem", ["f16", "f8e4nv", "f32"])
def test_machine_code_without_spills(elem: str, stages: int) -> None:
    e = Pointer(ir.DTYPES[elem])
    constants = {"PADDING": "zero", "STEP": 1, "BM": 128, "BN": 128, "BK": 32}
    types = {"a_ptr": e, "b_ptr": e, "c_ptr": F32, **dict.fromkeys("MNK", ir.i32)}
    artifact = compiled(product, constants, num_warps=8, num_stages=stages, **types)
    assert artifact.metadata["spills"] == 0
    ptx = made(a_ptr=e, b_ptr=e, c_ptr=F32, constants=constants, num_warps=8, num_stages=stages)[1]
    assert (LOAD in ptx) == (stages > 1)


@pytest.mark.skipif(ptxas.find() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("kernel, stages", [("whole", 3), ("halves", 4), ("whole", 4)])
def test_products_run_beside_the_threads(tmp_path: Path, kernel: str, stages: int) -> None:
    """ptxas says so where it makes every product wait for the one before."""
    sizes = {"BM": 128, "BN": 256, "BK": 64}
    types = {"a_ptr": F16, "b_ptr": F16, "c_ptr": F16, **dict.fromkeys("MNK", ir.i32)}
    if kernel == "halves":
        _, ptx = made(halves, sizes, num_warps=8, num_stages=stages, **types)
    else:
        _, ptx = made(constants=sizes, num_warps=8, num_stages=stages)
    assert "wgmma.wait_group.sync.aligned 1" in ptx
    file = tmp_path / "kernel.ptx"
    file.write_text(ptx)
    command = [str(ptxas.find()), "-arch=sm_90a", "-v", str(file), "-o", str(tmp_path / "out")]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "serialized" not in said.stdout + said.stderr


# -------------------------------------------------------------------------------------------------
# On a device, and on others for comparison


def _devices() -> list[Any]:
    out = []
    for name in ("interpreter", "cpu", "cuda"):
        try:
            why = "" if registry.backend(name).available else "no such device"
        except TegulaError as error:
            why = str(error)
        out.append(pytest.param(name, marks=pytest.mark.skipif(bool(why), reason=why or "-")))
    return out


@pytest.mark.parametrize("host", [False, True], ids=["device-made", "host-made"])
@pytest.mark.parametrize("size", [(256, 192, 128), (16, 48, 80), (304, 64, 208)], ids=str)
@pytest.mark.parametrize("device", _devices())
def test_products_of_blocks(device: str, size: tuple[int, int, int], host: bool) -> None:
    m, n, k = size
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    sizes = {"BM": 64, "BN": 64, "BK": 64}
    for stages in (1, 2, 3, 4) if device == "cuda" else (1,):
        c = np.zeros((m, n), np.float16)
        given = [tegula.asarray(x, device="cuda") if device == "cuda" else x for x in (a, b, c)]
        options = {"num_stages": stages} if device == "cuda" else {"device": device}
        if host:
            given = [tegula.TensorDescriptor.from_tensor(x, [64, 64]) for x in given]
            blocks[(8,)](*given, m, n, k, **sizes, **options)
        else:
            product[(8,)](*given, m, n, k, **sizes, **options)
        out = given[2].base if host else given[2]
        np.testing.assert_array_equal(out.numpy() if device == "cuda" else out, a @ b.T)
