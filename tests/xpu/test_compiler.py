"""Compilation for every kind of device, none of which has to be there."""

from __future__ import annotations

import pytest
from xpu.validation import validate

from tegula.errors import CompilationError, OptionError, OutOfResources
from tegula.ir import parse_module
from tegula.plugin import UnsupportedError
from tegula.plugin.registry import registry
from tegula.tools.selftest import KERNEL

pytestmark = pytest.mark.skipif("xpu" not in registry.names(), reason="tegula-xpu is missing")

REDUCE = """
kernel @sums(%x: ptr<const f16> {divisible = 16}, %o: ptr<f32>, %n: i32) {
  %i = arange {start = 0, end = 96} : i32[96]
  %j = expand_dims %i {axis = 0} : i32[1,96]
  %k = broadcast %j {shape = [8, 96]} : i32[8,96]
  %p = splat %x {shape = [8, 96]} : ptr<const f16>[8,96]
  %q = addptr %p, %k : ptr<const f16>[8,96]
  %v = load %q : f16[8,96]
  %w = cast %v {to = f32} : f32[8,96]
  %y = neg %w : f32[8,96]
  %s = reduce [%y] {axis = 1} : f32[8] combine(%a: f32, %b: f32) {
    %c = add %a, %b : f32
    yield [%c]
  }
  %r = arange {start = 0, end = 8} : i32[8]
  %op = splat %o {shape = [8]} : ptr<f32>[8]
  %oq = addptr %op, %r : ptr<f32>[8]
  store %oq, %s
  return
}
"""
ATOMIC = """
kernel @count(%x: ptr<{t}>, %v: {t}) {{
  %old = atomic_rmw %x, %v {{kind = "{kind}"}} : {t}
  return
}}
"""

SWAP = """
kernel @swap(%x: ptr<const f32> {divisible = 16}, %o: ptr<f32> {divisible = 16}) {
  %i = arange {start = 0, end = 65536} : i32[65536]
  %p = splat %x {shape = [65536]} : ptr<const f32>[65536]
  %q = addptr %p, %i : ptr<const f32>[65536]
  %v = load %q : f32[65536]
  %m = reshape %v {shape = [256, 256]} : f32[256,256]
  %t = permute %m {dims = [1, 0]} : f32[256,256]
  %f = reshape %t {shape = [65536]} : f32[65536]
  %po = splat %o {shape = [65536]} : ptr<f32>[65536]
  %qo = addptr %po, %i : ptr<f32>[65536]
  store %qo, %f
  return
}
"""
"""A tile of 256 KiB that has to change its layout."""


def compiler():
    return registry.backend("xpu").compiler


def compiled(text: str, target, **options):
    from tegula.conformance.session import compile_module

    return compile_module(registry.backend("xpu"), target, parse_module(text), options)


def targets():
    from tegula_xpu.target import ARCHITECTURES, resolve

    return [resolve(f"{arch}/{size}") for arch, a in ARCHITECTURES.items() for size in a.subgroups]


@pytest.mark.parametrize("text", [KERNEL, REDUCE], ids=["axpy", "reduce"])
def test_modules_for_all_targets_are_valid(text, tmp_path):
    for target in targets():
        artifact = compiled(text, target, num_warps=4)
        assert artifact.kind == "spirv"
        assert artifact.metadata["threads"] == 4 * target["subgroup"]
        validate(artifact.data, tmp_path)
        validate(compiled(text, target).data, tmp_path)


@pytest.mark.parametrize(
    "t, kind",
    [("i8", "add"), ("u16", "max"), ("i64", "min"), ("f16", "add"), ("bf16", "max"), ("f32", "add"),
     ("f64", "min"), ("f8e5", "add"), ("f32", "xchg")],
)  # fmt: skip
def test_atomics_of_all_widths_are_valid(t, kind, tmp_path):
    from tegula_xpu.target import resolve

    validate(compiled(ATOMIC.format(t=t, kind=kind), resolve("xe-hpc")).data, tmp_path)


def test_modules_of_one_process_do_not_disturb_each_other(tmp_path):
    """LLVM's SPIR-V target gives later modules of a process the numbers of earlier ones."""
    from tegula_xpu.target import resolve

    target = resolve("cpu")
    first = compiled(REDUCE, target).data
    for _ in range(4):
        validate(compiled(KERNEL, target).data, tmp_path)
        assert compiled(REDUCE, target).data == first


def test_what_llvm_refuses_is_an_error_and_not_the_end():
    from tegula_xpu import spirv

    with pytest.raises(CompilationError, match="128 bits|width"):
        spirv.assemble(
            "define spir_kernel void @k(ptr addrspace(1) %x) {\n"
            "  %a = load i128, ptr addrspace(1) %x\n  %b = add i128 %a, 1\n"
            "  store i128 %b, ptr addrspace(1) %x\n  ret void\n}\n"
        )
    assert spirv.assemble("define spir_kernel void @k() {\n  ret void\n}\n")


def test_names_of_targets():
    from tegula_xpu.target import resolve

    assert resolve("xe2/32")["subgroup"] == 32
    with pytest.raises(OptionError, match=r"no target 'xe3'.*xe2"):
        resolve("xe3")
    with pytest.raises(OptionError, match="subgroups of xe2 have 16, 32"):
        resolve("xe2/8")


@pytest.mark.parametrize(
    "name, arch",
    [("Intel(R) Data Center GPU Max 1550", "xe-hpc"), ("Intel(R) Arc(TM) B580 Graphics", "xe2"),
     ("Intel(R) Arc(TM) A770 Graphics", "xe-hpg"), ("Intel(R) Arc(TM) 140V GPU (16GB)", "xe2"),
     ("Intel(R) Arc(TM) Graphics", "xe-lpg"), ("Intel(R) UHD Graphics 770", "xe")],
)  # fmt: skip
def test_architectures_by_the_names_of_devices(name, arch):
    from tegula_xpu.target import architecture_of

    assert architecture_of(name, False) == arch
    assert architecture_of(name, True) == "cpu"


def test_a_device_without_fp64_says_so():
    from tegula_xpu.target import resolve

    capabilities = compiler().capabilities(resolve("xe-hpg"))
    assert "f64" not in capabilities.dtypes
    with pytest.raises(UnsupportedError, match="f64"):
        compiled(KERNEL.replace("f32", "f64"), resolve("xe-hpg"))


@pytest.mark.parametrize("warps, message", [(3, "power of 2"), (1 << 10, "has room for")])
def test_numbers_of_warps_are_checked(warps, message):
    with pytest.raises(OptionError, match=message):
        compiler().options(compiler().targets()[0], {"num_warps": warps})


def test_shared_memory_has_an_end():
    from tegula_xpu.target import resolve

    with pytest.raises(OutOfResources, match="shared memory"):
        compiled(SWAP, resolve("xe-lpg"))


def test_large_tiles_ask_for_many_registers():
    from xpu.test_blocks import product

    from tegula_xpu.driver import build_options
    from tegula_xpu.target import resolve

    def asked(module, arch, **options):
        from tegula.conformance.session import compile_module

        backend = registry.backend("xpu")
        made = compile_module(backend, resolve(arch), module, options)
        return made.metadata["large_registers"]

    assert asked(product("f16"), "xe-hpc", num_warps=1)
    assert asked(product("f16"), "xe-lpg", num_warps=1)
    assert not asked(product("f16"), "xe-hpc", num_warps=4)
    assert not asked(product("f16"), "cpu", num_warps=1)
    assert "-ze-opt-large-register-file" in build_options("level_zero", True).split()
    assert "-cl-intel-256-GRF-per-thread" in build_options("opencl", True).split()
    assert "large" not in build_options("level_zero", False)


@pytest.mark.parametrize("source", ["i64", "u64", "i32", "i16"])
def test_truncated_numbers_are_extended(source, tmp_path):
    """LLVM's SPIR-V target masks what was truncated, in its own width."""
    from tegula_xpu.target import resolve

    for narrow, wide in (("u8", "i32"), ("u8", "u16"), ("u16", "i64"), ("u8", "i64")):
        if int(source[1:]) <= int(narrow[1:]):
            continue
        text = f"""
kernel @k(%x: ptr<const {source}>, %o: ptr<{wide}>) {{
  %v = load %x : {source}
  %n = cast %v {{to = {narrow}}} : {narrow}
  %w = cast %n {{to = {wide}}} : {wide}
  store %o, %w
  return
}}
"""
        validate(compiled(text, resolve("xe-hpc")).data, tmp_path)
