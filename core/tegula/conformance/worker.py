"""The process that runs tests: a crash or a hang of a backend is an outcome and no disaster.

It reads jobs from its standard input, one line of JSON each, and answers on a pipe of its own.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from typing import Any

MARK = "\x1etegula-conformance "
"""Begins every answer."""


def main(arguments: list[str]) -> None:
    """Entry of the process: backend, device, and whether the run is a full one."""
    answers = os.fdopen(int(arguments[0]), "w", encoding="utf-8")
    settings = json.loads(arguments[1])
    faulthandler.enable()
    for entry in settings.get("path", ()):
        if entry not in sys.path:
            sys.path.append(entry)
    server = Server(settings)
    for line in sys.stdin:
        job = json.loads(line)
        answers.write(MARK + json.dumps(server.answer(job)) + "\n")
        answers.flush()


class Server:
    """Answers jobs about one backend."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from tegula.conformance.testing import Context

        self.context = Context(
            settings["backend"],
            settings.get("device", 0),
            settings.get("full", False),
            settings.get("seed", 0),
        )
        self._tests: dict[str, Any] | None = None

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer; `done` is set where this process is of no more use."""
        answer = self._answer(job)
        if answer["outcome"] not in ("pass", "unsupported") and not self._works():
            answer["done"] = True
        return answer

    def _works(self) -> bool:
        """Whether the device still answers: some faults leave it useless to the process."""
        try:
            self.context.session.device.synchronize()
        except Exception:
            return False
        return True

    def _answer(self, job: dict[str, Any]) -> dict[str, Any]:
        kind = job["do"]
        if kind == "ready":
            return self.ready()
        if kind == "test":
            return self.test(job["id"])
        if kind == "program":
            return self.program(job)
        if kind == "case":
            return self.case(job["text"], job.get("ulp", {}))
        raise ValueError(f"unknown job {kind!r}")

    def ready(self) -> dict[str, Any]:
        """Import what tests need; a backend that cannot be opened shows in the tests."""
        import contextlib

        from tegula.conformance.catalog import all_tests

        all_tests(self.context.full)
        with contextlib.suppress(Exception):
            self.context.session.device  # noqa: B018
        return {"outcome": "pass"}

    def test(self, id: str) -> dict[str, Any]:
        """Run a test of the suite."""
        from tegula.conformance.catalog import all_tests
        from tegula.conformance.testing import perform

        if self._tests is None:
            self._tests = {t.id: t for t in all_tests(self.context.full)}
        return perform(self._tests[id], self.context).to_json()

    def program(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run the random program of a seed on the backend and compare with the interpreter."""
        from tegula.conformance.programs import random_program
        from tegula.conformance.text import to_text

        program = random_program(job["seed"], size=job["size"])
        case = program.case()
        outcome, message = difference(case, self.context)
        text = "" if outcome == "pass" else to_text(case)
        return {"outcome": outcome, "message": message, "text": text}

    def case(self, text: str, ulp: dict[str, float]) -> dict[str, Any]:
        """Run a case that is given as text, with the errors that buffers may have."""
        from dataclasses import replace

        from tegula.conformance.text import from_text

        case = from_text(text)
        for name, wanted in case.expected.items():
            if name in ulp:
                case.expected[name] = replace(wanted, rule=replace(wanted.rule, ulp=ulp[name]))
        outcome, message = difference(case, self.context)
        return {"outcome": outcome, "message": message}


def difference(case: Any, context: Any) -> tuple[str, str]:
    """How a case fares on the backend: pass, unsupported, or what is wrong."""
    from tegula.conformance.needs import missing
    from tegula.conformance.session import GuardError
    from tegula.conformance.testing import Failed, judge
    from tegula.plugin.errors import UnsupportedError

    reason = missing(context.session.capabilities, case.launch.module)
    if reason:
        return "unsupported", reason
    try:
        judge(case, context.session.run(case.launch, case.options), context)
    except UnsupportedError as error:
        return "error", f"declared, yet refused: {error}"
    except Failed as error:
        return "values", str(error)
    except GuardError as error:
        return "guard", str(error)
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    return "pass", ""


if __name__ == "__main__":
    main(sys.argv[1:])
