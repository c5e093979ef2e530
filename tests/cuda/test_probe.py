"""What a probe asks, and whom; no device is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

from tegula_cuda import nvml
from tegula_cuda.nvml import Seen


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the other process prints, and how it was started."""
    given: dict[str, Any] = {"stdout": "null"}

    def run(command: list[str], **more: Any) -> Any:
        given["command"] = command
        return subprocess.CompletedProcess(command, 0, given["stdout"], "")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml, "_library", object)
    monkeypatch.setattr(subprocess, "run", run)
    return given


def test_devices_are_listed_by_another_process(answers: dict[str, Any]) -> None:
    answers["stdout"] = json.dumps([[12, 8], [["NVIDIA H200", 9, 0, 1 << 37]]])
    assert nvml.look_elsewhere() == ((12, 8), [Seen("NVIDIA H200", 9, 0, 1 << 37)])
    assert answers["command"] == [sys.executable, "-I", "-S", nvml.__file__]


@pytest.mark.parametrize("text", ["null", "", "Traceback"])
def test_without_an_answer_the_driver_is_asked(answers: dict[str, Any], text: str) -> None:
    answers["stdout"] = text
    assert nvml.look_elsewhere() is None


def test_a_selection_that_only_the_driver_understands(
    answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1234")
    assert nvml.look_elsewhere() is None and "command" not in answers


def test_the_other_process_needs_nothing_but_python() -> None:
    command = [sys.executable, "-I", "-S", nvml.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    json.loads(done.stdout)
