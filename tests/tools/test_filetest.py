"""The file-test machinery itself: what it accepts, reports and rewrites; and `tegula-opt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tegula.tools.filetest import FileTestFailure, blessed, read_cases, run_case
from tegula.tools.opt import main

OPT = """; run: opt cse
; case: twice
kernel @k(%p: ptr<i32>, %x: i32) {
  %1 = add %x, %x : i32
  %2 = add %x, %x : i32
  %3 = mul %1, %2 : i32
  store %p, %3
  return
}
"""

EXPECTED = """; expect:
; kernel @k(%p: ptr<i32>, %x: i32) {
;   %0 = add %x, %x : i32
;   %1 = mul %0, %0 : i32
;   store %p, %1
;   return
; }
"""

EXECUTE = """; run: execute
; grid: 2
; arg p = i32(zeros(2))
; arg x = 5
; expect p = i32([5, 6])
kernel @k(%p: ptr<i32>, %x: i32) {
  %0 = program_id {axis = 0} : i32
  %1 = add %x, %0 : i32
  %2 = addptr %p, %0 : ptr<i32>
  store %2, %1
  return
}
"""


def run_text(tmp_path: Path, text: str, bless: bool = False) -> list[str] | None:
    """Run a file of one case."""
    path = tmp_path / "case.tir"
    path.write_text(text)
    (case,) = read_cases(path)
    return run_case(case, bless=bless)


def test_a_case_that_agrees(tmp_path: Path) -> None:
    assert run_text(tmp_path, OPT + EXPECTED) is None


def test_a_case_without_expectation_fails_and_shows_the_result(tmp_path: Path) -> None:
    with pytest.raises(FileTestFailure, match=r"no `; expect:`(.|\n)*\+  %1 = mul %0, %0"):
        run_text(tmp_path, OPT)


def test_a_difference_is_shown_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(FileTestFailure) as caught:
        run_text(tmp_path, OPT + EXPECTED.replace("mul", "add"))

    text = str(caught.value)
    assert "-  %1 = add %0, %0 : i32" in text
    assert "+  %1 = mul %0, %0 : i32" in text
    assert "case.tir -k '0-twice' --bless" in text


def test_blessing_writes_the_expectation(tmp_path: Path) -> None:
    wrong = OPT + EXPECTED.replace("mul", "add")
    path = tmp_path / "case.tir"

    lines = run_text(tmp_path, wrong, bless=True)

    assert lines is not None
    blessed(path, {0: lines})
    assert path.read_text() == OPT + EXPECTED
    assert run_text(tmp_path, path.read_text(), bless=True) is None


def test_execution_that_agrees(tmp_path: Path) -> None:
    assert run_text(tmp_path, EXECUTE) is None


def test_execution_that_differs(tmp_path: Path) -> None:
    text = EXECUTE.replace("[5, 6]", "[5, 7]")

    with pytest.raises(FileTestFailure, match=r"'p' is another(.|\n)*\+i32\(\[5, 6\]\)"):
        run_text(tmp_path, text)
    assert "; expect p = i32([5, 6])" in (run_text(tmp_path, text, bless=True) or [])


def test_errors_are_expected_by_their_message(tmp_path: Path) -> None:
    bad = "; run: verify\n; error: not i32 and i64\nkernel @k(%a: i32, %b: i64) {\n"
    bad += "  %0 = add %a, %b : i32\n  return\n}\n"

    assert run_text(tmp_path, bad) is None
    with pytest.raises(FileTestFailure, match="the error is another one"):
        run_text(tmp_path, bad.replace("not i32 and i64", "something else"))
    with pytest.raises(FileTestFailure, match="no error was raised"):
        run_text(tmp_path, bad.replace("i64", "i32"))


def test_positions_in_errors_are_the_files(tmp_path: Path) -> None:
    path = tmp_path / "case.tir"
    path.write_text("; run: verify\nkernel @k() {\n  return\n}\n; -----\nkernel @k() {\n  oh\n}\n")
    cases = read_cases(path)

    with pytest.raises(Exception, match="line 7, column 3"):
        run_case(cases[1])


def test_a_file_needs_a_command(tmp_path: Path) -> None:
    path = tmp_path / "case.tir"
    path.write_text("; run: guess\nkernel @k() {\n  return\n}\n")

    with pytest.raises(FileTestFailure, match="needs `; run:` with one of opt, verify"):
        read_cases(path)


def test_opt_runs_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.tir"
    path.write_text(OPT)

    assert main([str(path), "-p", "cse", "--time", "--trace"]) == 0

    shown = capsys.readouterr().out
    assert "%1 = mul %0, %0" in shown
    assert "ms  cse" in shown


def test_opt_prints_between_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.tir"
    path.write_text(OPT)

    assert main([str(path), "-O", "--print-between-passes"]) == 0

    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("; after")][:2] == [
        "; after inline",
        "; after canonicalize",
    ]


def test_opt_reports_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.tir"
    path.write_text("kernel @k( {\n")

    assert main([str(path)]) == 1
    assert "line 1, column 12" in capsys.readouterr().err
    path.write_text(OPT)
    assert main([str(path), "-p", "csee"]) == 1
    assert "did you mean 'cse'" in capsys.readouterr().err


def test_opt_runs_file_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.tir"
    path.write_text(OPT + EXPECTED + "; -----\n" + OPT.replace("twice", "wrong"))

    assert main([str(path), "--run"]) == 1

    shown = capsys.readouterr().out
    assert "ok    0-twice" in shown
    assert "FAIL  1-wrong" in shown
