"""Two-dimensional block loads: in the SPIR-V of devices that have them, with the meaning that
SPV_INTEL_2d_block_io gives them. No device here has the instructions: functions stand for them.
"""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from xpu.test_matrix import NUMPY, emulated, lowered
from xpu.validation import validate

from tegula.ir import parse_module
from tegula.plugin import Artifact, Target
from tegula.plugin.registry import registry
from tegula.runtime.compiled import LAUNCH_SIGNATURE

pytestmark = pytest.mark.skipif("xpu" not in registry.names(), reason="tegula-xpu is missing")

PRODUCT = """
kernel @product(%a: ptr<const {t}> {{divisible = 16}}, %b: ptr<const {t}> {{divisible = 16}},
                %o: ptr<f32> {{divisible = 16}}, %m: i32, %n: i32, %k: i32, %i: i32,
                %as: i32, %bs: i32) {{
  %one = constant {{value = 1}} : i64
  %kw = cast %as {{to = i64}} : i64
  %bw = cast %bs {{to = i64}} : i64
  %nw = cast %n {{to = i64}} : i64
  %ad = make_descriptor %a, shape = [%m, %k], strides = [%kw, %one] {{{block}}} : desc<{t}[32,32]>
  %bd = make_descriptor %b, shape = [%k, %n], strides = [%bw, %one] {{{block}}} : desc<{t}[32,32]>
  %od = make_descriptor %o, shape = [%m, %n], strides = [%nw, %one]
    {{block_shape = [32, 32]}} : desc<f32[32,32]>
  %z = constant {{value = 0.0}} : f32[32,32]
  %start = constant {{value = 0}} : i32
  %step = constant {{value = 32}} : i32
  %r = for %start, %k, %step, inits = [%z] : f32[32,32] body(%at: i32, %acc: f32[32,32]) {{
    %av = desc_load %ad, offsets = [%i, %at] : {t}[32,32]
    %bv = desc_load %bd, offsets = [%at, %start] : {t}[32,32]
    %d = dot %av, %bv, %acc : f32[32,32]
    yield [%d]
  }}
  desc_store %od, %r, offsets = [%i, %start]
  return
}}
"""


def product(t: str, padding: str = "zero"):
    block = f'block_shape = [32, 32], padding = "{padding}"'
    return parse_module(PRODUCT.format(t=t, block=block))


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.parametrize("arch", ["xe-hpc", "xe2"])
def test_products_take_blocks(t, arch, tmp_path):
    from tegula_xpu import spirv
    from tegula_xpu.target import resolve

    text = lowered(product(t), resolve(arch))
    assert "Subgroup2DBlockLoadINTEL" in text and "Subgroup2DBlockLoadTransformINTEL" in text
    validate(spirv.assemble(text), tmp_path)


def test_where_there_are_none():
    from tegula_xpu.target import resolve

    for arch in ("xe-lpg", "xe-hpg", "xe-hpc/32", "cpu"):
        assert "2DBlock" not in lowered(product("f16"), resolve(arch))
    assert "2DBlock" not in lowered(product("f16", "nan"), resolve("xe-hpc"))


def block_loads(text: str, blind: int = 0) -> str:
    """Functions in place of the instructions: lane l reads column l of each row. What has `blind`
    rows is read as zeros."""
    for declaration in re.findall(r"declare .*2DBlockLoad.*", text):
        name = re.search(r"@(\w+)\(", declaration)[1]
        rows = 16 if "Transform" in name else 8
        read = "i16 0" if rows == blind else "i16 %f"
        out = [f"define spir_func void @{name}(i32 %size, i32 %w, i32 %h, i32 %c,",
               "ptr addrspace(1) %p, i32 %width, i32 %rows, i32 %pitch, <2 x i32> %at, ptr %o) {",
               "  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()",
               "  %x0 = extractelement <2 x i32> %at, i32 0", "  %x = add i32 %x0, %lane",
               "  %y0 = extractelement <2 x i32> %at, i32 1", "  %b = mul i32 %x, 2",
               "  %low = icmp sge i32 %x, 0", "  %high = icmp slt i32 %b, %width",
               "  %in = and i1 %low, %high", "  %line = ptrtoint ptr addrspace(1) %p to i64",
               "  %off = and i64 %line, 63", "  %aligned = icmp eq i64 %off, 0"]  # fmt: skip
        for r in range(rows):
            out += [f"  %y{r} = add i32 %y0, {r}" if r else "  %y.0 = add i32 %y0, 0"]
            y = f"%y{r}" if r else "%y.0"
            out += [f"  %g{r} = icmp sge i32 {y}, 0", f"  %u{r} = icmp slt i32 {y}, %rows",
                    f"  %s{r} = and i1 %g{r}, %u{r}", f"  %v{r} = and i1 %s{r}, %in",
                    f"  %t{r} = and i1 %v{r}, %aligned",
                    f"  %m{r} = mul i32 {y}, %pitch", f"  %a{r} = add i32 %m{r}, %b",
                    f"  %e{r} = select i1 %t{r}, i32 %a{r}, i32 0",
                    f"  %q{r} = getelementptr i8, ptr addrspace(1) %p, i32 %e{r}",
                    f"  %f{r} = load i16, ptr addrspace(1) %q{r}, align 2",
                    f"  %k{r} = select i1 %t{r}, {read if rows == blind else read + str(r)}, i16 0",
                    f"  %d{r} = getelementptr i16, ptr %o, i32 {r}",
                    f"  store i16 %k{r}, ptr %d{r}, align 2"]  # fmt: skip
        text = text.replace(declaration, "\n".join([*out, "  ret void", "}"]))
    return text


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.parametrize("m, n, k, first, shift, gap, taken", [
    (64, 32, 64, 32, 0, 0, "ab"), (40, 32, 96, 32, 0, 8, "ab"), (64, 40, 80, 0, 0, 0, "ab"),
    (64, 48, 64, 0, 8, 16, "ab"), (40, 40, 72, 32, 24, 24, "ab"), (64, 48, 64, 0, 8, 0, ""),
    (50, 33, 70, 32, 0, 0, ""), (16, 16, 16, 0, 0, 0, ""), (16, 16, 64, 0, 0, 0, "a"),
])  # fmt: skip
def test_blocks_are_what_the_product_needs(device, t, m, n, k, first, shift, gap, taken):
    """Rows at distances of no 16 bytes, short rows, and bases within lines where no room is left
    beside a row, take the other way."""
    target = Target("xpu", "cpu", {**device.info.target.attrs, "subgroup": 16, "matrix": 16,
                                   "block2d": True})  # fmt: skip
    text = lowered(product(t), target)
    (declaration,) = re.findall(r"declare .*SubgroupMatrixMultiply.*", text)
    text = text.replace(declaration, emulated(t, declaration, 16))
    rng = np.random.default_rng(1)
    a, b = (rng.integers(1, 8, s).astype(NUMPY[t]) for s in ((m, k), (k, n)))
    want = np.full((m, n), -1, np.float32)
    rows, columns = slice(first, first + 32), slice(0, 32)
    want[rows, columns] = (a.astype(np.float32) @ b.astype(np.float32))[rows, columns]
    found = launched(device, block_loads(text), a, b, shift, gap, first)
    np.testing.assert_array_equal(found, want)
    for side, rows_read in (("a", 8), ("b", 16)):  # without what they read the result is another
        other = launched(device, block_loads(text, rows_read), a, b, shift, gap, first)
        assert ((other != want).any()) == (side in taken)


def launched(device, text: str, a, b, shift: int, gap: int, first: int):
    """The product, with a and b somewhat behind an aligned address."""
    from tegula_xpu import spirv

    (m, k), n = a.shape, b.shape[1]
    o = np.full((m, n), -1, np.float32)
    types = ("ptr<i8>",) * 3 + ("i32",) * 6
    kernel = device.load(
        Artifact("spirv", spirv.assemble(text), "product", types, {"threads": 64})
    )
    held, addresses = [], []
    padded = [np.pad(x, ((0, 0), (0, gap)), constant_values=3) for x in (a, b)]
    for x in (*padded, o):
        held.append(device.alloc(x.nbytes + 256))
        noise = np.full(x.nbytes + 256, 0x3C, np.uint8)
        device.copy(held[-1], noise.ctypes.data, noise.nbytes)
        addresses.append(held[-1] + 64 + (shift * 2 if x is not o else 0))
        device.copy(addresses[-1], x.ctypes.data, x.nbytes)
    slots = (ctypes.c_int64 * 9)(*addresses, m, n, k, first, k + gap, n + gap)
    native = LAUNCH_SIGNATURE(kernel.launch_address)
    assert native(kernel.handle, ctypes.addressof(slots), 9, 1, 1, 1, None) == 0
    device.copy(o.ctypes.data, addresses[2], o.nbytes)
    for address in held:
        device.free(address)
    return o
