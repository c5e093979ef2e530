"""The conformance suite's core on the first device of the backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_core_level(device, tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tegula.tools.cli", "conformance", "xpu", "--level", "2"]
    command += ["-j", str(min(4, os.cpu_count() or 1)), "--report", str(report)]
    subprocess.run(command, capture_output=True, check=False)
    tests = json.loads(report.read_text())["tests"]
    bad = {
        t["id"]: f"{t['outcome']}: {t['message']}"
        for t in tests
        if t["outcome"] not in ("pass", "unsupported")
    }
    assert not bad
    assert sum(t["outcome"] == "pass" for t in tests) > 300
