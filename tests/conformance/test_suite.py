"""The suite itself: coverage, cases as text, its own formulas, isolation, and third parties."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tegula.conformance import reference, runner
from tegula.conformance.catalog import all_specs, all_tests, selected
from tegula.conformance.coverage import measure
from tegula.conformance.pool import Pool
from tegula.conformance.text import from_text, to_text
from tegula.conformance.values import Rule, bits_of, compare, edges, from_bits, has_meaning
from tegula.ir import DTYPES, print_module, verify
from tegula.ir.types import bf16, f8e4nv, f8e5, f16, f32, f64, i8, numpy_dtype

ROOT = Path(__file__).parents[2]


def test_nothing_is_uncovered() -> None:
    found = measure()

    assert found.missing == []
    assert len(found.required) > 2000


def test_every_case_is_well_formed_and_named_once() -> None:
    specs = list(all_specs())

    assert len({s.id for s in specs}) == len(specs)
    for spec in specs[::7]:
        verify(spec.make().launch.module)


@pytest.mark.parametrize(
    "id", ["arith.add.f32", "memory.masked.i8", "cast.f32.f8e4nv", "dot.f16.f16.f32", "grid.3x4x2"]
)
def test_a_case_survives_its_text(id: str) -> None:
    case = next(s for s in all_specs() if s.id == id).make()
    again = from_text(to_text(case))

    assert print_module(again.launch.module) == print_module(case.launch.module)
    assert again.launch.grid == case.launch.grid
    dtypes = {b.name: b.dtype for b in case.launch.buffers}
    for a, b in zip(case.launch.buffers, again.launch.buffers):
        assert compare(a.data, b.data, a.dtype)[0] is None
    for name, wanted in case.expected.items():
        assert compare(wanted.data, again.expected[name].data, dtypes[name])[0] is None


def test_backends_are_never_named() -> None:
    names = ("cuda", "rocm", "metal", "vulkan", "tegula_cpu", '"cpu"')
    for file in (ROOT / "core/tegula/conformance").rglob("*.py"):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            assert not any(n in line.lower() for n in names), f"{file.name}:{number}: {line}"


def test_expected_values_owe_nothing_to_the_compiler() -> None:
    text = (ROOT / "core/tegula/conformance/reference.py").read_text()

    assert "OPS" not in text
    assert "evaluate" not in text
    assert "interp" not in text


# -- the formulas


@pytest.mark.parametrize("t", [t for t in DTYPES.values() if t.is_float and has_meaning(t)])
def test_encoding_gives_the_bits_back(t) -> None:  # type: ignore[no-untyped-def]
    x = edges(t)
    again = reference.encode(x.astype(np.float64), t)
    number = ~np.isnan(x.astype(np.float64))

    assert np.array_equal(bits_of(again)[number], bits_of(x)[number])


@pytest.mark.parametrize("t", [f16, f32])
def test_rounding_agrees_with_the_hardware(t) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    x = rng.standard_normal(5000) * 2.0 ** rng.integers(-160, 140, 5000)
    with np.errstate(all="ignore"):
        direct = x.astype(numpy_dtype(t))

    assert np.array_equal(bits_of(reference.round_to(x, t)), bits_of(direct))


@pytest.mark.parametrize(
    ("value", "t", "rounding", "expected"),
    [(1 + 2.0**-8 + 2.0**-30, bf16, "rtne", 1 + 2.0**-7), (1 + 2.0**-8, bf16, "rtne", 1.0),
     (1e6, f8e4nv, "rtz", 448.0), (464.0, f8e4nv, "rtne", 448.0), (2.0**-17, f8e5, "rtne", 0.0),
     (1e6, f8e5, "rtne", 57344.0), (-1e6, f8e5, "rtz", -57344.0)],
)  # fmt: skip
def test_known_roundings(value, t, rounding, expected) -> None:  # type: ignore[no-untyped-def]
    made = reference.cast(np.array([value]), f64, t, rounding).astype(np.float64)

    assert made[0] == expected


def test_integers_wrap_and_divide_toward_zero() -> None:
    a = np.array([-128, -7, 7, -128, 100], np.int8)
    b = np.array([-1, 2, -2, 0, 100], np.int8)

    assert reference.binary("div", i8, a, b).tolist() == [-128, -3, -3, 0, 1]
    assert reference.binary("rem", i8, a, b).tolist() == [0, -1, 1, 0, 0]
    assert reference.binary("mul", i8, a, b).tolist() == [-128, -14, -14, 0, 16]


def test_fma_rounds_once() -> None:
    a = np.array([1 + 2.0**-23], np.float32)
    made = reference.fma(f32, a, a, -(a * a))

    assert made[0] == np.float32(2.0**-46)


def test_comparison_knows_nan_zero_and_units() -> None:
    x = np.array([1.0, np.nan, 0.0], np.float32)

    assert compare(x, x.copy(), f32)[0] is None
    assert compare(x, np.array([1.0, np.nan, -0.0], np.float32), f32)[0] is not None
    loose = Rule(zero_sign=False)
    assert compare(x, np.array([1.0, np.nan, -0.0], np.float32), f32, loose)[0] is None
    near = from_bits(bits_of(x) + np.array([2, 0, 0], np.uint32), f32)
    difference, worst = compare(x, near, f32, Rule(ulp=1))
    assert difference is not None and difference.index == 0
    assert worst == 2
    assert compare(x, near, f32, Rule(ulp=2))[0] is None


# -- running


def test_tests_are_chosen_by_level_profile_words_and_shard() -> None:
    assert all(t.level <= 1 for t in selected(level=1))
    assert {p for t in selected(profiles=frozenset({"f16"})) for p in t.profiles} == {"f16"}
    assert [t.id for t in selected(expression="shape.arange")] == ["shape.arange"]
    assert not any("f32" in t.id for t in selected(expression="arith. !f32"))
    parts = [t.id for i in (1, 2) for t in selected(level=2, shard=(i, 2))]
    assert sorted(parts) == sorted(t.id for t in selected(level=2))
    assert len(all_tests(True)) > len(all_tests(False))


def test_a_dead_worker_is_replaced() -> None:
    with Pool({"backend": "interpreter"}, 2) as pool:
        bad = {"do": "no such job"}  # an exception that nobody handles ends the process
        good = {"do": "test", "id": "shape.arange"}
        answers = list(pool.map([bad, good, bad, good]))

    assert sorted(a.outcome for a in answers) == ["crash", "crash", "pass", "pass"]


def test_a_process_says_when_its_device_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from tegula.conformance.worker import Server

    server = Server({"backend": "interpreter"})
    monkeypatch.setattr(server, "_answer", lambda job: {"outcome": job["outcome"]})

    def lost(self: object) -> None:
        raise OSError("the device is lost")

    assert "done" not in server.answer({"outcome": "error"})
    monkeypatch.setattr(type(server.context.session.device), "synchronize", lost)
    assert server.answer({"outcome": "error"})["done"]
    assert "done" not in server.answer({"outcome": "pass"})


def test_a_process_that_lost_its_device_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from tegula.conformance import pool as module

    read, started = module.Worker.read, []

    def last(self: module.Worker) -> tuple[dict[str, object] | None, bool]:
        data, ended = read(self)
        return ({**data, "done": True} if data else data), ended

    def start(self: module.Worker) -> None:
        started.append(self)

    monkeypatch.setattr(module.Worker, "read", last)
    monkeypatch.setattr(module.Worker, "warm_up", start)
    job = {"do": "test", "id": "shape.arange"}
    with Pool({"backend": "interpreter"}, 1) as pool:
        answers = list(pool.map([job, job]))
        assert not pool.workers
    assert [a.outcome for a in answers] == ["pass", "pass"] and len(set(started)) == 2


def test_the_interpreter_reaches_level_two_quickly() -> None:
    made = runner.run("interpreter", level=2, expression="plugin. compile.cap compile.opt control.")

    assert {r["outcome"] for r in made["tests"]} <= {"pass", "unsupported"}, [
        r for r in made["tests"] if r["outcome"] not in ("pass", "unsupported")
    ]


@pytest.mark.slow
def test_the_interpreter_reaches_level_four_with_every_profile() -> None:
    made = runner.run("interpreter", full=True, workers=2)

    assert made["claim"].endswith(
        "L4 + f16 + bf16 + fp8 + f64 + i64 + atomics + scan + dot-mixed + descriptors + printf"
    )
    assert made["conformant"]


THIRD_PARTY = """
from tegula.conformance.suite import *

BACKEND = "acme"
SELECT = "plugin.record plugin.literal compile.fingerprint shape.arange arith.add.f32 dot.f32"
REPORT = "report.json"
"""

ACME = """
from tegula.plugin import BackendSpec, hookimpl

@hookimpl
def tegula_backends():
    return [BackendSpec(
        name="acme", api=(0, 1), ir=((0, 1), (0, 1)),
        compiler="tegula.interp.backend:InterpreterCompiler",
        driver="tegula.interp.backend:InterpreterDriver",
        kind="cpu", priority=-50, summary="somebody else's",
    )]
"""


def test_a_foreign_package_runs_the_suite(tmp_path: Path) -> None:
    package = tmp_path / "acme_plugin"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "plugin.py").write_text(ACME)
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tegula.backends]\nacme = acme_plugin.plugin\n")
    (tmp_path / "test_conformance.py").write_text(THIRD_PARTY)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_conformance.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'core'}", "PATH": "/usr/bin:/bin", "HOME": "/tmp"},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "failed" not in done.stdout
    assert (tmp_path / "report.json").is_file()
