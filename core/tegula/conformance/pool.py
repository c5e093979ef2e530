"""Worker processes: each does one job at a time; a dead or silent one is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tegula.conformance.worker import MARK

Job = dict[str, Any]

START_SECONDS = 120.0
"""What a worker may take until it is ready."""


class Worker:
    """One child process and what it is doing."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        path = [entry for entry in sys.path if entry]
        given = json.dumps({**settings, "path": path})
        self.errors = open(os.devnull, "w") if settings.get("quiet", True) else None  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tegula.conformance.worker", str(writer), given],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            pass_fds=(writer,),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )
        os.close(writer)
        self.reader = reader
        self.buffer = b""
        self.job: Job | None = None
        self.deadline = 0.0

    def start(self, job: Job, timeout: float) -> None:
        """Hand over a job."""
        assert self.process.stdin is not None
        self.job = job
        self.deadline = time.monotonic() + timeout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def warm_up(self) -> None:
        """Wait until everything is imported, so that this is not counted as a test's time."""
        self.start({"do": "ready"}, START_SECONDS)
        while time.monotonic() < self.deadline:
            if select.select([self.reader], [], [], 1.0)[0]:
                answer, ended = self.read()
                if answer is not None or ended:
                    break
        self.job = None

    def read(self) -> tuple[dict[str, Any] | None, bool]:
        """An answer if there is one, and whether the process has ended."""
        data = os.read(self.reader, 1 << 16)
        if not data:
            return None, True
        self.buffer += data
        while b"\n" in self.buffer:
            line, _, self.buffer = self.buffer.partition(b"\n")
            text = line.decode("utf-8", "replace")
            _, mark, answer = text.partition(MARK)
            if mark:
                return json.loads(answer), False
        return None, False

    def ending(self) -> str:
        """How the process ended."""
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            return "closed its pipe and went on"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def close(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, OSError):
                self.process.stdin.close()
        os.close(self.reader)
        if self.errors is not None:
            self.errors.close()


@dataclass
class Answer:
    """What became of a job."""

    job: Job
    outcome: str
    data: dict[str, Any]

    @property
    def message(self) -> str:
        return str(self.data.get("message", ""))


class Pool:
    """Several workers with the same settings."""

    def __init__(self, settings: Mapping[str, Any], size: int = 1, timeout: float = 60.0) -> None:
        self.settings = dict(settings)
        self.size = max(1, size)
        self.timeout = timeout
        self.workers: list[Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.close()
        self.workers.clear()

    def one(self, job: Job, timeout: float | None = None) -> Answer:
        """Do one job."""
        return next(self.map([job], lambda _: timeout or self.timeout))

    def map(
        self, jobs: Iterable[Job], timeout: Callable[[Job], float] | None = None
    ) -> Iterator[Answer]:
        """Do all jobs; answers come as they are ready."""
        waiting = iter(jobs)
        limit = timeout or (lambda _: self.timeout)
        more = True
        while True:
            busy = [w for w in self.workers if w.job is not None]
            while more and len(busy) < self.size:
                job = next(waiting, None)
                if job is None:
                    more = False
                    break
                worker = self._idle()
                worker.start(job, limit(job))
                busy.append(worker)
            if not busy:
                return
            yield from self._collect(busy)

    def _idle(self) -> Worker:
        for worker in self.workers:
            if worker.job is None:
                return worker
        worker = Worker(self.settings)
        self.workers.append(worker)
        worker.warm_up()
        return worker

    def _collect(self, busy: list[Worker]) -> Iterator[Answer]:
        soonest = min(w.deadline for w in busy)
        wait = max(0.0, min(soonest - time.monotonic(), 5.0))
        ready, _, _ = select.select([w.reader for w in busy], [], [], wait)
        for worker in busy:
            job = worker.job
            assert job is not None
            if worker.reader in ready:
                data, ended = worker.read()
                if data is not None:
                    worker.job = None
                    if data.get("done"):
                        self._replace(worker)
                    yield Answer(job, data.get("outcome", "error"), data)
                elif ended:
                    message = f"the process {worker.ending()}"
                    self._replace(worker)
                    yield Answer(job, "crash", {"message": message})
            elif time.monotonic() > worker.deadline:
                self._replace(worker)
                yield Answer(job, "timeout", {"message": "no answer within the time it has"})

    def _replace(self, worker: Worker) -> None:
        worker.close()
        self.workers.remove(worker)
