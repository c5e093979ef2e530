"""How programs written for Triton know devices and targets; no GPU is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tegula
import tegula.ir as ir
import tegula.language as tl
from tegula.compat.triton import driver, environment, target_info, vendor
from tegula.compat.triton.compiler import ASTSource, GPUTarget, compile
from tegula.config import config
from tegula.errors import CompilationError, OptionError
from tegula.ir.types import Pointer
from tegula.plugin import Target, TritonTarget, select
from tegula.plugin.registry import registry
from tegula.runtime import compiler

torch = pytest.importorskip("torch")


@tegula.jit
def readings(times, places, threads):
    tl.store(times, vendor.globaltimer())
    tl.store(places + tl.program_id(0), vendor.smid())
    tl.store(threads + tl.arange(0, vendor.num_threads()), vendor.num_warps())


@tegula.jit
def asks(y):
    if target_info.cuda_capability_geq(9, 0):
        tl.store(y, 90)
    elif target_info.is_cuda():
        tl.store(y, 1)
    else:
        tl.store(y, 2)


def compiled(kernel: Any, target: Target, types: dict[str, Any], **options: Any) -> Any:
    """An artifact of a kernel for any target."""
    backend = registry.backend(target.backend)
    context = backend.context(target, options)
    request = compiler.Request(
        fn=kernel, types=types, constants={}, attrs={name: {} for name in types},
        context=context, backend=backend, name=kernel.fn.__name__,
    )  # fmt: skip
    return compiler._compile(request, compiler.Timing())


@pytest.fixture
def gpu() -> Target:
    """The target of an H200."""
    pytest.importorskip("tegula_cuda")
    from tegula_cuda.target import resolve

    return resolve("sm_90a")


def test_a_gpu_is_known_by_its_capability(gpu: Target) -> None:
    assert target_info.gpu_target(gpu) == GPUTarget("cuda", 90, 32)


def test_the_host_is_known_as_torch_knows_it() -> None:
    target = registry.backend("cpu").info(0).target
    assert target_info.gpu_target(target) == GPUTarget("cpu", target.arch, 32)


def test_kernels_ask_for_the_target_that_they_are_compiled_for(gpu: Target) -> None:
    y = {"y": Pointer(ir.i32)}
    with config.scope(ptxas="driver"):
        assert ", 90;" in compiled(asks, gpu, y).data.decode()
    out = torch.zeros(1, dtype=torch.int32)
    asks[(1,)](out)
    assert out.item() == 2


def test_kernels_read_clocks_and_places_of_a_gpu(gpu: Target) -> None:
    types = {"times": Pointer(ir.i64), "places": Pointer(ir.i32), "threads": Pointer(ir.i32)}
    with config.scope(ptxas="driver"):
        ptx = compiled(readings, gpu, types, num_warps=8).data.decode()
    assert ptx.count("%globaltimer") == 1 and ptx.count("%smid") == 1
    assert ".reqntid 256" in ptx and "st.global.b32" in ptx


@pytest.mark.parametrize("name", ["globaltimer", "smid", "num_threads", "memrealtime"])
def test_other_devices_say_that_they_have_none(name: str) -> None:
    read = getattr(vendor, name)

    @tegula.jit
    def kernel(x):
        tl.store(x, read())

    with pytest.raises(CompilationError, match=f"{name} reads .*, which this target does not tell"):
        kernel[(1,)](torch.zeros(1, dtype=torch.int64))


class FakeTorch:
    """Torch with a device type that some backend of these tests claims to work on."""

    def __init__(self, there: bool) -> None:
        self.acme = SimpleNamespace(is_available=lambda: there, current_device=lambda: 0)


@pytest.mark.parametrize("there", [True, False])
def test_the_device_of_the_moment_is_one_that_torch_can_use(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = registry.backend("cpu")
    spec = SimpleNamespace(name="acme", driver="a:B", torch="acme", dlpack=(99,))
    acme = SimpleNamespace(name="acme", spec=spec, available=True, priority=50)
    monkeypatch.setattr(select, "_candidates", lambda: [acme, cpu])
    monkeypatch.setattr(
        select,
        "_named",
        lambda device, why: select.Selection(
            acme if device.backend == "acme" else cpu, device, why
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(there))
    active = driver.ActiveDriver()
    assert active._torch_type() == ("acme" if there else "cpu")
    assert active.get_current_device() == 0
    with tegula.use_device("cpu"):
        assert active._torch_type() == "cpu"


def test_a_backend_may_say_how_its_targets_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = registry.backend("cpu")
    known = TritonTarget("acme", 7, 16, {"smid": ("read $0", "=r", "i32")})
    monkeypatch.setattr(cpu.compiler, "triton", lambda target: known, raising=False)
    assert target_info.gpu_target(cpu.info(0).target) == GPUTarget("acme", 7, 16)


def test_warps_that_are_no_power_of_two(gpu: Target) -> None:
    for kind in (AssertionError, OptionError):
        with pytest.raises(kind, match="must be a power of 2"):
            registry.backend("cuda").context(gpu, {"num_warps": 3})


# -- settings


@tegula.jit
def fused(x):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.load(x + i) * tl.load(x + 16 + i) + tl.load(x + 32 + i))


def test_defaults_of_options_by_variables() -> None:
    row = torch.full((16,), 1 + 2.0**-12)
    x = torch.cat([row, row, torch.full((16,), -1 - 2.0**-11)])
    results, precisions = [], []
    try:
        for fusion, precision in ((None, None), ("0", "tf32"), ("1", "ieee")):
            environment.changed("TRITON_DEFAULT_FP_FUSION", fusion)
            environment.changed("TRITON_F32_DEFAULT", precision)
            y = x.clone()
            made = fused[(1,)](y)
            results.append(y[0].item())
            precisions.append(made.metadata.default_dot_precision)
        made = fused[(1,)](y, default_dot_precision="tf32x3")
    finally:
        environment.changed("TRITON_DEFAULT_FP_FUSION", None)
        environment.changed("TRITON_F32_DEFAULT", None)
    assert results == [0, 0, 2.0**-24]
    assert precisions == ["ieee", "tf32", "ieee"]
    assert made.metadata.default_dot_precision == "tf32x3"


def test_the_backend_of_the_moment_is_the_one_that_is_listed() -> None:
    from tegula.compat.triton.backends import backends

    (name,) = backends
    assert name == driver.active.get_current_target().backend
    assert backends[name].driver.is_active() and len(backends) == 1
    assert "acme" not in backends


def test_tools_are_found_by_their_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tegula.compat.triton import knobs

    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.9, V12.9.41\n")
    tool.chmod(0o700)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tool))
    assert (knobs.nvidia.ptxas.path, knobs.nvidia.ptxas.version) == (str(tool), "12.9")
    monkeypatch.setenv("TRITON_NVDISASM_PATH", str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="Cannot find nvdisasm"):
        _ = knobs.nvidia.nvdisasm


@tegula.jit
def double(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i))


def test_kernels_are_compiled_for_targets_without_a_device(gpu: Target) -> None:
    source = ASTSource(double, {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 128})
    with config.scope(ptxas="driver"):
        for arch, name in ((80, "sm_80"), (90, "sm_90a"), (100, "sm_100a")):
            made = compile(source, GPUTarget("cuda", arch, 32), {"num_warps": 2})
            assert f".target {name}\n" in made.asm["ptx"] and made.metadata.num_warps == 2
    with pytest.raises(RuntimeError, match="backend 'cuda' has no target 10; it has .*90.*100"):
        compile(source, GPUTarget("cuda", 10, 32))
    with pytest.raises(RuntimeError, match="no backend 'acme' is installed"):
        compile(source, GPUTarget("acme", 10, 32))


def test_the_device_of_the_moment_is_a_target_too() -> None:
    source = ASTSource(double, {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 16})
    with tegula.use_device("cpu"):
        made = compile(source, driver.active.get_current_target())
        x, y = torch.ones(16), torch.zeros(16)
        made[(1, 1, 1)](x, y, 16)
    assert y.tolist() == [2] * 16
