"""DPAS: in the SPIR-V of devices that have it, with the meaning that its specification gives it.

No device here has the instruction. So it is replaced by a function that does the same by shuffles,
lane by lane as the OpenCL extension `cl_intel_subgroup_matrix_multiply_accumulate` describes it.
"""

from __future__ import annotations

import ctypes
import re

import ml_dtypes
import numpy as np
import pytest
from xpu.validation import validate

from tegula.ir import parse_module
from tegula.plugin import Artifact, Target
from tegula.plugin.registry import registry
from tegula.runtime.compiled import LAUNCH_SIGNATURE

pytestmark = pytest.mark.skipif("xpu" not in registry.names(), reason="tegula-xpu is missing")

PRODUCT = """
kernel @product(%a: ptr<const {t}> {{divisible = 16}}, %b: ptr<const {t}> {{divisible = 16}},
                %o: ptr<{c}> {{divisible = 16}}) {{
  %m = arange {{start = 0, end = {m}}} : i32[{m}]
  %k = arange {{start = 0, end = {k}}} : i32[{k}]
  %n = arange {{start = 0, end = {n}}} : i32[{n}]
{a_index}{b_index}{o_index}
  %z = constant {{value = {zero}}} : {c}[{m},{n}]
  %d = dot %av, %bv, %z : {c}[{m},{n}]
  store %oq, %d
  return
}}
"""


def index(name: str, rows: str, columns: str, i: int, j: int, t: str, load: bool) -> str:
    shape = f"[{i},{j}]"
    pointer = f"ptr<const {t}>" if load else f"ptr<{t}>"
    text = f"""
  %{name}i = expand_dims %{rows} {{axis = 1}} : i32[{i},1]
  %{name}ib = broadcast %{name}i {{shape = {shape}}} : i32{shape}
  %{name}j = expand_dims %{columns} {{axis = 0}} : i32[1,{j}]
  %{name}jb = broadcast %{name}j {{shape = {shape}}} : i32{shape}
  %{name}s = constant {{value = {j}}} : i32{shape}
  %{name}r = mul %{name}ib, %{name}s : i32{shape}
  %{name}f = add %{name}r, %{name}jb : i32{shape}
  %{name}p = splat %{name} {{shape = {shape}}} : {pointer}{shape}
  %{name}q = addptr %{name}p, %{name}f : {pointer}{shape}
"""
    return text + (f"  %{name}v = load %{name}q : {t}{shape}\n" if load else "")


def product(t: str, m: int, n: int, k: int):
    c = "i32" if t in ("i8", "u8") else "f32"
    return parse_module(
        PRODUCT.format(
            t=t, c=c, m=m, n=n, k=k, zero="0" if c == "i32" else "0.0",
            a_index=index("a", "m", "k", m, k, t, True),
            b_index=index("b", "k", "n", k, n, t, True),
            o_index=index("o", "m", "n", m, n, c, False),
        )
    )  # fmt: skip


def lowered(module, target: Target) -> str:
    from tegula.codegen.simt.lower import lower
    from tegula_xpu.simt import XpuSimt

    backend = registry.backend("xpu")
    ready = backend.pipeline(backend.context(target, {})).run(module)
    return lower(ready, XpuSimt(target)).text


@pytest.mark.parametrize("t", ["f16", "bf16", "i8", "u8"])
@pytest.mark.parametrize("arch", ["xe-hpc", "xe2", "xe-hpg/8"])
def test_products_use_the_unit(t, arch, tmp_path):
    from tegula_xpu import spirv
    from tegula_xpu.target import resolve

    text = lowered(product(t, 64, 32, 64), resolve(arch))
    assert "SubgroupMatrixMultiplyAccumulateINTEL" in text
    validate(spirv.assemble(text), tmp_path)


def test_other_subgroups_do_without():
    from tegula_xpu.target import resolve

    for arch in ("xe-hpc/32", "xe-lpg", "cpu", "xe-hpg"):
        assert "SubgroupMatrix" not in lowered(product("f16", 32, 32, 32), resolve(arch))


# -------------------------------------------------------------------------------------------------
# The instruction by shuffles


def extended(t: str, raw: str, out: list[str], tag: str) -> str:
    """Lines that turn the low bits of an i32 into what is multiplied; gives its name."""
    if t == "bf16":
        out += [f"  %{tag}s = shl i32 {raw}, 16", f"  %{tag} = bitcast i32 %{tag}s to float"]
    elif t == "f16":
        out += [f"  %{tag}t = trunc i32 {raw} to i16", f"  %{tag}h = bitcast i16 %{tag}t to half",
                f"  %{tag} = fpext half %{tag}h to float"]  # fmt: skip
    else:
        verb = "sext" if t == "i8" else "zext"
        out += [f"  %{tag}t = trunc i32 {raw} to i8", f"  %{tag} = {verb} i8 %{tag}t to i32"]
    return f"%{tag}"


def emulated(t: str, declaration: str, lanes: int) -> str:
    """A definition in place of the declaration of the instruction."""
    name = re.search(r"@(\w+)\(", declaration)[1]
    kind = "i32" if t in ("i8", "u8") else "float"
    bits = 8 if t in ("i8", "u8") else 16
    per_word = 32 // bits
    depth = 8 * per_word
    beside = depth // lanes
    left = f"i{beside * bits}"
    out = [f"define spir_func <8 x {kind}> @{name}(i32 %k, <8 x {left}> %a, <8 x i32> %b, "
           f"<8 x {kind}> %c, i32 %flags) {{"]  # fmt: skip
    for k in range(depth):
        word, shift = divmod(k, per_word)
        out += [f"  %b{k}w = extractelement <8 x i32> %b, i32 {word}",
                f"  %b{k}r = lshr i32 %b{k}w, {shift * bits}"]  # fmt: skip
        extended(t, f"%b{k}r", out, f"b{k}")
    result = "%c"
    for i in range(8):
        total = f"%c{i}"
        out += [f"  {total} = extractelement <8 x {kind}> %c, i32 {i}",
                f"  %a{i}x = extractelement <8 x {left}> %a, i32 {i}",
                f"  %a{i} = zext {left} %a{i}x to i32" if left != "i32" else
                f"  %a{i} = add i32 %a{i}x, 0"]  # fmt: skip
        for k in range(depth):
            lane, part = divmod(k, beside)
            tag = f"a{i}_{k}"
            shuffle = f"@_Z17sub_group_shufflejj(i32 %a{i}, i32 {lane})"
            out += [f"  %{tag}w = call spir_func i32 {shuffle}",
                    f"  %{tag}r = lshr i32 %{tag}w, {part * bits}"]  # fmt: skip
            x = extended(t, f"%{tag}r", out, tag)
            mul, add = ("mul", "add") if kind == "i32" else ("fmul", "fadd")
            out += [f"  %{tag}p = {mul} {kind} {x}, %b{k}",
                    f"  %{tag}sum = {add} {kind} {total}, %{tag}p"]  # fmt: skip
            total = f"%{tag}sum"
        out.append(f"  %r{i} = insertelement <8 x {kind}> {result}, {kind} {total}, i32 {i}")
        result = f"%r{i}"
    return "\n".join([*out, f"  ret <8 x {kind}> {result}", "}"])


NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "u8": np.uint8}


@pytest.mark.parametrize(
    "t, shape, lanes",
    [("f16", (16, 32, 32), 16), ("bf16", (8, 16, 32), 16), ("i8", (16, 16, 64), 16),
     ("u8", (8, 16, 32), 16), ("f16", (8, 8, 32), 8), ("i8", (8, 8, 64), 8)],
)  # fmt: skip
def test_fragments_are_where_the_specification_has_them(device, t, shape, lanes):
    from tegula_xpu import spirv

    known = device.info.target
    target = Target("xpu", "cpu", {**known.attrs, "subgroup": lanes, "matrix": lanes})
    text = lowered(product(t, *shape), target)
    (declaration,) = re.findall(r"declare .*SubgroupMatrixMultiply.*", text)
    text = text.replace(declaration, emulated(t, declaration, lanes))
    m, n, k = shape
    rng = np.random.default_rng(1)
    a = rng.integers(-8 if t != "u8" else 0, 8, (m, k)).astype(NUMPY[t])
    b = rng.integers(-8 if t != "u8" else 0, 8, (k, n)).astype(NUMPY[t])
    out = np.zeros((m, n), np.int32 if t in ("i8", "u8") else np.float32)
    kernel = device.load(
        Artifact("spirv", spirv.assemble(text), "product", ("ptr<i8>",) * 3, {"threads": 4 * lanes})
    )
    addresses = []
    for x in (a, b, out):
        addresses.append(device.alloc(x.nbytes))
        device.copy(addresses[-1], x.ctypes.data, x.nbytes)
    slots = (ctypes.c_uint64 * 3)(*addresses)
    native = LAUNCH_SIGNATURE(kernel.launch_address)
    assert native(kernel.handle, ctypes.addressof(slots), 3, 1, 1, 1, None) == 0
    device.copy(out.ctypes.data, addresses[2], out.nbytes)
    for address in addresses:
        device.free(address)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(out, want)
