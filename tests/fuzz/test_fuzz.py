"""Random programs, the fuzzer, and making failing cases smaller."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tegula.conformance.case import Case, Expected
from tegula.conformance.programs import FEATURES, random_program
from tegula.conformance.programs.base import NOT_COMPARED, Ambiguous, OrderOfSums, interpret
from tegula.conformance.text import from_text, to_text
from tegula.conformance.values import compare
from tegula.interp.interpreter import Env, FunctionPlan, Interpreter, Step
from tegula.ir import DTYPES, Op, parse_module, verify
from tegula.ir.ops import OPS
from tegula.plugin.registry import registry
from tegula.tools.cli import main
from tegula.tools.fuzz import fuzz, size_of
from tegula.tools.reduce import completed, order_of_sums_shows, reduce_case

MUTANTS = Path(__file__).parents[1] / "conformance"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Make a mutant's backend known."""
    monkeypatch.syspath_prepend(str(MUTANTS))
    sys.modules.pop("mutants", None)

    def plant(name: str) -> str:
        monkeypatch.setenv("TEGULA_PLUGIN_PATH", f"mutant_{name}=mutants:{name}")
        registry.refresh()
        return f"mutant_{name}"

    yield plant
    monkeypatch.undo()
    registry.refresh()


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_programs_are_well_formed_and_have_one_result(seed: int) -> None:
    program = random_program(seed, size=size_of(seed))
    verify(program.module)
    launch = program.launch()

    first = interpret(launch, strict=True)  # in bounds, no order of stores or programs shows
    second = interpret(launch)

    assert all(first[n].tobytes() == second[n].tobytes() for n in first)


def test_a_seed_gives_one_program() -> None:
    assert repr(random_program(11)) == repr(random_program(11))
    assert repr(random_program(11)) != repr(random_program(12))


def test_programs_use_the_whole_language() -> None:
    """Every op of the table is in some program, unless a reason is given why none has it."""
    missing = set(OPS) - set(NOT_COMPARED)
    for seed in range(2000):
        for function in random_program(seed, size=size_of(seed)).module.functions.values():
            missing -= {op.name for op in function.body.walk()}
        if not missing:
            break

    assert not missing
    assert set(NOT_COMPARED) < set(OPS)


def test_indices_beyond_the_largest_number_are_among_them() -> None:
    seen = set()
    for seed in range(60):
        program = random_program(seed, size=size_of(seed))
        args = program.arguments()
        assert args["far"] > 2**31 - 100
        for op in program.module.kernels[0].body.walk():
            if op.name == "splat" and op.operands[0].name == "far":
                seen.add(seed)

    assert len(seen) > 10


def test_features_can_be_left_out() -> None:
    kept = FEATURES - {"dot", "loops", "atomics", "collect"}  # collect maps with branches
    for seed in range(30):
        names = {o.name for o in random_program(seed, kept).module.kernels[0].body.walk()}
        assert not names & {"dot", "for", "while", "if", "atomic_rmw", "atomic_cas"}


def test_the_interpreter_agrees_with_itself() -> None:
    summary = fuzz("interpreter", 40, first=500)

    assert (summary.programs, summary.findings) == (40, [])


def test_a_fault_is_found_reduced_and_written(
    install: Callable[[str], str], tmp_path: Path
) -> None:
    backend = install("swapped")
    summary = fuzz(backend, 300, stop_after=1, reduce_seconds=60, directory=tmp_path)

    (finding,) = summary.findings
    assert finding.outcome in ("values", "error")  # or an address off by the wrong sign
    assert finding.path is not None
    text = finding.path.read_text()
    ops = [op.name for op in parse_module(text).kernels[0].body.walk()]
    assert "sub" in ops
    assert len(ops) <= 30, text  # of some two hundred
    again = from_text(text)
    assert to_text(again).splitlines()[-5:] == text.splitlines()[-5:]


def test_the_command_tells_what_it_found(
    install: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = install("lost_last_store")
    code = main(
        ["fuzz", backend, "-n", "30", "-j", "1", "--json", "--out", str(tmp_path),
         "--stop-after", "1", "--reduce-seconds", "10"]
    )  # fmt: skip
    found = json.loads(capsys.readouterr().out)

    assert code == 1
    file = Path(found["findings"][0]["file"])
    assert file.is_file()
    assert main(["reduce", str(file), backend, "--seconds", "5"]) == 0
    assert "; run: execute" in capsys.readouterr().out
    assert main(["reduce", str(file), "interpreter", "--seconds", "5"]) == 1
    assert main(["fuzz", "no_such", "-n", "1"]) == 2
    assert main(["reduce", str(tmp_path / "none.tir"), backend]) == 2


CASE = """
; grid: (2, 1, 1)
; arg x = i32([3, 1, 4, 1, 5, 9, 2, 6])
; arg y = i32(zeros(8))
; expect y =
kernel @k(%x: ptr<i32>, %y: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %four = constant {value = 4} : i32
  %start = mul %pid, %four : i32
  %line = arange {start = 0, end = 4} : i32[4]
  %starts = splat %start {shape = [4]} : i32[4]
  %i = add %starts, %line : i32[4]
  %xs = splat %x {shape = [4]} : ptr<i32>[4]
  %xp = addptr %xs, %i : ptr<i32>[4]
  %v = load %xp : i32[4]
  %w = mul %v, %v : i32[4]
  %z = sub %w, %v : i32[4]
  %ys = splat %y {shape = [4]} : ptr<i32>[4]
  %yp = addptr %ys, %i : ptr<i32>[4]
  store %yp, %z
  return
}
"""


def contains(name: str) -> Callable[[Case], bool]:
    def fails(case: Case) -> bool:
        return any(op.name == name for op in case.launch.module.kernels[0].body.walk())

    return fails


def test_reduction_keeps_what_matters() -> None:
    case = from_text(CASE)
    case = replace(case, expected={"y": Expected(np.zeros(8, np.int32))})
    small = reduce_case(case, contains("sub"), 20)
    ops = [op.name for op in small.launch.module.kernels[0].body.walk()]

    assert "sub" in ops
    assert "mul" not in ops
    assert "load" not in ops
    assert small.launch.grid == (1, 1, 1)


def test_reduction_keeps_to_programs_with_one_result() -> None:
    case = from_text(CASE)
    collided = from_text(CASE.replace("addptr %ys, %i", "addptr %ys, %zero").replace(
        "  %v = load", "  %zero = constant {value = 0} : i32[4]\n  %v = load"))  # fmt: skip

    assert completed(case) is not None
    assert completed(collided) is None
    with pytest.raises(Ambiguous):
        interpret(collided.launch, strict=True)


SUMS = """
; arg x = bf16(1 + arange(96) / 64)
; arg y = bf16(zeros(96))
; expect y = bf16(zeros(96))
kernel @k(%x: ptr<bf16>, %y: ptr<bf16>) {
  %i = arange {start = 0, end = 96} : i32[96]
  %xs = splat %x {shape = [96]} : ptr<bf16>[96]
  %xp = addptr %xs, %i : ptr<bf16>[96]
  %v = load %xp : bf16[96]
  %whole = rint %v : bf16[96]
  %one = constant {value = 1.0} : bf16[96]
  %less = sub %whole, %one : bf16[96]
  %s = scan [%less] {axis = 0, reverse = false} : bf16[96] combine(%a: bf16, %b: bf16) {
    %c = add %a, %b : bf16
    yield [%c]
  }
  %ys = splat %y {shape = [96]} : ptr<bf16>[96]
  %yp = addptr %ys, %i : ptr<bf16>[96]
  store %yp, %s
  return
}
"""
EXACT = from_text(SUMS)
ROUNDED = from_text(SUMS.replace("rint %v", "add %v, %v"))


def step_by_step(plan: FunctionPlan, op: Op, step: Step) -> Step:
    """Scans whose sums are rounded to their dtype at each step: as right as any other order."""
    if op.name != "scan":
        return step
    source, out = plan.slot(op.operands[0]), plan.slot(op.results[0])

    def run(env: Env) -> None:
        values = np.asarray(env[source])
        sums = values.copy()
        for i in range(1, values.size):
            total = np.float32(sums[i - 1]) + np.float32(values[i])
            sums[i] = total.astype(values.dtype)
        env[out] = sums

    return run


def differs(case: Case) -> bool:
    """Whether a backend that sums step by step is outside of what the case allows."""
    memory = case.launch.fresh()
    args = [memory[a.name] for a in case.launch.buffers]
    Interpreter(case.launch.module, around=step_by_step).run((1,), args)
    dtypes = {b.name: b.dtype for b in case.launch.buffers}
    return any(
        compare(wanted.data, memory[name], dtypes[name], wanted.rule)[0] is not None
        for name, wanted in case.expected.items()
    )


def test_sums_that_are_rounded_are_told_from_exact_ones() -> None:
    exact = completed(EXACT)
    assert exact is not None
    assert not differs(exact)
    assert completed(ROUNDED) is None
    with pytest.raises(OrderOfSums):
        interpret(ROUNDED.launch, strict=True)
    assert not order_of_sums_shows(EXACT)
    assert order_of_sums_shows(ROUNDED)


def test_reduction_does_not_lose_what_makes_a_sum_exact() -> None:
    """Without `rint` the order of the sum would be all that is left of the difference."""

    def fails(case: Case) -> bool:
        wrong = all(contains(name)(case) for name in ("rint", "sub", "scan"))
        return wrong or differs(case)

    small = reduce_case(EXACT, fails, 30)

    assert contains("rint")(small)
    assert not differs(small)


def test_a_case_with_rounded_sums_allows_what_orders_explain() -> None:
    allowed = completed(ROUNDED, free_sums=True)

    assert allowed is not None
    wanted = allowed.expected["y"]
    assert not differs(allowed)
    assert wanted.rule.ulp >= 16
    wrong = wanted.data.copy()
    wrong[50] *= -4
    assert compare(wanted.data, wrong, DTYPES["bf16"], wanted.rule)[0] is not None
    small = reduce_case(ROUNDED, contains("sub"), 20)  # such a case is reduced all the same
    assert len(list(small.launch.module.kernels[0].body.walk())) < 16


@pytest.mark.slow
def test_cpu_agrees_with_the_interpreter_on_many_programs() -> None:
    pytest.importorskip("tegula_cpu")
    count = int(os.environ.get("TEGULA_FUZZ_PROGRAMS", "2000"))
    summary = fuzz("cpu", count, first=100_000, workers=2, stop_after=1)

    assert summary.findings == []


ENDLESS = """
; arg x = i32([0])
; expect x =
kernel @k(%x: ptr<i32>) {
  %zero = constant {value = 0} : i32
  %r = while [%zero] : i32 before(%i: i32) {
    %yes = constant {value = 1} : i1
    condition %yes, values = [%i]
  } after(%j: i32) {
    yield [%j]
  }
  store %x, %r
  return
}
"""


def test_an_endless_candidate_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.tools.reduce.CANDIDATE_SECONDS", 0.2)

    assert completed(from_text(ENDLESS)) is None
