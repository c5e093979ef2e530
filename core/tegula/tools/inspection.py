"""What can be learned about every backend without trusting any: plugins run in child processes.

The parent reads metadata only. A child imports one plugin after the other, looks for devices and
says what it found, one line of JSON each. If it dies or hangs, the backend it was at is the culprit
and another child goes on with the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from tegula.plugin.loader import State

MARK = "\x1etegula "
"""Begins every line of a child that is meant for the parent; plugins may print others."""


@dataclass
class Inspection:
    """Everything that was found out about one backend."""

    name: str
    module: str
    dist: str
    version: str
    state: State
    reason: str = ""
    hint: str = ""
    details: str = ""
    spec: dict[str, Any] | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    """Results of health checks and of the deep test: name, status, message, hint."""

    @property
    def source(self) -> str:
        return f"{self.dist} {self.version}".strip()

    @property
    def priority(self) -> int | None:
        return None if self.spec is None else self.spec["priority"]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def inspect_backends(
    names: Sequence[str] | None = None,
    *,
    checks: bool = False,
    deep: bool = False,
    timeout: float = 20.0,
) -> list[Inspection]:
    """Look at the named backends, or all; the preferred first and the faulty last."""
    from tegula.plugin.registry import registry

    found = [
        Inspection(
            b.name,
            b.source.module,
            b.source.dist,
            b.source.version,
            b.state,
            b.status.reason,
            b.status.hint,
        )
        for b in registry.peek()
        if names is None or b.name in names
    ]
    waiting = {i.name: i for i in found if i.state is State.REGISTERED}
    while waiting:
        _ask_child(waiting, checks=checks, deep=deep, timeout=timeout)
    return sorted(found, key=_order)


def _order(i: Inspection) -> tuple[bool, int, str]:
    return (i.spec is None, -(i.priority or 0), i.name)


def _ask_child(waiting: dict[str, Inspection], *, checks: bool, deep: bool, timeout: float) -> None:
    """Let one child inspect what is waiting; take out what is settled, at least one of them."""
    flags = ["--checks"] * checks + ["--deep"] * deep
    child = subprocess.Popen(
        [sys.executable, "-m", "tegula.tools.inspection", *flags, *waiting],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert child.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_pump, args=(child.stdout, lines), daemon=True).start()
    current = next(iter(waiting))
    try:
        while waiting:
            line = lines.get(timeout=timeout)
            if line is None:
                _blame(waiting.pop(current), f"the process {_ending(child.wait())}")
                return
            message = json.loads(line)
            current = message["name"]
            if "state" in message:
                inspection = waiting.pop(current)
                for key, value in message.items():
                    setattr(inspection, key, value)
                inspection.state = State(inspection.state)
                current = next(iter(waiting), current)
    except queue.Empty:
        _blame(waiting.pop(current), f"there was no answer within {timeout:g} s")
    finally:
        child.kill()
        child.wait()


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    with contextlib.suppress(ValueError):  # closed while reading
        for line in stream:
            _, mark, text = line.partition(MARK)
            if mark:
                lines.put(text)
    lines.put(None)


def _blame(inspection: Inspection, what: str) -> None:
    inspection.state = State.CRASHED
    inspection.reason = f"{what} while its plugin was loaded or looked for devices"
    inspection.hint = f"reinstall {inspection.dist}, or set TEGULA_DISABLE={inspection.name}"


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


# -------------------------------------------------------------------------------------------------
# The child


def _say(message: dict[str, Any]) -> None:
    print(f"\n{MARK}{json.dumps(message)}", flush=True)


def _inspect_here(name: str, *, checks: bool, deep: bool) -> dict[str, Any]:
    from tegula.plugin.errors import PluginError
    from tegula.plugin.registry import registry

    with contextlib.suppress(PluginError):  # the reason is in the status
        registry.backend(name)
    backend = next(b for b in registry.peek() if b.name == name)
    probe = backend.probe()
    results = []
    if backend.state.loaded and checks:
        from tegula.tools.selftest import health_results

        results += health_results(backend)
    if backend.available and deep:
        from tegula.tools.selftest import run_small_kernel

        results += [run_small_kernel(backend, d.index) for d in probe.devices]
    status = backend.status
    return {
        "name": name,
        "state": str(State.AVAILABLE if backend.available else status.state),
        "reason": status.reason,
        "hint": status.hint,
        "details": status.details,
        "spec": backend.spec.to_json() if backend.state.loaded else None,
        "devices": [d.to_json() for d in probe.devices],
        "checks": results,
    }


def main(arguments: Sequence[str]) -> None:
    """Entry of the child: inspect the named backends in order."""
    flags = {a for a in arguments if a.startswith("--")}
    for name in arguments:
        if name in flags:
            continue
        _say({"name": name})
        _say(_inspect_here(name, checks="--checks" in flags, deep="--deep" in flags))


if __name__ == "__main__":
    main(sys.argv[1:])
