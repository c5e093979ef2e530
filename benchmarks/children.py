"""What scripts share that run many cases in child processes: results are lines of JSON, which also
show that a child is alive.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any


def watch(process: subprocess.Popen[bytes], out: Path, timeout: int) -> str:
    """Wait for a child; end it if nothing is written for too long."""
    last, size = time.monotonic(), -1
    while process.poll() is None:
        time.sleep(0.2)
        now = out.stat().st_size if out.exists() else 0
        if now != size:
            last, size = time.monotonic(), now
        elif time.monotonic() - last > timeout:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"no end after {timeout} s"
    return f"the process ended with {process.returncode}"


def append(out: Path, record: dict[str, Any]) -> None:
    """Add one line to the results."""
    with out.open("a") as file:
        file.write(json.dumps(record) + "\n")
