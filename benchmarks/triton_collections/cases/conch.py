"""Kernels of language and vision models: activations, norms, attention, quantisation, points and
boxes. References are the collection's own; those for attention and products are in float64.
"""

from __future__ import annotations

import importlib
from itertools import chain
from typing import Any

import torch
from case import Cases, compare, randn

cases = Cases()
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
ROWS = ((1, 8), (7, 300), (3, 1025), (64, 128))


def both(path: str, name: str) -> tuple[Any, Any]:
    """An operation, and its reference."""
    modules = [importlib.import_module(f"conch.{kind}.{path}") for kind in ("ops", "reference")]
    return getattr(modules[0], name), getattr(modules[1], name)


# -- activations and norms


@cases.over(name=("silu_and_mul", "gelu_tanh_and_mul"), shape=ROWS, dtype=FLOATS)
def activation(name: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    op, reference = both(f"activation.{name}", name)
    x = randn(shape[0], 2 * shape[1], dtype=dtype)
    compare(op(x), reference(x.double()), {torch.bfloat16: 3e-2}.get(dtype))


@cases.over(shape=ROWS, dtype=FLOATS, fused=(False, True))
def rms_norm(shape: tuple[int, int], dtype: torch.dtype, fused: bool) -> None:
    x, y, weight = randn(*shape, dtype=dtype), randn(*shape, dtype=dtype, seed=1), randn(shape[1])
    weight = weight.to(dtype)
    op, reference = both("normalization.rms_norm", "fused_add_rms_norm" if fused else "rms_norm")
    if not fused:
        return compare(op(x, weight, 1e-6), reference(x, weight, 1e-6), 1e-2)
    got, want = (
        op(x.clone(), y.clone(), weight, 1e-6),
        reference(x.clone(), y.clone(), weight, 1e-6),
    )
    for a, b in zip(got, want):
        compare(a, b, 1e-2 if dtype != torch.bfloat16 else 3e-2)
    return None


@cases.over(shape=ROWS, dtype=FLOATS)
def gemma_rms_norm(shape: tuple[int, int], dtype: torch.dtype) -> None:
    op, reference = both("normalization.gemma_rms_norm", "gemma_rms_norm")
    x, weight = randn(*shape, dtype=dtype), randn(shape[1], dtype=dtype, seed=1)
    compare(op(x.clone(), weight, 1e-6), reference(x.clone(), weight, 1e-6), 1e-2)


@cases.over(heads=((4, 2, 64), (3, 1, 24), (2, 2, 128)), dtype=FLOATS)
def rotary_embedding(heads: tuple[int, int, int], dtype: torch.dtype) -> None:
    from conch.reference.embedding.rotary_embedding import compute_cos_sin_cache

    op, reference = both("embedding.rotary_embedding", "rotary_embedding")
    queries, keys, size = heads
    positions = torch.arange(11) * 3
    q, k = randn(11, queries * size, dtype=dtype), randn(11, keys * size, dtype=dtype)
    cache = compute_cos_sin_cache(10000, size, 64).to(dtype)
    want = reference(positions, q.double(), k.double(), cache.double(), size, size)
    for a, b in zip(op(positions, q, k, size, cache), want):
        compare(a, b)


# -- quantisation


@cases.over(shape=ROWS, dtype=FLOATS, scale=(0.05, 0.5))
def int8(shape: tuple[int, int], dtype: torch.dtype, scale: float) -> None:
    op, reference = both("quantization.int8", "scaled_int8_quant")
    x = randn(*shape, dtype=dtype) * 3
    compare(op(x, torch.tensor([scale]))[0], reference(x, torch.tensor([scale])))


@cases.over(shape=ROWS, dtype=FLOATS, scale=(0.05, 0.5))
def fp8(shape: tuple[int, int], dtype: torch.dtype, scale: float) -> None:
    op, reference = both("quantization.fp8", "scaled_fp8_quant")
    x = randn(*shape, dtype=dtype) * 30
    got, want = op(x, torch.tensor([scale]))[0], reference(x, torch.tensor([scale]))
    compare(got.float(), want.float(), 0.0)


@cases.over(kind=("nf4", "fp4", "fp8"), dtype=FLOATS, size=(64, 640, 1000))
def blockwise(kind: str, dtype: torch.dtype, size: int) -> None:
    from conch.ops.quantization.bitsandbytes import functional
    from conch.reference.quantization.bitsandbytes.dequantize_blockwise import (
        dequantize_blockwise_launcher,
    )
    from conch.reference.quantization.bitsandbytes.quantize_blockwise import (
        quantize_blockwise_launcher,
    )

    x = randn(size, dtype=dtype)
    code = functional._create_dynamic_map() if kind == "fp8" else None
    packed, state = functional.quantize_blockwise(x, code=code, quant_type=kind)
    want, top = torch.zeros_like(packed), torch.zeros_like(state.absmax)
    quantize_blockwise_launcher(x, top, want.view(-1), code, 64, size, kind)
    compare(state.absmax, top, 0.0, "absmax")
    compare(packed, want, what="packed", mismatches=0.002)  # products at a border of two codes
    got = functional.dequantize_blockwise(packed, state, quant_type=kind)
    unpacked = torch.zeros_like(x)
    dequantize_blockwise_launcher(want.view(-1), top, unpacked, code, 64, size, kind)
    compare(got, unpacked, 1e-2, "unpacked", mismatches=0.002)


# -- products


@cases.over(bits=("uint4b8", "uint8b128", "uint4"), sizes=((16, 64, 128), (37, 96, 256)),
            dtype=FLOATS)  # fmt: skip
def mixed_precision_gemm(bits: str, sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    from conch.ops.quantization.gemm import mixed_precision_gemm as op
    from conch.third_party.vllm import quant_utils, scalar_type

    kind = getattr(scalar_type.scalar_types, bits)
    m, n, k = sizes
    x, weight = randn(m, k, dtype=dtype), randn(k, n)
    zero_points = not kind.has_bias()
    reference, quantised, scales, zeros = quant_utils.quantize_weights(
        weight, kind, 64, zero_points
    )
    packed = quant_utils.pack_rows(quantised, kind.size_bits, k, n)
    got = op(
        x, packed, scales.to(dtype), zeros, kind.size_bits, kind.bias if kind.has_bias() else 0, 64
    )
    compare(got, x.double() @ reference.double(), 2e-3 if dtype == torch.float32 else 2e-2)


@cases.over(kind=("int8", "fp8", "float16", "float32"), sizes=((16, 64, 64), (37, 130, 192)),
            scalar=(True, False))  # fmt: skip
def scaled_gemm(kind: str, sizes: tuple[int, int, int], scalar: bool) -> None:
    run_scaled(kind, sizes, scalar)


def run_scaled(kind: str, sizes: tuple[int, int, int], scalar: bool) -> None:
    from conch.ops.quantization.gemm import scaled_gemm as op

    m, n, k = sizes
    a, b = randn(m, k), randn(k, n, seed=1)
    if kind == "int8":
        a, b = (a * 30).to(torch.int8), (b * 30).to(torch.int8)
    else:
        dtype = {"fp8": torch.float8_e4m3fn, "float16": torch.float16}.get(kind, torch.float32)
        a, b = a.to(dtype), b.to(dtype)
    scale_a = torch.rand(1 if scalar else m, 1) + 0.5
    scale_b = torch.rand(1 if scalar else n, 1) + 0.5
    got = op(a, b, scale_a, scale_b, torch.bfloat16)
    compare(got, scale_a.double() * (a.double() @ b.double()) * scale_b.T.double())


@cases.over(
    fault="reads whole blocks of 64 along the depth without a mask: past the end of other depths",
    kind=("float16",),
)  # fmt: skip
def scaled_gemm_of_odd_depth(kind: str) -> None:
    import tegula

    with tegula.use_device("interpreter"):  # which says so
        run_scaled(kind, (16, 64, 100), True)


class Unswizzled:
    """The kernel with its other order of tiles, which no caller in the package chooses."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Any:
        return lambda **named: self.kernel[grid](**{**named, "cxpr_swizzle_pid": False})


@cases.over(kind=("int8", "float16"))
def gemm_in_rows(kind: str) -> None:
    from conch.kernels.quantization import gemm

    before, gemm._gemm_kernel = gemm._gemm_kernel, Unswizzled(gemm._gemm_kernel)
    try:
        run_scaled(kind, (300, 130, 128), False)
    finally:
        gemm._gemm_kernel = before


# -- attention over pages


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool,
              softcap: float, last: bool = True) -> torch.Tensor:  # fmt: skip
    """Of (queries, heads, size) to (keys, heads, size); causal for the last tokens or the first."""
    group = q.shape[1] // k.shape[1]
    k, v = k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        rows = torch.arange(q.shape[0])[:, None] + (k.shape[0] - q.shape[0] if last else 0)
        scores = scores.masked_fill(torch.arange(k.shape[0])[None, :] > rows, -torch.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


def pages(lengths: list[int], block: int, heads: int, size: int, dtype: torch.dtype,
          extra: int = 0) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Caches of keys and values, and which pages each sequence has."""
    most = max(-(-n // block) for n in lengths) + extra
    total = most * len(lengths) + 3
    table = torch.randperm(total, generator=torch.Generator().manual_seed(5)).int()
    table = table[: most * len(lengths)].view(len(lengths), most).contiguous()
    keys = randn(total, block, heads, size, dtype=dtype)
    return keys, randn(total, block, heads, size, dtype=dtype, seed=1), table


def gathered(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """The first entries of one sequence."""
    return cache[table.long()].flatten(0, 1)[:length]


HEADS = ((4, 4, 64), (6, 2, 48), (8, 1, 128))


@cases.over(heads=HEADS, dtype=FLOATS, lengths=((5, 17, 33), (1, 300, 129)), softcap=(0.0, 30.0))
def paged_attention(heads: tuple[int, int, int], dtype: torch.dtype, lengths: tuple[int, ...],
                    softcap: float) -> None:  # fmt: skip
    from conch.ops.attention.paged_attention import paged_attention as op

    queries, kv, size = heads
    keys, values, table = pages(list(lengths), 16, kv, size, dtype)
    q = randn(len(lengths), queries, size, dtype=dtype)
    got = op(q, keys, values, table, torch.tensor(lengths, dtype=torch.int32), softcap=softcap)
    want = torch.stack([
        attention(q[i : i + 1], gathered(keys, table[i], n), gathered(values, table[i], n),
                  size**-0.5, False, softcap)[0]
        for i, n in enumerate(lengths)
    ])  # fmt: skip
    compare(got, want, {torch.float32: 2e-3}.get(dtype, 3e-2))


@cases.over(heads=HEADS, dtype=FLOATS, causal=(False, True), softcap=(0.0, 30.0))
def varlen_attention(heads: tuple[int, int, int], dtype: torch.dtype, causal: bool,
                     softcap: float) -> None:  # fmt: skip
    run_varlen(heads, dtype, [3, 21, 40], [3, 50, 40], causal, softcap)


@cases.over(heads=HEADS, dtype=FLOATS)
def varlen_decode(heads: tuple[int, int, int], dtype: torch.dtype) -> None:
    run_varlen(heads, dtype, [1, 1], [4100, 77], True, 0.0)


@cases.over(heads=HEADS, dtype=(torch.float16, torch.float32), causal=(False, True))
def varlen_always_masked(heads: tuple[int, int, int], dtype: torch.dtype, causal: bool) -> None:
    """As the package runs on one GPU only: with masks that are not asked for first."""
    from conch.kernels.attention import varlen_attention as module

    before, module._do_conditionally_masked_loads_and_stores = (
        module._do_conditionally_masked_loads_and_stores, lambda: False
    )  # fmt: skip
    try:
        run_varlen(heads, dtype, [3, 21, 40], [3, 50, 40], causal, 0.0)
    finally:
        module._do_conditionally_masked_loads_and_stores = before


def run_varlen(heads: tuple[int, int, int], dtype: torch.dtype, new: list[int],
               lengths: list[int], causal: bool, softcap: float) -> None:  # fmt: skip
    from conch.ops.attention.varlen_attention import varlen_attention as op

    queries, kv, size = heads
    keys, values, table = pages(lengths, 32, kv, size, dtype)
    q = randn(sum(new), queries, size, dtype=dtype)
    starts = torch.tensor([0, *new]).cumsum(0).int()
    got = op(q, keys, values, starts, max(new), torch.tensor(lengths, dtype=torch.int32),
             max(lengths), table, causal=causal, softcap=softcap, strict=True)  # fmt: skip
    want = torch.cat([
        attention(q[starts[i] : starts[i + 1]], gathered(keys, table[i], n),
                  gathered(values, table[i], n), size**-0.5, causal, softcap, last=max(new) == 1)
        for i, n in enumerate(lengths)
    ])  # fmt: skip
    compare(got, want, {torch.float32: 2e-3}.get(dtype, 3e-2))


@cases.over(heads=HEADS, dtype=FLOATS, softcap=(0.0, 30.0))
def unified_attention(heads: tuple[int, int, int], dtype: torch.dtype, softcap: float) -> None:
    from conch.third_party.vllm.unified_attention import unified_attention as op

    queries, kv, size = heads
    new, lengths = [3, 1, 21], [3, 70, 50]
    keys, values, table = pages(lengths, 16, kv, size, dtype)
    q = randn(sum(new), queries, size, dtype=dtype)
    out = torch.empty_like(q)
    starts = torch.tensor([0, *new]).cumsum(0).int()
    op(q, keys, values, out, starts, max(new), torch.tensor(lengths, dtype=torch.int32),
       max(lengths), size**-0.5, True, (-1, -1), table, softcap, None, None, None)  # fmt: skip
    want = torch.cat([
        attention(q[starts[i] : starts[i + 1]], gathered(keys, table[i], n),
                  gathered(values, table[i], n), size**-0.5, True, softcap)
        for i, n in enumerate(lengths)
    ])  # fmt: skip
    compare(out, want, {torch.float32: 2e-3}.get(dtype, 3e-2))


# -- caches


@cases.over(dtype=FLOATS, size=(64, 200))
def copy_blocks(dtype: torch.dtype, size: int) -> None:
    op, reference = both("vllm.copy_blocks", "copy_blocks")
    caches = [[randn(10, size, dtype=dtype, seed=s + kind) for s in range(3)] for kind in (0, 10)]
    expected = [[cache.clone() for cache in layers] for layers in caches]
    pairs = [(0, 5), (3, 9), (7, 1)]
    op(*caches, torch.tensor(pairs))
    reference(*expected, pairs)
    for got, want in zip(chain(*caches), chain(*expected)):
        compare(got, want, 0.0)


@cases.over(dtype=FLOATS, kind=("auto", "fp8"), heads=((2, 64), (3, 40)))
def reshape_and_cache(dtype: torch.dtype, kind: str, heads: tuple[int, int]) -> None:
    op, reference = both("vllm.reshape_and_cache", "reshape_and_cache")
    key, value = randn(9, *heads, dtype=dtype), randn(9, *heads, dtype=dtype, seed=1)
    slots = torch.tensor([4, 17, 33, 5, 0, 63, 12, 11, 40])
    stored = torch.float8_e4m3fn if kind == "fp8" else dtype
    scales = torch.tensor([0.5]), torch.tensor([2.0])
    results = []
    for function in (op, reference):
        caches = [torch.zeros(4, 16, *heads).to(stored) for _ in range(2)]
        function(key, value, *caches, slots, kind, *scales)
        results.append(caches)
    for got, want in zip(*results):
        compare(got.double(), want.double(), 0.0)


# -- points and boxes


@cases.over(count=(1, 7, 100, 300), threshold=(0.3, 0.7))
def nms(count: int, threshold: float) -> None:
    op, reference = both("vision.nms", "nms")
    boxes = torch.rand(count, 4, generator=torch.Generator().manual_seed(count)) * 50
    boxes[:, 2:] += boxes[:, :2]
    scores = torch.rand(count, generator=torch.Generator().manual_seed(count + 1))
    compare(op(boxes, scores, threshold), reference(boxes, scores, threshold))


@cases.over(channels=(3, 80), dtype=(torch.float16, torch.float32))
def bev_pool(channels: int, dtype: torch.dtype) -> None:
    from conch.ops.vision import bev_pool as ops
    from conch.reference.vision import bev_pool as references

    lengths = torch.tensor([3, 1, 5, 2, 4], dtype=torch.int32)
    starts = (lengths.cumsum(0) - lengths).int()
    cells = torch.tensor([[0, 1, 0, 0], [2, 3, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [3, 2, 1, 1]])
    cells = cells[torch.arange(5).repeat_interleave(lengths)].int()
    features = randn(15, channels, dtype=dtype)
    sizes = (2, 2, 4, 4)
    got = ops.bev_pool(features, cells, starts, lengths, *sizes)
    compare(got, references.bev_pool_pytorch(features, cells, starts, lengths, *sizes))
    grad = randn(*got.shape, dtype=dtype)
    compare(ops.bev_pool_backward(grad, cells, starts, lengths),
            references.bev_pool_backward_pytorch(grad, cells, starts, lengths))  # fmt: skip


def cloud(count: int) -> tuple[torch.Tensor, Any]:
    """Points, some outside of the grid."""
    from conch.ops.vision.voxelization import VoxelizationParameter

    parameters = VoxelizationParameter((-1.0, -1.0, -0.5), (1.0, 1.0, 0.5), (0.5, 0.25, 0.5), 4)
    return randn(count, 4) * 0.6, parameters


@cases.over(count=(5, 300, 1000))
def voxels_in_order(count: int) -> None:
    from conch.reference.vision import voxelization as module

    points, parameters = cloud(count)
    got, want = (
        module.voxelization_stable(points, parameters, use_triton=u) for u in (True, False)
    )
    for a, b in zip(got, want):
        compare(a, b)
    got, want = (
        module.collect_point_features(points, want[0], want[1], parameters, use_triton=u)
        for u in (True, False)
    )
    compare(got[1], want[1])
    inside = torch.arange(4)[None, :] < want[1][:, None]  # the kernel leaves the rest as it was
    compare(got[0][inside], want[0][inside], 0.0)


@cases.over(count=(5, 300, 1000))
def voxels(count: int) -> None:
    from conch.ops.vision.voxelization import generate_voxels
    from conch.reference.vision import voxelization as module

    points, parameters = cloud(count)
    filled, features, places, counts = generate_voxels(points, parameters)
    expected, order, flat = module.voxelization_stable(points, parameters, use_triton=False)
    assert int(filled) == len(flat)
    x, y, z = places[: len(flat), 0], places[: len(flat), 1], places[: len(flat), 2]
    key = (z * parameters.grid_dim[1] + y) * parameters.grid_dim[0] + x
    sorting = key.argsort()
    compare(key[sorting].long(), flat.long(), what="voxels")
    compare(counts[: len(flat)][sorting], expected.clamp(max=4), what="counts")
    ends = expected.cumsum(0)
    for row, (voxel, end) in enumerate(zip(sorting.tolist(), ends.tolist())):
        members = {tuple(p) for p in points[order[end - expected[row] : end].long()].tolist()}
        for slot in range(int(counts[voxel])):
            assert tuple(features[voxel, slot].tolist()) in members, f"voxel {voxel}"
