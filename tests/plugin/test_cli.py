"""`tegula backends` and `tegula doctor` in front of the worst plugins."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from rich.console import Console

from tegula.tools import cli, doctor
from tegula.tools.cli import main
from tegula.tools.doctor import satisfies

SEGFAULT = "import ctypes; ctypes.string_at(0)"
HANG = "import time; time.sleep(600)"


def tegula(installer, *arguments, **environment):
    """Run the command as a user does, with the fake distributions installed."""
    path = os.pathsep.join([str(installer.folder), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "tegula.tools.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def rows_of(process):
    return {row["name"]: row for row in json.loads(process.stdout)["backends"]}


@pytest.fixture
def zoo(install):
    """One distribution of every bad kind, and a good one."""
    install("tegula-absent", "absent", "import no_such_package_anywhere")
    install("tegula-raising", "raising", before="raise RuntimeError('no licence')")
    install("tegula-exiting", "exiting", "import os; os._exit(7)")
    install("tegula-future", "future", api="(2, 0)")
    install("tegula-old", "old", ir="((0, 0), (0, 0))")
    install("tegula-one", "twice")
    install("tegula-two", "twice")
    install("tegula-crashing", "crashing", probe=SEGFAULT)
    install("tegula-misnamed", "misnamed", backend="other")
    install("tegula-chatty", "chatty", before="print('{\"name\": 1}')", dlpack="()")
    install("tegula-unplugged", "unplugged", probe='return Probe("unavailable", "no card", "buy")')
    return install


EXPECTED = {
    "absent": ("broken", "no_such_package_anywhere"),
    "raising": ("broken", "RuntimeError: no licence"),
    "exiting": ("crashed", "exit code 7"),
    "future": ("incompatible", "plugin API 2.0"),
    "old": ("incompatible", "reads IR 0.0"),
    "twice": ("conflict", "tegula-two 1.2"),
    "crashing": ("crashed", "SIGSEGV"),
    "misnamed": ("broken", "'other'"),
    "chatty": ("available", ""),
    "unplugged": ("unavailable", "no card"),
    "interpreter": ("available", ""),
}


def test_backends_lists_every_plugin_with_its_reason(zoo):
    process = tegula(zoo, "backends", "--json")

    assert process.returncode == 1, process.stderr
    rows = rows_of(process)
    for name, (state, words) in EXPECTED.items():
        assert rows[name]["state"] == state, rows[name]
        assert words in rows[name]["reason"]
    assert rows["chatty"]["devices"][0]["name"] == "fake 0"


def test_backends_table_shows_the_same(zoo):
    process = tegula(zoo, "backends")
    assert process.returncode == 1
    for name, (state, words) in EXPECTED.items():
        assert [
            line
            for line in process.stdout.splitlines()
            if f" {name} " in line and state in line and words in line
        ], (name, process.stdout)


def test_hanging_probe_is_a_finding(install):
    install("tegula-hanging", "hanging", probe=HANG)
    process = tegula(install, "backends", "--json", "--timeout", "3")
    row = rows_of(process)["hanging"]
    assert row["state"] == "crashed"
    assert "no answer within 3 s" in row["reason"]
    assert rows_of(process)["interpreter"]["state"] == "available"


def test_backends_without_faults_exits_with_0_and_marks_the_default(install):
    install("tegula-acme", "acme", priority="300")
    process = tegula(install, "backends", "--json", TEGULA_DISABLE="cpu")
    rows = rows_of(process)
    assert process.returncode == 0, process.stdout
    assert [name for name, row in rows.items() if row["default"]] == ["acme"]
    assert next(iter(rows)) == "acme"
    assert rows["cpu"]["state"] == "blocked"


@pytest.mark.parametrize(
    "environment", [{"TEGULA_DEVICE": "interpreter"}, {"TEGULA_BACKEND": "interpreter,acme"}]
)
def test_backends_marks_the_chosen_default(install, environment):
    install("tegula-acme", "acme")
    rows = rows_of(tegula(install, "backends", "--json", **environment))
    assert [name for name, row in rows.items() if row["default"]] == ["interpreter"]


# -------------------------------------------------------------------------------------------------
# doctor


def lines_of(process):
    return {(li["section"], li["name"]): li for li in json.loads(process.stdout)["lines"]}


def test_doctor_reports_faults_and_settings(zoo):
    process = tegula(zoo, "doctor", "--json", TEGULA_DEVISE="cpu", TEGULA_DEBUG="many")
    assert process.returncode == 1, process.stderr
    lines = lines_of(process)
    assert lines["backends", "crashing"]["status"] == "problem"
    assert lines["backends", "unplugged"]["status"] == "ok"
    assert lines["settings", "TEGULA_DEVISE"]["hint"] == "did you mean 'TEGULA_DEVICE'?"
    assert lines["settings", "TEGULA_DEBUG"]["status"] == "problem"
    assert lines["packages", "numpy"]["status"] == "ok"
    assert lines["packages", "tegula-future"]["message"] == "1.2"


def test_doctor_deep_runs_a_kernel_on_the_interpreter(install):
    process = tegula(install, "doctor", "interpreter", "--deep", "--json")
    line = lines_of(process)["backend interpreter", "kernel on interpreter:0"]
    assert "right results" in line["message"], line
    assert process.returncode == 0


LOSES_STORES = """
from tegula.interp.backend import InterpreterCompiler as C
from tegula.interp.backend import InterpreterDevice, InterpreterDriver
from tegula.plugin import Kernel

class Lazy(Kernel):
    def launch(self, grid, args, *, stream=0, memory=()):
        pass

class LazyDevice(InterpreterDevice):
    def load(self, artifact):
        return Lazy()

class D(InterpreterDriver):
    def open(self, index):
        return LazyDevice(self.probe().devices[index])
"""


def test_doctor_deep_catches_wrong_results(install):
    install("tegula-lazy", "lazy", extra=LOSES_STORES)
    process = tegula(install, "doctor", "lazy", "--deep", "--json")
    line = lines_of(process)["backend lazy", "kernel on lazy:0"]
    assert line["status"] == "problem"
    assert "wrong results" in line["message"]
    assert process.returncode == 1


def test_doctor_runs_the_plugins_own_checks(install):
    install(
        "tegula-acme",
        "acme",
        extra="def boom(): raise ValueError('boom')\n"
        "@hookimpl\ndef tegula_health_checks(backend):\n"
        "    return [HealthCheck('firmware', '', lambda: Finding('warning', 'old', 'flash it')),\n"
        "            HealthCheck('raising', '', boom)]\n",
    )
    process = tegula(install, "doctor", "acme", "--json")
    lines = lines_of(process)
    assert lines["backend acme", "firmware"]["hint"] == "flash it"
    assert "ValueError: boom" in lines["backend acme", "raising"]["message"]
    assert process.returncode == 1


def test_doctor_of_a_backend_without_device_is_a_problem(install):
    install("tegula-unplugged", "unplugged", probe='return Probe("unavailable", "no card", "buy")')
    process = tegula(install, "doctor", "unplugged")
    assert process.returncode == 1
    assert "no card" in process.stdout and "buy" in process.stdout


def test_doctor_of_an_unknown_backend_is_wrong_usage(capsys):
    assert main(["doctor", "interprter"]) == 2
    assert "did you mean 'interpreter'" in capsys.readouterr().err


def test_unknown_command_is_wrong_usage():
    with pytest.raises(SystemExit) as caught:
        main(["frobnicate"])
    assert caught.value.code == 2


def test_a_failing_step_does_not_end_the_report(monkeypatch):
    monkeypatch.setattr(doctor, "packages", lambda: 1 / 0)
    monkeypatch.setattr(doctor, "backends", lambda name, deep, timeout: [])
    lines = doctor.examine(None, deep=False, timeout=1)
    assert any("ZeroDivisionError" in line.message for line in lines)
    assert any(line.section == "cache" for line in lines)


def test_missing_and_outdated_packages_are_problems(install):
    info = install.folder / "tegula_needy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tegula-needy\nVersion: 1.0\n"
        "Requires-Dist: no-such-package-anywhere>=3\nRequires-Dist: pluggy<1.0\n"
        'Requires-Dist: also-absent; extra == "more"\n'
    )
    found = {line.name: line for line in doctor.packages() if line.status == "problem"}
    assert found["no-such-package-anywhere"].hint == "pip install 'no-such-package-anywhere>=3'"
    assert "requires <1.0" in found["pluggy"].message
    assert set(found) == {"no-such-package-anywhere", "pluggy"}


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("1.26.4", ">=1.26", True),
        ("1.26", ">=1.26.0", True),
        ("1.25.9", ">=1.26", False),
        ("0.50.0", "<0.51,>=0.50", True),
        ("0.51.0", "<0.51,>=0.50", False),
        ("2.0rc1", ">=2", True),
        ("2.13.0+cpu", "==2.13.0", True),
        ("1.0", "!=1.0", False),
        ("1.0", "", True),
    ],
)
def test_version_clauses(version, wanted, answer):
    assert satisfies(version, wanted) is answer


# -------------------------------------------------------------------------------------------------
# cache


def test_cache_info_and_clear(tmp_path, monkeypatch, capsys):
    from tegula.runtime import cache

    monkeypatch.setenv("TEGULA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TEGULA_CACHE", raising=False)
    cache.store("ab" * 32, b"payload")

    assert main(["cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 1
    assert main(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 1
    assert main(["cache"]) == 0
    assert str(tmp_path) in capsys.readouterr().out


def test_names_and_states_stay_whole_on_narrow_terminals() -> None:
    table = cli._table("", "backend", "state", "from", "devices", "priority", "notes")
    table.add_row("*", "interpreter", "incompatible", "tegula_badapi 1.0", "numpy", "-100",
                  f"cannot be imported: {'Long' * 9}Error: {'why ' * 40}")  # fmt: skip
    console = Console(width=80, file=io.StringIO())
    console.print(table)
    assert {"interpreter", "incompatible", "priority"} <= set(console.file.getvalue().split())
