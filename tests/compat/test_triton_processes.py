"""The alias in processes that a program starts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tegula.compat.triton import STARTUP, install, uninstall

pytest.importorskip("torch")

KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def twice(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i))

def work(n):
    x = torch.ones(n)
    twice[(1,)](x, n)
    return int(x.sum())
"""


def run(*command: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(
        KERNEL
        + textwrap.dedent(
            """
            if __name__ == "__main__":
                import multiprocessing, subprocess, sys
                if len(sys.argv) > 1:
                    print(work(4))
                    sys.exit()
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.map(work, [8, 16]))
                print(subprocess.check_output([sys.executable, __file__, "child"], text=True))
            """
        )
    )
    return path


def test_children_of_a_program_have_the_alias(program: Path) -> None:
    assert run("-m", "tegula.compat.triton", str(program)).split("\n") == ["[16, 32]", "8"]


def test_the_path_alone_is_enough(program: Path) -> None:
    path = run("-m", "tegula.compat.triton", "--path")
    assert run(str(program), "alone", PYTHONPATH=path) == "8"
    version = "import importlib.metadata as m; print(m.version('triton'))"
    assert run("-c", version, PYTHONPATH=path) == "3.6.0"


def test_nothing_is_imported_before_triton_is(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the other one')")
    path = os.pathsep.join([STARTUP, str(tmp_path)])
    code = "import sys; print('tegula' in sys.modules)"
    assert run("-c", code, PYTHONPATH=path).split() == ["the", "other", "one", "False"]


def test_uninstalling_takes_the_path_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    install(children=True)
    install(children=True)
    assert os.environ["PYTHONPATH"] == STARTUP + os.pathsep + "somewhere"
    uninstall()
    assert os.environ["PYTHONPATH"] == "somewhere"
    monkeypatch.delenv("PYTHONPATH")
    install(children=True)
    assert os.environ["PYTHONPATH"] == STARTUP
    uninstall()
    assert "PYTHONPATH" not in os.environ


ASSERTING = """
import torch, triton
import triton.language as tl

@triton.jit(debug=False)
def checks(x):
    tl.device_assert(tl.load(x) > 0, "not positive")

x = torch.zeros(1)
try:
    checks[(1,)](x, debug=False)
    print("passed")
except RuntimeError:
    print("stopped")
"""


@pytest.mark.parametrize("value, expected", [("0", "passed"), ("1", "stopped")])
def test_the_variable_for_assertions_holds_for_all_kernels(
    tmp_path: Path, value: str, expected: str
) -> None:
    path = tmp_path / "asserting.py"
    path.write_text(ASSERTING)
    assert run("-m", "tegula.compat.triton", str(path), TRITON_DEBUG=value) == expected
