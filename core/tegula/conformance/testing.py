"""Tests of the suite: what one is, what it may use, and how its outcome is found."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tegula import errors
from tegula.conformance.case import Case, Spec
from tegula.conformance.needs import missing
from tegula.conformance.session import Session
from tegula.conformance.values import Rule, compare
from tegula.plugin.errors import UnsupportedError
from tegula.plugin.records import ConformanceProfile

OUTCOMES = ("pass", "fail", "error", "crash", "timeout", "xfail", "xpass", "unsupported")
GOOD = frozenset({"pass", "xfail", "unsupported"})


class Unsupported(Exception):
    """The backend says that it cannot do what the test is about."""


class Failed(AssertionError):
    """The backend does something else than it has to."""


@dataclass
class Context:
    """What a test may use."""

    backend: str
    device: int = 0
    full: bool = False
    seed: int = 0
    max_ulp: float = 0.0
    """The largest error seen in the test."""
    notes: list[str] = field(default_factory=list)

    @cached_property
    def session(self) -> Session:
        return Session(self.backend, self.device)

    @cached_property
    def profile(self) -> ConformanceProfile:
        return self.session.backend.conformance(self.device)

    def need(self, feature: str) -> None:
        """End the test as unsupported unless the backend declares a feature."""
        if feature not in self.session.capabilities.features:
            raise Unsupported(f"feature '{feature}' is not declared")


Run = Callable[[Context], None]


@dataclass(frozen=True)
class Test:
    """One test of the suite."""

    id: str
    level: int
    run: Run
    profiles: frozenset[str] = frozenset()
    requires: tuple[str, ...] = ()
    timeout: float = 60.0
    candidate: bool = False
    """New in this release of the suite: its failure does not yet take a level away."""
    full_only: bool = False

    def __post_init__(self) -> None:
        assert 0 <= self.level <= 4, self.id


@dataclass
class Result:
    """What came out of a test."""

    id: str
    outcome: str
    message: str = ""
    ms: float = 0.0
    max_ulp: float = 0.0

    def to_json(self) -> dict[str, Any]:
        worst = self.max_ulp if np.isfinite(self.max_ulp) else None
        return {
            "id": self.id,
            "outcome": self.outcome,
            "ms": round(self.ms, 2),
            "max_ulp": worst,
            "message": self.message,
        }


def perform(test: Test, context: Context) -> Result:
    """Run one test and say how it went. Lets nothing out but what ends the process."""
    context.max_ulp = 0.0
    context.notes.clear()
    begin = time.perf_counter()
    try:
        with np.errstate(all="ignore"):  # NaN and overflows are what tests are about
            test.run(context)
        outcome, message = "pass", "; ".join(context.notes)
    except Unsupported as reason:
        outcome, message = "unsupported", str(reason)
    except AssertionError as error:
        outcome, message = "fail", _describe(error)
    except (Exception, SystemExit) as error:
        outcome, message = "error", _describe(error)
    spent = (time.perf_counter() - begin) * 1e3
    return Result(test.id, outcome, message, spent, context.max_ulp)


def _describe(error: BaseException) -> str:
    text = str(error).strip() or "no message"
    name = type(error).__name__
    return text if isinstance(error, Failed) else f"{name}: {text}"


# -------------------------------------------------------------------------------------------------
# Cases as tests


def case_test(spec: Spec) -> Test:
    """The test that a case of the suite stands for."""
    requires = [f"op={name}" for name in spec.subjects]
    requires += [f"dtype={t.name}" for t in spec.dtypes]
    requires += [f"feature={name}" for name in sorted(spec.features)]
    return Test(
        spec.id, spec.level, lambda context: run_spec(spec, context), spec.profiles,
        tuple(requires),
    )  # fmt: skip


def run_spec(spec: Spec, context: Context) -> None:
    """Compile the case, launch it and judge what it leaves."""
    for feature in spec.features:
        context.need(feature)
    case = spec.make()
    reason = missing(context.session.capabilities, case.launch.module)
    if reason:
        raise Unsupported(reason)
    tolerance = max((context.profile.tolerances.get(s, 0.0) for s in spec.subjects), default=0.0)
    with captured() as printed:
        try:
            after = run_case(case, context)
        except UnsupportedError as error:
            raise Failed(
                f"the capability record has it, yet it does not compile: {error}"
            ) from None
    if case.raises:
        if not isinstance(after, Exception):
            raise Failed(f"the launch should have ended in {case.raises}, and ended well")
        return
    assert not isinstance(after, Exception)
    judge(case, after, context, tolerance)
    _check_output(case, printed())


def run_case(case: Case, context: Context) -> dict[str, np.ndarray] | Exception:
    """Buffers after the launch, or the expected exception."""
    if not case.raises:
        return context.session.run(case.launch, case.options)
    kind = getattr(errors, case.raises)
    artifact = context.session.compile(case.launch.module, case.options)
    try:
        return context.session.run(case.launch, artifact=artifact)
    except kind as error:
        return error


def judge(
    case: Case, after: dict[str, np.ndarray], context: Context, tolerance: float = 0.0
) -> None:
    """Raise Failed unless every buffer holds what it has to."""
    dtypes = {b.name: b.dtype for b in case.launch.buffers}
    for name, wanted in case.expected.items():
        rule = wanted.rule
        if tolerance > rule.ulp:
            rule = Rule(tolerance, rule.relative, rule.scale, rule.zero_sign)
        difference, worst = compare(wanted.data, after[name], dtypes[name], rule)
        if np.isfinite(worst):
            context.max_ulp = max(context.max_ulp, worst)
        if difference is not None:
            raise Failed(f"buffer '{name}': {difference}")


def _check_output(case: Case, text: str) -> None:
    position = 0
    for piece in case.output:
        found = text.find(piece, position)
        if found < 0:
            raise Failed(f"the output lacks {piece!r} (in this order); it is {text[:400]!r}")
        position = found + len(piece)


@contextlib.contextmanager
def captured() -> Iterator[Callable[[], str]]:
    """Catch what is printed, by Python or by native code; the function gives the text."""
    text: list[str] = []
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        saved_fd, saved = os.dup(1), sys.stdout
        os.dup2(file.fileno(), 1)
        sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
        try:
            yield lambda: "".join(text)
        finally:
            with contextlib.suppress(OSError):
                sys.stdout.close()
            sys.stdout = saved
            os.dup2(saved_fd, 1)
            os.close(saved_fd)
            file.seek(0)
            text.append(file.read().decode("utf-8", "replace"))
