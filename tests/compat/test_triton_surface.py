"""Every public name of Triton that programs are written against is there."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tegula.compat.triton import install, uninstall

install()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
import triton.language.extra.cuda as cuda  # noqa: E402

uninstall()


@pytest.fixture(autouse=True)
def alias() -> Iterator[None]:
    install()
    yield
    uninstall()


DTYPES = """
    int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e5 float8e5b16 float8e4nv
    float8e4b8 float8e4b15 float16 bfloat16 float32 float64
"""
MEMBERS = """
    abs argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_load atomic_max
    atomic_min atomic_or atomic_poll atomic_store atomic_xchg atomic_xor broadcast_to cast cdiv ceil
    cos cumprod cumsum erf exp exp2 expand_dims flip floor gather histogram item log log2
    logical_and logical_or max min permute ravel reduce reduce_or reshape rsqrt sigmoid sin
    softmax sort split sqrt sqrt_rn store sum trans view xor_sum
"""
NAMES = {
    "triton": """
        AsyncCompileMode CompilationError Config InterpreterError JITFunction KernelInterface
        MockTensor OutOfResources TensorWrapper TritonError aggregate autotune cdiv compile compiler
        constexpr_function heuristics jit knobs language must_use_result next_power_of_2 reinterpret
        runtime set_allocator testing tools backends
    """,
    "triton.language": f"""
        {DTYPES} {MEMBERS} void pi32_t pointer_type block_type tuple_type constexpr_type
        tensor_descriptor_type tensor_descriptor dtype tensor tuple slice constexpr const
        aggregate_replace PropagateNan program_id num_programs arange full zeros zeros_like
        broadcast squeeze unsqueeze cat join interleave load make_tensor_descriptor
        load_tensor_descriptor store_tensor_descriptor make_block_ptr advance add sub mul div_rn
        fdiv fma umulhi where
        swizzle2d expect_zero topk bitonic_merge map_elementwise dot dot_scaled range static_range
        condition multiple_of max_contiguous max_constancy assume debug_barrier static_print
        static_assert device_print device_assert inline_asm_elementwise extern_elementwise philox
        philox_impl randint randint4x rand rand4x randn randn4x uint_to_uniform_float
        pair_uniform_to_normal target_info minimum maximum clamp core math standard random extra
        TRITON_MAX_TENSOR_NUMEL
    """,
    "triton.language.core": "builtin extern dispatch get_int_dtype constexpr tensor _aggregate",
    "triton.language.target_info": """
        current_target is_cuda is_hip cuda_capability_geq is_hip_cdna3 is_hip_cdna4 is_hip_gfx1250
    """,
    "triton.language.extra.cuda": """
        globaltimer smid num_threads num_warps gdc_wait gdc_launch_dependents libdevice
    """,
    "triton.language.extra.hip": "memrealtime smid num_threads num_warps libdevice",
    "triton.testing": """
        do_bench do_bench_cudagraph do_bench_proton assert_close perf_report Benchmark
        get_dram_gbps get_max_tensorcore_tflops get_max_simd_tflops set_gpu_clock nvsmi
        cuda_memcheck
    """,
    "triton.knobs": """
        build cache redis compilation autotuning runtime language nvidia amd proton
    """,
    "triton.runtime": """
        Autotuner Heuristics JITFunction KernelInterface Config OutOfResources driver autotune
        heuristics
    """,
    "triton.compiler": "ASTSource CompiledKernel CompilationError compile",
    "triton.runtime.errors": "OutOfResources InterpreterError AutotunerError PTXASError",
    "triton.compiler.errors": """
        CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct
    """,
    "triton.backends.compiler": "GPUTarget",
    "triton.tools.tensor_descriptor": "TensorDescriptor",
}


@pytest.mark.parametrize("module", NAMES)
def test_modules_have_their_names(module: str) -> None:
    found = importlib.import_module(module)
    assert [n for n in NAMES[module].split() if not hasattr(found, n)] == []


@pytest.mark.parametrize("name", DTYPES.split())
def test_dtypes_answer_every_question(name: str) -> None:
    t = getattr(tl, name)
    assert eval(repr(t), {"triton": triton}) is t
    for attribute in "name primitive_bitwidth itemsize scalar codegen_name cache_key_part".split():
        assert getattr(t, attribute) is not None
    for question in """
        is_block is_bf16 is_bool is_const is_floating is_fp8 is_fp16 is_fp32 is_fp64 is_fp8e4b15
        is_fp8e4b8 is_fp8e4nv is_fp8e5 is_fp8e5b16 is_int is_int1 is_int8 is_int16 is_int32 is_int64
        is_int_signed is_int_unsigned is_ptr is_standard_floating is_uint8 is_uint16 is_uint32
        is_uint64 is_void
    """.split():
        assert getattr(t, question)() in (True, False)
    assert t.kind() is not None and t.mangle() and t.with_element_ty(tl.int8) is tl.int8
    if t.is_int():
        assert t.get_int_min_value() < t.get_int_max_value()
        assert t.int_bitwidth and t.int_signedness
    else:
        assert t.fp_mantissa_width and t.exponent_bias


def test_types_of_pointers_and_tiles_change_their_elements() -> None:
    pointer = tl.pointer_type(tl.float32, const=True)
    assert pointer.with_element_ty(tl.int8) == tl.pointer_type(tl.int8, const=True)
    tile = tl.block_type(tl.float32, [4, 8])
    assert tile.with_element_ty(tl.int8) == tl.block_type(tl.int8, [4, 8])
    assert tl.void.is_void() and not pointer.is_void()


@triton.jit
def members(out, names: tl.constexpr):
    x = tl.arange(0, 4)
    for i, name in enumerate(names):
        tl.store(out + i, hasattr(x, name))


def test_tensors_have_their_members() -> None:
    names = (*MEMBERS.split(), "to", "T", "shape", "dtype", "type", "numel")
    out = np.zeros(len(names), np.int32)
    members[(1,)](out, names)
    assert [n for n, found in zip(names, out, strict=True) if not found] == []


@triton.jit
def of_a_launch(out):
    cuda.gdc_wait()
    tl.store(out, cuda.num_warps())
    cuda.gdc_launch_dependents()


def test_what_launches_know() -> None:
    out = np.zeros(1, np.int32)
    of_a_launch[(1,)](out, num_warps=2)
    assert out[0] == 2


@triton.jit
def of_a_gpu(out):
    tl.store(out, cuda.smid())


def test_what_only_gpus_have_is_refused() -> None:
    with pytest.raises(triton.CompilationError, match="smid reads the number of a GPU's multi"):
        of_a_gpu[(1,)](np.zeros(1, np.int32))
    with pytest.raises(RuntimeError, match="get_dram_gbps: the bandwidth of a GPU"):
        triton.testing.get_dram_gbps()


def test_errors_derive_from_one() -> None:
    errors: Any = importlib.import_module("triton.compiler.errors")
    assert issubclass(errors.UnsupportedLanguageConstruct, errors.CompilationError)
    assert issubclass(errors.CompileTimeAssertionFailure, errors.CompilationError)
    assert issubclass(errors.CompilationError, triton.TritonError)
