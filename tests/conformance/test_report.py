"""Levels, profiles, exceptions, merging, badge and the forms of a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tegula.conformance import exceptions, report, runner
from tegula.conformance.html import render
from tegula.conformance.testing import Result, Test
from tegula.plugin.errors import RecordError
from tegula.plugin.records import Expectation
from tegula.tools.cli import main


def row(id: str, level: int, outcome: str = "pass", *profiles: str) -> dict[str, Any]:
    return {
        "id": id, "level": level, "outcome": outcome, "profiles": sorted(profiles),
        "candidate": False, "requires": [], "ms": 1.0, "max_ulp": 0.0, "message": "",
    }  # fmt: skip


def ladder(**wrong: str) -> list[dict[str, Any]]:
    """One test a level, some of them with another outcome."""
    names = ["a", "b", "c", "d", "e"]
    return [row(n, level, wrong.get(n, "pass")) for level, n in enumerate(names)]


@pytest.mark.parametrize(
    ("wrong", "level"),
    [({}, 4), ({"e": "crash"}, 3), ({"d": "fail"}, 2), ({"a": "error"}, -1), ({"b": "timeout"}, 0),
     ({"d": "unsupported"}, 4), ({"c": "unsupported"}, 1), ({"d": "xfail"}, 4),
     ({"d": "xpass"}, 2)],
)  # fmt: skip
def test_a_level_implies_those_before_it(wrong: dict[str, str], level: int) -> None:
    assert report.achieved_level(ladder(**wrong)) == level


def test_a_level_without_tests_is_not_reached() -> None:
    assert report.achieved_level([row("a", 0), row("c", 2)]) == 0


def test_a_profile_takes_no_level_away_and_has_to_pass_alone() -> None:
    rows = [*ladder(), row("p", 3, "fail", "f16"), row("q", 3, "pass", "atomics")]
    rows += [row("r", 3, "unsupported", "atomics", "f64"), row("s", 3, "unsupported", "scan")]

    assert report.achieved_level(rows) == 4
    assert report.achieved_profiles(rows) == ["atomics"]


def test_a_candidate_cannot_take_a_claim_away() -> None:
    rows = [*ladder(), {**row("new", 2, "fail"), "candidate": True}]

    assert report.achieved_level(rows) == 4


@pytest.fixture(scope="module")
def made() -> report.Report:
    """A small real report."""
    return runner.run(
        "interpreter", level=4, expression="shape.arange math.exp.f32 control.if", isolate=False
    )


def test_a_partial_run_claims_nothing(made: report.Report) -> None:
    assert made["achieved"] == {"level": -1, "profiles": []}
    assert not made["conformant"]
    assert made["counts"]["pass"] == len(made["tests"]) >= 4


def test_a_report_tells_backend_device_and_capabilities(made: report.Report) -> None:
    assert made["schema"] == 1
    assert made["backend"]["name"] == "interpreter"
    assert made["device"]["target"]["arch"] == "numpy"
    assert made["capabilities"]["sha256"]
    assert made["sha256"] == report.digest(made)
    exp = next(r for r in made["tests"] if r["id"] == "math.exp.f32")
    assert exp["requires"] == ["op=exp", "dtype=f32"]
    json.dumps(made)


def test_shards_join_to_the_whole() -> None:
    words = {"expression": "shape.", "level": 2, "isolate": False}
    parts = [runner.run("interpreter", shard=(i, 3), **words) for i in (1, 2, 3)]
    whole = runner.run("interpreter", **words)
    joined = report.merge(parts)

    assert [r["id"] for r in joined["tests"]] == sorted(r["id"] for r in whole["tests"])
    assert joined["shard"] == [1, 1]
    with pytest.raises(ValueError, match="shards 1 to 3 are needed"):
        report.merge(parts[:2])
    parts[1]["tests"][0]["outcome"] = "fail"
    with pytest.raises(ValueError, match="checksum"):
        report.merge(parts)


def test_the_badge_names_level_and_profiles() -> None:
    whole = {"achieved": {"level": 3, "profiles": ["f16", "atomics"]}, "conformant": True,
             "suite": "2026.11"}  # fmt: skip

    assert report.badge(whole) == {
        "schemaVersion": 1, "label": "conformance", "message": "L3 f16 atomics · 2026.11",
        "color": "green",
    }  # fmt: skip


def test_the_page_escapes_what_backends_say(made: report.Report) -> None:
    evil = json.loads(json.dumps(made))
    evil["tests"][0]["message"] = "<script>alert(1)</script>"
    page = render(evil)

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_junit_counts_each_outcome(made: report.Report) -> None:
    changed = json.loads(json.dumps(made))
    changed["tests"][0]["outcome"], changed["tests"][1]["outcome"] = "crash", "unsupported"
    suite = ElementTree.fromstring(report.junit(report.finished(changed)))

    assert suite.attrib["tests"] == str(len(made["tests"]))
    assert suite.attrib["errors"] == "1"
    assert suite.attrib["skipped"] == "1"
    assert len(suite.findall("testcase")) == len(made["tests"])


def test_tables_show_what_works(made: report.Report) -> None:
    text = report.support_table([made])

    assert "| `exp` |" in text
    assert "yes" in text


# -- exceptions


def write(path: Path, text: str) -> Path:
    file = path / "conformance.toml"
    file.write_text(text)
    return file


def test_an_exceptions_file_is_read(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '[[unsupported]]\npattern = "dot.f64.*"\nreason = "no unit"\n'
        '[[xfail]]\npattern = "math.tanh.f64"\nreason = "9 ulp"\nissue = "https://x.example/1"\n'
        'since = "0.1"\nuntil = "0.3"\n[tolerances]\nexp = 3.0\n',
    )
    profile = exceptions.load(file, "acme")

    assert [e.kind for e in profile.expectations] == ["unsupported", "xfail"]
    assert "https://x.example/1" in profile.expectations[1].reason
    assert profile.tolerances == {"exp": 3.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [('[[xfail]]\npattern = "a"\nreason = "b"\n', "until"),
     ('[[xfail]]\npattern = "a"\nuntil = "1"\n', "reason"),
     ("[[unsupported]]\nwhat = 1\n", "unknown keys"), ("[[hidden]]\n", "unknown tables"),
     ("[[xfail", "xfail|Expected")],
)  # fmt: skip
def test_a_wrong_exceptions_file_is_explained(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=message):
        exceptions.load(write(tmp_path, text), "acme")


def excused(
    outcome: str, kind: Any, level: int = 3, until: str = "2.0", verify: bool = False
) -> str:
    test = Test("math.tanh.f64", level, lambda context: None)
    entry = Expectation("math.*", kind, "a reason", until)
    result = Result("math.tanh.f64", outcome, "seen")
    return exceptions.apply(test, result, [entry], "1.0", verify).outcome


def test_an_expected_failure_is_one() -> None:
    assert excused("fail", "xfail") == "xfail"
    assert excused("crash", "xfail") == "xfail"
    assert excused("unsupported", "xfail") == "unsupported"


def test_an_expected_failure_expires() -> None:
    assert excused("fail", "xfail", until="1.0") == "fail"
    assert excused("fail", "xfail", until="0.9.5") == "fail"


def test_an_unexpected_pass_is_shown_and_can_be_a_failure() -> None:
    assert excused("pass", "xfail") == "xpass"
    assert excused("pass", "xfail", verify=True) == "fail"


def test_the_common_core_takes_no_exceptions() -> None:
    assert excused("fail", "xfail", level=2) == "fail"


def test_unsupported_holds_only_where_the_record_agrees() -> None:
    assert excused("unsupported", "unsupported") == "unsupported"
    assert excused("pass", "unsupported") == "fail"
    assert excused("fail", "unsupported") == "fail"


# -- the command


def test_the_command_writes_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [tmp_path / n for n in ("r.json", "r.html", "r.xml")]
    code = main(
        ["conformance", "interpreter", "-k", "shape.arange", "-j", "1", "--report", str(names[0]),
         "--html", str(names[1]), "--junit", str(names[2])]
    )  # fmt: skip

    assert code == 0
    assert "1 pass" in capsys.readouterr().out
    assert all(n.stat().st_size > 100 for n in names)
    assert main(["conformance", "--badge", str(names[0])]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == "conformance"


def test_a_missing_device_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "no_such_backend"]) == 2
    assert "no backend 'no_such_backend'" in capsys.readouterr().err
    assert main(["conformance", "interpreter", "--device", "7"]) == 2


def test_wrong_usage_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance"]) == 2
    assert main(["conformance", "interpreter", "--profile", "f61"]) == 2
    assert "f16" in capsys.readouterr().err
    assert main(["conformance", "interpreter", "-k", "nothing-is-called-so", "-j", "1"]) == 2
    with pytest.raises(SystemExit):
        main(["conformance", "interpreter", "--shard", "3/2"])


def test_cases_can_be_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--list", "--level", "2", "--profile", "core"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert "L2 arith.add.f32" in listed
    assert not any("f64" in line for line in listed)
    assert main(["conformance", "--show", "shape.arange"]) == 0
    assert "; run: execute" in capsys.readouterr().out
    assert main(["conformance", "--show", "shape.nothing"]) == 2


def test_failures_are_findings(install: Callable[[str], str]) -> None:
    backend = install("swapped")

    assert main(["conformance", backend, "-k", "arith.sub.f32", "--no-isolation"]) == 1
