"""Products cut into instructions of matrix units: fragments, layouts, and that the pieces meet."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tegula_cuda")

from simt import machine

from tegula.codegen.simt.matrix import MatrixUnit, choose, result_layout, split_warps, tiling
from tegula.codegen.simt.multiply import _kept, _picked
from tegula.codegen.simt.plain_unit import plain_unit
from tegula.ir.types import DTYPES, bf16, f16, f32, f64, i8, i32
from tegula_cuda.compiler import CudaCompiler
from tegula_cuda.matrix import units
from tegula_cuda.simt import CudaSimt
from tegula_cuda.target import ARCHITECTURES, features_of, resolve

UNITS = {
    u.name: u
    for arch in ARCHITECTURES
    for found in units(features_of(resolve(arch))).values()
    for u in found
}


def simt_of(arch: str) -> CudaSimt:
    target = resolve(arch)
    options = CudaCompiler().options(target, {})
    return CudaSimt(target, options)  # type: ignore[arg-type]


# -- fragments, as the PTX manual's tables have them: (row, column) of register i of a lane


def a16(i: int, g: int, t: int) -> tuple[int, int]:
    return g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i // 4)


def a8(i: int, g: int, t: int) -> tuple[int, int]:
    return g + 8 * (i // 4 % 2), 4 * t + i % 4 + 16 * (i // 8)


def a32(i: int, g: int, t: int) -> tuple[int, int]:
    return g + 8 * (i % 2), t + 4 * (i // 2)


def b16(i: int, g: int, t: int) -> tuple[int, int]:
    return 2 * t + i % 2 + 8 * (i // 2), g


def b8(i: int, g: int, t: int) -> tuple[int, int]:
    return 4 * t + i % 4 + 16 * (i // 4), g


def b32(i: int, g: int, t: int) -> tuple[int, int]:
    return t + 4 * i, g


def c(i: int, g: int, t: int) -> tuple[int, int]:
    return g + 8 * (i // 2), 2 * t + i % 2


def small_a8(i: int, g: int, t: int) -> tuple[int, int]:
    return g, 4 * t + i


def small_a64(i: int, g: int, t: int) -> tuple[int, int]:
    return g, t


TABLES = {
    "m16n8k16.row.col.f32.f16.f16.f32": (a16, b16),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (a16, b16),
    "m16n8k8.row.col.f32.f16.f16.f32": (a16, b16),
    "m16n8k8.row.col.f32.bf16.bf16.f32": (a16, b16),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (a32, b32),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (a32, b32),
    "m16n8k32.row.col.f32.e4m3.e5m2.f32": (a8, b8),
    "m16n8k32.row.col.s32.s8.s8.s32": (a8, b8),
    "m16n8k16.row.col.s32.u8.u8.s32": (a8, b8),
    "m8n8k16.row.col.s32.s8.s8.s32": (small_a8, b8),
    "m8n8k4.row.col.f64.f64.f64.f64": (small_a64, b32),
    "m16n8k16.row.col.f64.f64.f64.f64": (a32, b32),
    "m16n8k8.row.col.f64.f64.f64.f64": (a32, b32),
    "m16n8k4.row.col.f64.f64.f64.f64": (a32, b32),
}


@pytest.mark.parametrize("name", TABLES)
def test_fragments_are_those_of_the_manual(name: str) -> None:
    unit = UNITS[name]
    for layout, table in zip((unit.a, unit.b, unit.c), (*TABLES[name], c)):
        layout.check()
        found = machine.held(layout)
        for lane in range(32):
            for i in range(layout.registers):
                assert layout.coordinates(int(found[lane, i])) == table(i, lane // 4, lane % 4)


# -- products


def product(unit: MatrixUnit, shape: tuple[int, ...], depth: int, warps: int, tall: bool) -> None:
    """Multiply small numbers by the instructions of a tiling, as a warp would."""
    rng = np.random.default_rng(0)
    *batch, m, n = shape
    a = rng.integers(-4, 5, (*batch, m, depth))
    b = rng.integers(-4, 5, (*batch, depth, n))
    layout = result_layout(unit, shape, warps, tall)
    layout.check()
    cut = tiling(unit, layout, depth)
    assert cut is not None
    cut.a.check()
    cut.b.check()
    left, right = machine.multiplied(cut.a, a), machine.multiplied(cut.b, b)
    sums = np.zeros((32 * warps, layout.registers), np.int64)
    kept = [_kept(x, y.shape) for x, y in ((unit.a, cut.a), (unit.b, cut.b), (unit.c, cut.c))]
    sizes = [sum(x is not None for x in k) for k in kept]
    where = [machine.held(x) for x in (unit.a, unit.b, unit.c)]

    def operand(regs, side, base, fragment, deep_axis):  # type: ignore[no-untyped-def]
        """One instruction's matrix: each lane puts in what its registers hold."""
        tile = regs.shape[0] // 32
        out = np.zeros((tile, *fragment.shape), np.int64)
        for r in range(fragment.registers):
            number, zero = base, False
            for i, at in enumerate(kept[side]):
                if r >> i & 1:
                    if at is not None:
                        number |= 1 << at
                    else:
                        zero |= bool(fragment.coordinates(fragment.register[i])[deep_axis])
            for lane in range(32):
                i, j = fragment.coordinates(int(where[side][lane, r]))
                inside = (i, j)[deep_axis] < depth
                value = regs.reshape(tile, 32, -1)[:, lane, number] if inside else 0
                out[:, i, j] = 0 if zero else value
        return out

    for deep in range(1 << cut.depth_bits):
        for t in range(1 << len(cut.tiles)):
            bases = [
                _picked(t, bits) << size | deep << size + len(bits)
                for bits, size in ((cut.a_bits, sizes[0]), (cut.b_bits, sizes[1]))
            ]
            x = operand(left, 0, bases[0], unit.a, 1)
            y = operand(right, 1, bases[1], unit.b, 0)
            z = x @ y
            for r in range(unit.c.registers):
                if any(r >> i & 1 and at is None for i, at in enumerate(kept[2])):
                    continue
                number = t << sizes[2] | sum(
                    (r >> i & 1) << at for i, at in enumerate(kept[2]) if at is not None
                )
                for lane in range(32):
                    i, j = unit.c.coordinates(int(where[2][lane, r]))
                    sums.reshape(warps, 32, -1)[:, lane, number] += z[:, i, j]
    assert (machine.gathered(layout, sums) == a @ b).all()


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_lanes_of_any_number_multiply_without_instructions(lanes: int) -> None:
    for shape in ((64, 64, 16), (1, 1, 1), (2, 8, 4), (16, 1, 8), (4, 8, 8, 8), (1, 128, 2)):
        unit = plain_unit(f32, shape, lanes, 4, 4096)
        assert unit is not None
        for layout in (unit.a, unit.b, unit.c):
            layout.check()
            assert len(layout.lane) == lanes.bit_length() - 1
        if lanes == machine.LANES:
            product(unit, shape[:-1], shape[-1], 4, False)
    assert plain_unit(f32, (256, 256, 256), lanes, 4, 4096) is None


SHAPES = [
    ((32, 32), 32), ((64, 16), 16), ((16, 64), 32), ((8, 8), 16), ((1, 1), 1), ((4, 2), 4),
    ((16, 8), 2), ((2, 16, 16), 16), ((4, 2, 8, 16), 8), ((128, 8), 64),
]  # fmt: skip


@pytest.mark.parametrize("name", ["m16n8k16.row.col.f32.f16.f16.f32",
                                  "m16n8k8.row.col.f32.tf32.tf32.f32",
                                  "m16n8k32.row.col.s32.s8.s8.s32",
                                  "m8n8k4.row.col.f64.f64.f64.f64"])  # fmt: skip
@pytest.mark.parametrize(("shape", "depth"), SHAPES)
def test_instructions_make_the_product(name: str, shape: tuple[int, ...], depth: int) -> None:
    for warps, tall in ((1, False), (4, False), (4, True)):
        product(UNITS[name], shape, depth, warps, tall)


def test_warps_share_little() -> None:
    unit = UNITS["m16n8k16.row.col.f32.f16.f16.f32"]
    assert split_warps(128, 128, unit, 4, False) == (1, 1)
    assert split_warps(128, 128, unit, 4, True) == (2, 0)
    assert split_warps(256, 64, unit, 4, False) == (2, 0)
    assert split_warps(16, 128, unit, 4, False) == (0, 2)
    assert split_warps(16, 128, unit, 4, True) == (0, 2)
    assert split_warps(16, 8, unit, 4, False) == (0, 0)


def test_results_of_a_product_are_factors_of_the_next_in_place() -> None:
    from tegula.codegen.simt.layout import register_map

    unit = UNITS["m16n8k16.row.col.f32.f16.f16.f32"]
    scores = result_layout(unit, (64, 64), 4, True)
    cut = tiling(unit, result_layout(unit, (64, 128), 4, True), 64)
    assert cut is not None
    assert register_map(scores, cut.a) is not None


E4, E5 = DTYPES["f8e4nv"], DTYPES["f8e5"]


@pytest.mark.parametrize(("arch", "a", "b", "acc", "precision", "name", "parts"), [
    ("sm_75", f16, f16, f32, "ieee", "m16n8k8.row.col.f32.f16.f16.f32", 1),
    ("sm_75", i8, i8, i32, "ieee", "m8n8k16.row.col.s32.s8.s8.s32", 1),
    ("sm_75", f32, f32, f32, "tf32", "plain", 1),
    ("sm_80", f16, f16, f16, "ieee", "m16n8k16.row.col.f32.f16.f16.f32", 1),
    ("sm_80", bf16, bf16, f32, "ieee", "m16n8k16.row.col.f32.bf16.bf16.f32", 1),
    ("sm_80", f32, f32, f32, "ieee", "plain", 1),
    ("sm_80", f32, f32, f32, "tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", 1),
    ("sm_80", f32, f32, f32, "tf32x3", "m16n8k8.row.col.f32.tf32.tf32.f32", 2),
    ("sm_80", f32, f32, f32, "bf16x3", "m16n8k16.row.col.f32.bf16.bf16.f32", 2),
    ("sm_80", f32, f32, f32, "bf16x6", "m16n8k16.row.col.f32.bf16.bf16.f32", 3),
    ("sm_80", E4, E5, f32, "ieee", "m16n8k16.row.col.f32.f16.f16.f32", 1),
    ("sm_89", E4, E5, f32, "ieee", "m16n8k32.row.col.f32.e4m3.e5m2.f32", 1),
    ("sm_80", f64, f64, f64, "ieee", "m8n8k4.row.col.f64.f64.f64.f64", 1),
    ("sm_90a", f64, f64, f64, "ieee", "m16n8k16.row.col.f64.f64.f64.f64", 1),
    ("sm_80", i32, i32, i32, "ieee", "plain", 1),
    ("sm_80", f16, f16, f64, "ieee", "plain", 1),
])  # fmt: skip
def test_choice_of_a_unit(arch, a, b, acc, precision, name, parts) -> None:  # type: ignore[no-untyped-def]
    found = choose(simt_of(arch), a, b, acc, precision, (64, 64, 64), 4)
    assert (found.unit.name if found else None) == name
    if found:
        assert found.parts == parts


def test_f32_is_shortened_to_tf32_unless_the_program_says_otherwise() -> None:
    from tegula.errors import OptionError

    compiler, target = CudaCompiler(), resolve("sm_90a")
    assert compiler.options(target, {}).to_json()["default_dot_precision"] == "tf32"
    assert compiler.options(target, {"default_dot_precision": "ieee"})
    with pytest.raises(OptionError, match="one of ieee, tf32"):
        compiler.options(target, {"default_dot_precision": "half"})
