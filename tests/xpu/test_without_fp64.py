"""Devices without float64: functions of f32 need none, kernels that do are told so."""

from __future__ import annotations

import struct

import pytest

from tegula.codegen.math.library import library
from tegula.codegen.math.trial import library_kernel
from tegula.ir import parse_module
from tegula.ir.types import f32, f64
from tegula.plugin import UnsupportedError
from tegula.plugin.registry import registry

pytestmark = pytest.mark.skipif("xpu" not in registry.names(), reason="tegula-xpu is missing")

CAPABILITY, FLOAT64 = 17, 10
MATH = "exp exp2 log log2 sqrt rsqrt sin cos tanh erf floor ceil trunc rint".split()
TEXT = """
kernel @k(%x: ptr<f32>) {{
  %i = arange {{start = 0, end = 64}} : i32[64]
  %p = splat %x {{shape = [64]}} : ptr<f32>[64]
  %q = addptr %p, %i : ptr<f32>[64]
  %v = load %q : f32[64]
  %w = {name} %v : f32[64]
  %r = reduce [%w] {{axis = 0}} : f32 combine(%a: f32, %b: f32) {{
    %c = add %a, %b : f32
    yield [%c]
  }}
  store %x, %r
  return
}}
"""


def capabilities(code: bytes) -> set[int]:
    """The capabilities that a SPIR-V module declares."""
    words = struct.unpack(f"<{len(code) // 4}I", code)
    found, at = set(), 5
    while at < len(words):
        if words[at] & 0xFFFF == CAPABILITY:
            found.add(words[at + 1])
        at += words[at] >> 16
    return found


def without_fp64():
    from tegula_xpu.target import resolve

    return resolve("xe-hpg")


def compiled(module, target):
    from tegula.conformance.session import compile_module

    return compile_module(registry.backend("xpu"), target, module, {})


@pytest.mark.parametrize("name", MATH)
def test_math_of_f32_needs_no_float64(name):
    made = compiled(parse_module(TEXT.format(name=name)), without_fp64())
    assert FLOAT64 not in capabilities(made.data)


def test_the_capability_is_seen():
    from tegula_xpu.target import resolve

    made = compiled(parse_module(TEXT.format(name="exp").replace("f32", "f64")), resolve("xe-hpc"))
    assert FLOAT64 in capabilities(made.data)


@pytest.mark.parametrize("name", ["lgamma", "rsqrt_rn", "j0", "y1", "jn", "tgamma", "pow", "sinh"])
def test_the_library_needs_no_float64(name):
    f = library()[name]
    for s in f.signatures:
        if f64 not in (*s.arguments, s.result):
            made = compiled(library_kernel(f, s, 64, f32), without_fp64())
            assert FLOAT64 not in capabilities(made.data)


def test_kernels_of_the_language(monkeypatch):
    """What the frontend is told of the device decides how the library computes."""
    import dataclasses

    import numpy as np

    import tegula
    import tegula.language as tl
    from tegula.language.extra import libdevice
    from tegula.plugin import Target

    backend = registry.backend("xpu")
    if not backend.available:
        pytest.skip("no device")
    seen: list[set[int]] = []
    plain = type(backend.compiler).emit

    def emit(self, module, target, options):
        made = plain(self, module, target, options)
        seen.append(capabilities(made.data))
        return made

    def info(self, index):
        found = known(self, index)
        attrs = {**found.target.attrs, "fp64": False}
        target = Target("xpu", found.target.arch, attrs)
        return dataclasses.replace(found, target=target)

    known = type(backend).info
    monkeypatch.setattr(type(backend), "info", info)
    monkeypatch.setattr(type(backend.compiler), "emit", emit)

    @tegula.jit
    def kernel(x, o, n: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(o + i, libdevice.lgamma(tl.load(x + i)))

    x = np.linspace(-3.7, 4, 64, dtype=np.float32)
    o = tegula.asarray(np.zeros_like(x), device="xpu")
    with tegula.config.config.scope(cache=False):
        kernel[(1,)](tegula.asarray(x, device="xpu"), o, 64)
    scipy = pytest.importorskip("scipy.special")
    np.testing.assert_allclose(o.numpy(), scipy.gammaln(x.astype(np.float64)), rtol=3e-7)
    assert seen and FLOAT64 not in seen[-1]

    @tegula.jit
    def wide(o):
        tl.store(o, (tl.load(o).to(tl.float64) * 0.1).to(tl.float32))

    with pytest.raises(UnsupportedError, match="'f64' is not supported on") as caught:
        wide[(1,)](o)
    assert "test_without_fp64.py" in str(caught.value)
