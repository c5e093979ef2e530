"""Triton programs through the alias: what libraries touch beyond the language itself."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.compat.triton import install, installed, uninstall

torch = pytest.importorskip("torch")

install()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.language import load as renamed_load  # noqa: E402
from triton.runtime.autotuner import Autotuner  # noqa: E402
from triton.runtime.jit import JITFunction, KernelInterface  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

uninstall()

gather_rows = tl.sum
maximum = getattr(tl, "maximum", None)


@pytest.fixture(autouse=True)
def alias() -> Iterator[None]:
    install()
    yield
    uninstall()


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def arrays(n: int = 100) -> tuple[Any, Any]:
    return torch.arange(n, dtype=torch.float32), torch.zeros(n)


# -- modules and names


@pytest.mark.parametrize(
    "name", sorted(importlib.import_module("tegula.compat.triton.table").MODULES)
)
def test_every_module_imports_and_offers_its_names(name: str) -> None:
    module = importlib.import_module(name)
    for attribute in dir(module):
        if not attribute.startswith("_") and attribute != "aggregate":
            getattr(module, attribute)


def test_names_of_inner_modules() -> None:
    assert triton.language.core.constexpr is tl.constexpr
    assert triton.language.core.tensor is tl.tensor
    assert tl.core.get_int_dtype(32, True) == tl.int32
    assert tl.core.get_int_dtype(16, False) == tl.uint16
    assert tl.math.exp2 is tl.exp2 and tl.math.rsqrt is tl.rsqrt
    assert tl.standard.zeros_like is tl.zeros_like and tl.standard._log2(64) == 6
    assert tl.random.philox is tl.philox
    assert triton.runtime.errors.OutOfResources is triton.OutOfResources
    assert triton.compiler.errors.CompilationError is triton.CompilationError
    assert triton.compiler.compiler.CompiledKernel is tegula.CompiledKernel
    assert triton.backends.compiler.GPUTarget("cuda", 90, 32).arch == 90
    assert triton.next_power_of_2(33) == 64 and triton.cdiv(7, 2) == 4
    assert not hasattr(tl, "no_such_builtin")


@triton.jit
def inner_names(out, x, n, N: tl.constexpr):
    levels: tl.constexpr = tl.standard._log2(N)
    bits = tl.core.get_int_dtype(bitwidth=x.dtype.element_ty.primitive_bitwidth, signed=True)
    values = tl.load(x + tl.arange(0, N)).to(bits, bitcast=True)
    tl.store(out, tl.reduce(values, 0, tl.standard._elementwise_max))
    tl.store(out + 1, levels + n.to(tl.int64) + tl.core.CONSTEXPR_0)


@pytest.mark.parametrize("n", [1, 2])  # 1 is a constant in the kernel
def test_inner_names_in_kernels(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(8).astype(np.float32)
    out = np.zeros(2, np.int32)
    inner_names[(1,)](out, x, n, 8)
    assert out.tolist() == [x.view(np.int32).max(), 3 + n]


def test_version_is_found_in_every_way() -> None:
    assert triton.__version__ == "3.6.0"
    assert importlib.metadata.version("triton") == "3.6.0"
    assert importlib.util.find_spec("triton") is not None
    assert importlib.util.find_spec("triton.language.extra.cuda") is not None
    assert importlib.util.find_spec("triton.no_such_module") is None


def test_install_and_uninstall() -> None:
    install()
    assert installed()
    uninstall()
    assert not installed() and "triton" not in sys.modules
    sys.modules["triton"] = sys  # another one, already imported
    try:
        with pytest.raises(ImportError, match="already imported"):
            install()
    finally:
        del sys.modules["triton"]


def test_a_script_runs_unchanged(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import torch, triton
            import triton.language as tl

            @triton.jit
            def twice(x, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(x + i, 2 * tl.load(x + i))

            x = torch.ones(16)
            twice[(1,)](x, 16)
            print(triton.__version__, int(x.sum()), sys.argv[1:], __name__, repr(tl.float32))
            """
        )
    )
    command = [sys.executable, "-m", "tegula.compat.triton", str(script), "a", "-b"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3.6.0 32 ['a', '-b'] __main__ triton.language.float32"


# -- kernel objects


def test_attributes_of_kernels() -> None:
    assert type(copy) is triton.JITFunction is triton.runtime.JITFunction is JITFunction
    assert isinstance(copy, KernelInterface)
    block = copy.params[3]
    assert (block.num, block.name, block.is_constexpr) == (3, "BLOCK", True)
    assert not block.do_not_specialize and not copy.params[2].has_default
    assert copy.arg_names == ["x", "y", "n", "BLOCK"]
    assert list(copy.signature.parameters) == copy.arg_names
    assert copy.src.startswith("def copy(")
    assert copy.__name__ == "copy" and copy.__module__ == __name__
    assert copy.fn.__globals__ is copy.__globals__ is globals()
    assert len(copy.cache_key) >= 32


def test_relaunch_takes_all_arguments_or_the_runtime_ones() -> None:
    x, y = arrays()
    compiled = copy.run(x, y, 100, BLOCK=64, grid=(2,), warmup=False)
    assert torch.equal(x, y)
    for args in ((x, y, 100, 64), (x, y, 100)):
        y.zero_()
        compiled[(2, 1, 1)](*args)
        assert torch.equal(x, y)
    with pytest.raises(TypeError, match="3 runtime arguments"):
        compiled[(2, 1, 1)](x, y)


def test_warmup_compiles_and_its_result_launches() -> None:
    x, y = arrays()
    compiled = copy.warmup(torch.float32, torch.float32, 100, BLOCK=64, grid=(1,))
    compiled[(2, 1, 1)](x, y, 100, 64)
    assert torch.equal(x, y)
    assert compiled.metadata.num_warps == 4 and compiled.metadata.name == "copy"
    compiled._init_handles()
    assert compiled.metadata.shared == compiled.n_regs == compiled.n_spills == 0
    assert compiled.n_max_threads >= 1
    assert copy.run(x, y, 100, 64, grid=(2,), warmup=True) is not None


def test_source_that_a_generator_edits() -> None:
    @triton.jit
    def scale(x):
        tl.store(x, tl.load(x) * 2)

    x = torch.ones(1)
    scale[(1,)](x)
    scale._unsafe_update_src(scale.src.replace("* 2", "* 10"))
    scale[(1,)](x)
    assert x.item() == 20


def test_kernels_from_a_generated_file(tmp_path: Path) -> None:
    path = tmp_path / "generated_kernel.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n"
        f"@triton.jit\ndef fill(x, D: tl.constexpr = {tl.float32!r}):\n"
        "    tl.store(x, tl.full((), 3, D))\n"
    )
    spec = importlib.util.spec_from_file_location("generated_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.zeros(1)
    module.fill[(1,)](x)
    assert x.item() == 3


# -- arguments


class OnlyPointer:
    """What libraries pass for views of memory: an address and a dtype."""

    def __init__(self, tensor: Any, offset: int = 0) -> None:
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.offset = offset

    def data_ptr(self) -> int:
        return int(self.tensor.data_ptr() + self.offset)


def test_objects_with_only_an_address_and_a_dtype() -> None:
    @triton.jit
    def backwards(x, y, stride, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i * stride, mask=i < n), mask=i < n)

    x, y = arrays(8)
    backwards[(1,)](OnlyPointer(x, 7 * 4), OnlyPointer(y), -1, 8, 8)
    assert torch.equal(y, x.flip(0))


def test_kinds_of_arguments() -> None:
    @triton.jit
    def kinds(y, nothing, flag, scale, D: tl.constexpr, t, other):
        value = scale.to(D)
        if nothing is None:
            value += 1
        if flag:
            value += t[0] + t[1][0]
        tl.static_assert(D.is_fp32())
        tl.store(y, other(value))

    y = torch.zeros(1)
    kinds[(1,)](y, None, True, 0.5, tl.float32, (2, (3.0,)), doubled)
    assert y.item() == 13


@triton.jit
def doubled(x):
    return x * 2


def test_descriptors_whose_block_a_config_sets() -> None:
    def set_block(args: dict[str, Any]) -> None:
        args["source"].block_shape = [args["M"], args["N"]]

    @triton.autotune([triton.Config({"M": 4, "N": 8}, pre_hook=set_block)], key=[])
    @triton.jit
    def read(source, y, M: tl.constexpr, N: tl.constexpr):
        block = source.load([0, 0])
        tl.store(y + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], block)

    x = torch.arange(32.0).reshape(4, 8)
    y = torch.zeros(4, 8)
    descriptor = TensorDescriptor.from_tensor(x, [1, 4], padding="nan")
    read[(1,)](descriptor, y)
    assert torch.equal(x, y)
    assert tuple(descriptor.block_shape) == (4, 8)


settings = types.ModuleType("settings")


def test_members_of_modules_are_constants_whatever_they_are() -> None:
    @triton.jit
    def limits(y):
        tl.store(y, -torch.finfo(torch.float16).max)
        tl.store(y + 1, settings.SCALE)

    settings.SCALE = 3
    y = torch.zeros(2)
    limits[(1,)](y)
    assert y.tolist() == [-65504, 3]
    settings.SCALE = 5  # known to the key of the compiled code
    limits[(1,)](y)
    assert y.tolist() == [-65504, 5]


@triton.jit
def constant_mask(D: tl.constexpr):
    mask = tl.full((1,), 0xF0 if tl.int32 == D else 0x0F, D)
    mask = tl.constexpr(mask)
    return mask


def test_a_tensor_in_constexpr_stays_a_tensor() -> None:
    @triton.jit
    def masked(y, D: tl.constexpr):
        tl.store(y + tl.arange(0, 4), (tl.arange(0, 4) + 254) & constant_mask(D))

    y = torch.zeros(4, dtype=torch.int32)
    masked[(1,)](y, tl.int32)
    assert y.tolist() == [240, 240, 0, 0]


def test_builtins_under_other_names_and_by_version() -> None:
    major, minor = map(int, triton.__version__.split(".")[:2])
    name = "maximum" if (major, minor) >= (3, 0) else "max"
    chosen = getattr(tl, name)

    @triton.jit
    def reduce(x, y, BLOCK: tl.constexpr):
        row = renamed_load(x + tl.arange(0, BLOCK))
        tl.store(y, gather_rows(chosen(maximum(row, 1.0), 2.0), axis=0))

    x, y = arrays(4)
    reduce[(1,)](x, y, 4)
    assert y[0].item() == 2 + 2 + 2 + 3


def test_device_functions_of_modules_without_the_language(tmp_path: Path) -> None:
    (tmp_path / "plain_helpers.py").write_text(
        "import triton\n@triton.jit\ndef plus(a, b):\n    return a + b\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        helpers = importlib.import_module("plain_helpers")
    finally:
        sys.path.remove(str(tmp_path))

    @triton.jit
    def add(x, y):
        tl.store(y, helpers.plus(tl.load(x + 1), 4))

    x, y = arrays(4)
    add[(1,)](x, y)
    assert y[0].item() == 5


def test_reinterpreted_tensors() -> None:
    x = torch.tensor([-1, 1], dtype=torch.int32)
    wrapped = triton.reinterpret(x, tl.uint32)
    assert isinstance(wrapped, triton.TensorWrapper) and wrapped.base is x
    assert triton.reinterpret(wrapped, torch.int32) is x

    @triton.jit
    def widen(x, y):
        tl.store(y, tl.load(x).to(tl.int64))

    y = torch.zeros(1, dtype=torch.int64)
    widen[(1,)](wrapped, y)
    assert y.item() == 2**32 - 1


def test_stand_ins_for_tensors() -> None:
    kernel = copy.warmup(
        triton.MockTensor(torch.float16), triton.MockTensor.wrap_dtype(torch.float16), 5, 16,
        grid=(1,),
    )  # fmt: skip
    assert kernel.request.types["x"].elem.name == "f16"


# -- options


def test_options_of_other_backends_are_accepted_and_misspelt_ones_are_not() -> None:
    x, y = arrays()
    copy[(2,)](x, y, 100, 64, num_warps=8, num_stages=2, waves_per_eu=1, launch_pdl=True)
    assert torch.equal(x, y)
    with pytest.raises(KeyError, match="num_wraps"):
        copy[(2,)](x, y, 100, 64, num_wraps=8)


# -- wrappers


def test_wrappers_in_any_order() -> None:
    def body(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

    kernel = triton.jit(body)
    tune = triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], ["n"])
    compute = triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    fixed = triton.heuristics({"BLOCK": lambda args: 16})
    for wrapped in (tune(compute(kernel)), fixed(compute(kernel)), compute(fixed(kernel))):
        x, y = arrays()
        if wrapped.fn is not kernel and type(wrapped).__name__ == "Heuristics":
            wrapped.run(x, y, 100, grid=lambda m: (triton.cdiv(100, 16),), warmup=False, BLOCK=16)
        else:
            wrapped[lambda m: (triton.cdiv(100, m["BLOCK"]),)](x, y, 100)
        assert torch.equal(x, y)
        assert isinstance(wrapped, KernelInterface) and wrapped.base_fn is body
        assert wrapped.arg_names == kernel.arg_names


def test_tuners_of_libraries_derive_from_autotuner() -> None:
    class Counting(Autotuner):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.benched: list[Any] = []
            self.seen: list[Any] = []

        def run(self, *args: Any, **kwargs: Any) -> Any:
            self.seen.append(self.nargs)
            return super().run(*args, **kwargs)

        def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
            assert self.nargs is not None and self.nargs["n"] == 100
            self.benched.append(config)
            return super()._bench(*args, config=config, **meta)

        def prune_configs(self, kwargs: Any) -> Any:
            return super().prune_configs(kwargs)[:2]

    configs = [triton.Config({"BLOCK": n}) for n in (16, 32, 64)]
    tuner = Counting(
        copy, copy.arg_names, configs, ["n"], None, None, None, None, None, 1, 2, False
    )
    x, y = arrays()
    for _ in range(2):
        tuner[lambda m: (triton.cdiv(100, m["BLOCK"]),)](x, y, 100)
    assert torch.equal(x, y)
    assert tuner.benched == configs[:2] and tuner.nargs is None
    assert list(tuner.cache) == [(100, "torch.float32", "torch.float32")]
    assert tuner.best_config in configs[:2] and tuner.keys == ["n"] and tuner.fn is copy
    assert set(tuner.configs_timings) == set(configs[:2]) and tuner.bench_time > 0


def test_wrappers_of_libraries_derive_from_kernel_interface() -> None:
    class Twice(KernelInterface):
        def __init__(self, fn: Any) -> None:
            self.fn = fn
            self.arg_names = fn.arg_names

        def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            assert not warmup
            self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)
            return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)

    @triton.jit
    def bump(x):
        tl.store(x, tl.load(x) + 1)

    x = torch.zeros(1)
    Twice(bump)[(1,)](x)
    assert x.item() == 2


def test_configurations() -> None:
    config = triton.Config({"BLOCK": 64}, num_warps=8, num_stages=2)
    assert config.kwargs == {"BLOCK": 64}
    assert (config.num_warps, config.num_stages, config.num_ctas, config.maxnreg) == (8, 2, 1, None)
    assert config.all_kwargs() == {"BLOCK": 64, "num_warps": 8, "num_stages": 2, "num_ctas": 1}
    assert config == triton.Config({"BLOCK": 64}, 8, 2) != triton.Config({"BLOCK": 64})
    assert config.pre_hook is None
    assert "BLOCK: 64" in str(config)


# -- the runtime


def test_the_active_driver() -> None:
    with tegula.use_device("cpu"):  # though a GPU be there
        driver = triton.runtime.driver.active
        target = driver.get_current_target()
        assert target.backend == "cpu" and hasattr(torch, target.backend) and target.arch
        assert driver.get_current_device() == 0
        assert driver.get_active_torch_device() == torch.device("cpu")
        properties = driver.utils.get_device_properties(0)
        assert properties["multiprocessor_count"] >= 1 and properties["warpSize"] >= 1
        assert properties["max_shared_mem"] > 0 and properties["max_num_regs"] > 0
        times = driver.get_benchmarker()(lambda: None, quantiles=(0.5, 0.2, 0.8))
        assert len(times) == 3
        driver.clear_cache(driver.get_empty_cache_for_benchmark())
        driver.get_device_interface().synchronize()


def test_targets_inside_of_kernels() -> None:
    @triton.jit
    def ask(y):
        if tl.target_info.is_cuda():
            tl.store(y, 1)
        else:
            tl.store(y, 2)

    y = torch.zeros(1)
    ask[(1,)](y)
    assert y.item() == 2


def test_allocators_are_taken() -> None:
    from triton.runtime._allocation import NullAllocator

    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
    triton.set_allocator(NullAllocator())


def test_compiling_from_a_signature() -> None:
    source = triton.compiler.ASTSource(
        copy,
        {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        {(3,): 64},
        {(0,): [["tt.divisibility", 16]]},
    )
    compiled = triton.compile(source, options={"num_warps": 4})
    x, y = arrays()
    compiled[(2, 1, 1)](x, y, 100, 64)
    assert torch.equal(x, y)
    assert compiled.request.attrs["x"] == {"divisible": 16} and "y" not in compiled.request.attrs
    with pytest.raises(RuntimeError, match="no backend 'acme'"):
        triton.compile(source, target=triton.backends.compiler.GPUTarget("acme", 90, 32))


def test_errors_of_kernels_are_the_aliases() -> None:
    @triton.jit
    def wrong(x):
        tl.static_assert(False, "no good")

    with pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure, match="no good"):
        wrong[(1,)](torch.zeros(1))
    with pytest.raises(triton.TritonError):
        wrong[(1,)](torch.zeros(1))
    with pytest.raises(triton.CompilationError):
        wrong[(1,)](torch.zeros(1))


# -- knobs


def test_knobs_read_and_set_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = triton.knobs
    monkeypatch.delenv("TRITON_PRINT_AUTOTUNING", raising=False)
    assert knobs.autotuning.print is False
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "on")
    assert knobs.autotuning.print is True
    monkeypatch.delenv("TRITON_PRINT_AUTOTUNING")
    with knobs.autotuning.scope():
        knobs.autotuning.print = True
        assert __import__("os").environ["TRITON_PRINT_AUTOTUNING"] == "1"
        assert tegula.config.config.print_tuning is True
    assert "TRITON_PRINT_AUTOTUNING" not in __import__("os").environ
    assert tegula.config.config.print_tuning is False


def test_knobs_copy_reset_and_list() -> None:
    class group(triton.knobs.base_knobs):
        name = triton.knobs.env_str("TEGULA_TEST_NAME", "a")
        count = triton.knobs.env_int("TEGULA_TEST_COUNT", 1)

    first = group()
    with first.scope():
        first.count = 5
        second = first.copy()
        assert second.knobs == {"name": "a", "count": 5}
    assert first.knobs == {"name": "a", "count": 1}


def test_interpreter_by_knob() -> None:
    x, y = arrays()
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.interpret = True
        compiled = copy[(2,)](x, y, 100, 64)
    assert compiled.metadata.backend == "interpreter" and torch.equal(x, y)
    assert copy[(2,)](x, y, 100, 64).metadata.backend != "interpreter" or not np.any(y.numpy())


@triton.jit
def uses_unknown(x):
    return x + unknown_name  # noqa: F821


def test_places_of_errors_are_counted_from_def_and_calls_are_chained() -> None:
    @triton.jit
    def outer(x):
        # the call is on the third line
        tl.store(x, uses_unknown(1.0))

    with pytest.raises(triton.CompilationError) as caught:
        outer[(1,)](torch.zeros(1))
    assert "at 3:16:" in str(caught.value) and "tests/compat/test_triton.py" in str(caught.value)
    inner = caught.value.__cause__
    assert isinstance(inner, triton.CompilationError) and "at 2:15:" in str(inner)
    assert "unknown_name" in str(inner) and inner.__cause__ is None
    uninstall()
    with pytest.raises(triton.CompilationError) as caught:
        outer[(1,)](torch.zeros(1))
    assert "at 3:" not in str(caught.value) and len(caught.value.frames) == 2


def test_hooks_of_knobs_are_told_about_compilations() -> None:
    told: list[dict[str, Any]] = []
    copy.forget()
    x, y = arrays()
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.jit_cache_hook = lambda **what: told.append(what)
        triton.knobs.runtime.jit_post_compile_hook = lambda **what: told.append(what)
        copy[(2,)](x, y, 100, 64)
        copy[(2,)](x, y, 100, 64)
    assert len(told) == 2 and told[0]["fn"].jit_function is copy
    assert told[0]["compile"]["signature"]["x"] == "ptr<f32>" and not told[0]["is_manual_warmup"]
    copy.device_caches[0][0].clear()
    again = copy.preload(told[1]["compile"]["specialization_data"])
    assert again.hash == copy.warmup(x, y, 100, 64, grid=(1,)).hash


def test_listeners_of_knobs_are_told_about_tuning() -> None:
    told: list[dict[str, Any]] = []
    kernel = triton.autotune(
        [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], ["n"],
        do_bench=lambda run, quantiles: [1.0],
    )(copy)  # fmt: skip
    with triton.knobs.autotuning.scope():
        triton.knobs.autotuning.listener = lambda **what: told.append(what)
        kernel[(4,)](*arrays(), 100)
    assert told[0]["fn"] is copy and told[0]["best_config"] is kernel.best_config


def test_hooks_of_knobs_are_told_about_launches_and_loading() -> None:
    def describe(grid: Any, metadata: Any, args: dict[str, Any]) -> dict[str, Any]:
        return {"grid": grid, "value": args["n"], "warps": metadata.num_warps}

    @triton.jit(launch_metadata=describe)
    def scale(x, n):
        tl.store(x, tl.load(x) * n)

    told: list[Any] = []

    def enter(metadata: Any) -> None:
        told.append(metadata.get())

    def loaded(module: Any, function: Any, name: str, group: Any, hash: str) -> None:
        told.append(name)

    runtime = triton.knobs.runtime
    x = torch.ones(1)
    runtime.kernel_load_start_hook.add(loaded)
    scale[(1,)](x, 3)
    runtime.kernel_load_start_hook.remove(loaded)
    assert told == ["scale"]
    runtime.launch_enter_hook.add(enter)
    scale[(1,)](x, 3)
    runtime.launch_enter_hook.remove(enter)
    scale[(1,)](x, 3)
    assert x.item() == 27 and len(told) == 2
    assert told[1] == {
        "name": "scale", "function": None, "stream": 0, "grid": (1, 1, 1), "value": 3, "warps": 4,
    }  # fmt: skip
    with runtime.scope():
        runtime.launch_exit_hook = enter
        scale[(1,)](x, 3)
    scale[(1,)](x, 3)
    assert len(told) == 3


FUNCTIONS = "tanh exp10 log10 log1p expm1 tan sinh cosh asinh acosh atanh round trunc rint".split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_device_libraries(name: str) -> None:
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as cuda

    assert getattr(cuda, name) is getattr(libdevice, name)
    function = getattr(libdevice, name)

    @triton.jit
    def apply(x, y, n: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(y + i, function(tl.load(x + i)))

    low, high = {"acosh": (1, 9), "atanh": (-1, 1), "log10": (0.1, 9), "log1p": (-0.9, 9)}.get(
        name, (-9, 9)
    )
    x = torch.linspace(low, high, 64)
    x[0], x[1] = (1.0, 2.0) if name == "acosh" else (0.0, 1e-4) if name != "log10" else (1.0, 2.0)
    y = torch.empty(64)
    apply[(1,)](x, y, 64)
    reference = {"exp10": lambda v: 10**v, "rint": torch.round}.get(name) or getattr(torch, name)
    wanted = reference(x.double())
    if name == "round":
        wanted = torch.sign(x) * torch.floor(x.abs() + 0.5)
    torch.testing.assert_close(y.double(), wanted.double(), rtol=3e-7, atol=0)


def test_powers_and_signs_of_device_libraries() -> None:
    from triton.language.extra import libdevice

    @triton.jit
    def apply(x, y, out, n: tl.constexpr):
        i = tl.arange(0, n)
        a, b = tl.load(x + i), tl.load(y + i)
        tl.store(out + i, libdevice.pow(a, b))
        tl.store(out + n + i, libdevice.copysign(a, b))
        tl.store(out + 2 * n + i, tl.math.tanh(b))
        tl.store(out + 3 * n + i, libdevice.isnan(a) + 2 * libdevice.isinf(b))

    inf, nan = float("inf"), float("nan")
    x = torch.tensor([2.0, -2.0, -2.0, -2.0, 0.0, -0.0, -1.0, nan])
    y = torch.tensor([0.5, 3.0, 2.0, 0.5, -1.0, -3.0, inf, 0.0])
    out = torch.empty(4, 8)
    apply[(1,)](x, y, out, 8)
    assert torch.allclose(out[0], torch.pow(x, y), equal_nan=True)
    assert torch.equal(out[1].nan_to_num(), torch.copysign(x, y).nan_to_num())
    assert torch.allclose(out[2], torch.tanh(y))
    assert out[3].tolist() == [0, 0, 0, 0, 0, 0, 2, 1]


def test_bits_and_conversions_of_device_libraries() -> None:
    from triton.language.extra import libdevice

    @triton.jit
    def count(x, out, n: tl.constexpr):
        i = tl.arange(0, n)
        a = tl.load(x + i)
        tl.store(out + i, libdevice.popc(a))
        tl.store(out + n + i, libdevice.clz(a))
        tl.store(out + 2 * n + i, libdevice.ffs(a))

    for dtype, bits in ((torch.int32, 32), (torch.int64, 64)):
        values = [0, 1, -1, 40, -(1 << (bits - 1)), 12345, (1 << (bits - 1)) - 1, 6]
        x, out = torch.tensor(values, dtype=dtype), torch.empty(3, 8, dtype=torch.int32)
        count[(1,)](x, out, 8)
        patterns = [v & ((1 << bits) - 1) for v in values]
        assert out[0].tolist() == [p.bit_count() for p in patterns]
        assert out[1].tolist() == [bits - p.bit_length() for p in patterns]
        assert out[2].tolist() == [(p & -p).bit_length() for p in patterns]

    @triton.jit
    def convert(x, out, n: tl.constexpr):
        i = tl.arange(0, n)
        a = tl.load(x + i)
        tl.store(out + i, libdevice.float2int_rd(a))
        tl.store(out + n + i, libdevice.float2int_ru(a))
        tl.store(out + 2 * n + i, libdevice.float2ll_rn(a))
        tl.store(out + 3 * n + i, libdevice.float2int_rz(a))

    x, out = torch.tensor([1.5, -1.5, 2.5, -0.2]), torch.empty(4, 4, dtype=torch.int64)
    convert[(1,)](x, out, 4)
    assert out.tolist() == [[1, -2, 2, -1], [2, -1, 3, 0], [2, -2, 2, 0], [1, -1, 2, 0]]


@triton.jit
def choose(x, larger: tl.constexpr):
    if larger:
        x = x + 1
    return x


def test_functions_may_get_runtime_values_for_constants() -> None:
    @triton.jit
    def loop(y):
        total = 0.0
        for i in range(4):
            total = choose(total, i > 1)
        tl.store(y, total)

    y = torch.zeros(1)
    loop[(1,)](y)
    assert y.item() == 2
