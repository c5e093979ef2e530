"""Level 0: the plugin itself. No device is needed."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tegula.conformance.testing import Context, Failed, Test, Unsupported
from tegula.errors import OptionError, TegulaError
from tegula.plugin.backend import Backend
from tegula.plugin.records import BackendSpec, Probe
from tegula.versions import API, API_MIN, IR_VERSION

IMPORT_MS = 100.0
HEAVY = ("torch", "llvmlite", "numba", "jax", "tensorflow", "cupy", "triton")
"""Modules that a plugin module must not pull in when it is only looked at."""


def _backend(context: Context) -> Backend:
    from tegula.plugin.registry import registry

    return registry.backend(context.backend)


def _module_file(backend: Backend) -> Path:
    module = backend.source.module.partition(":")[0]
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin:
        raise Failed(f"the plugin module '{module}' has no source file to look at")
    return Path(spec.origin)


def _python(code: str, *arguments: str, timeout: float = 60.0) -> Any:
    """Run code in a fresh interpreter; it prints one line of JSON."""
    import os

    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode != 0:
        raise Failed(f"a fresh process ended with {done.returncode}: {done.stderr[-400:]}")
    return json.loads(done.stdout.splitlines()[-1])


def record(context: Context) -> None:
    """The record is one of the contract's, and its versions fit."""
    spec = _backend(context).spec
    if not isinstance(spec, BackendSpec):
        raise Failed(f"tegula_backends gives {type(spec).__name__}, not BackendSpec")
    if spec.name != context.backend:
        raise Failed(f"the record's name '{spec.name}' is not that of the entry point")
    if not API_MIN <= spec.api <= API or spec.api[0] != API[0]:
        raise Failed(f"api {spec.api} is not served (core: {API_MIN} to {API})")
    if not spec.ir[0] <= IR_VERSION <= spec.ir[1]:
        raise Failed(f"IR version {IR_VERSION} is outside of {spec.ir}")
    if not spec.summary:
        raise Failed("the record has no summary")


def literal_versions(context: Context) -> None:
    """`api` and `ir` are written as literals: constants of the core would always match."""
    backend = _backend(context)
    tree = ast.parse(_module_file(backend).read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BackendSpec"
    ]
    if not calls:
        raise Failed("the plugin module makes no BackendSpec(...) that can be read")
    for call in calls:
        given = {k.arg: k.value for k in call.keywords}
        for name in ("api", "ir"):
            if name not in given:
                raise Failed(f"BackendSpec(...) does not name `{name}`")
            try:
                ast.literal_eval(given[name])
            except ValueError:
                raise Failed(f"`{name}` has to be a literal, not an expression") from None


def light_import(context: Context) -> None:
    """Importing the plugin module is fast and brings neither compiler nor driver nor libraries."""
    backend = _backend(context)
    code = (
        "import importlib, json, sys, time\n"
        "import numpy, tegula.plugin\n"  # which every use of the core brings along
        "before = set(sys.modules)\n"
        "begin = time.perf_counter()\n"
        "importlib.import_module(sys.argv[1])\n"
        "spent = (time.perf_counter() - begin) * 1e3\n"
        "print(json.dumps([spent, sorted(set(sys.modules) - before)]))\n"
    )
    module = backend.source.module.partition(":")[0]
    best = min((_python(code, module) for _ in range(3)), key=lambda found: found[0])
    spent, modules = best
    lazy = [path.partition(":")[0] for path in (backend.spec.compiler, backend.spec.driver) if path]
    heavy = [
        name for name in modules if name.split(".")[0] in HEAVY or (name in lazy and name != module)
    ]
    if heavy:
        raise Failed(f"importing '{module}' also imports {', '.join(heavy[:5])}")
    context.notes.append(f"{spent:.0f} ms")
    if spent > IMPORT_MS:
        raise Failed(f"importing '{module}' takes {spent:.0f} ms, more than {IMPORT_MS:.0f} ms")


def public_imports(context: Context) -> None:
    """The plugin's package uses nothing of the core that begins with an underscore."""
    backend = _backend(context)
    top = backend.source.module.partition(":")[0].split(".")[0]
    if top == "tegula":
        raise Unsupported("the backend is part of the core")
    file = _module_file(backend)
    files = sorted(file.parent.rglob("*.py")) if file.parent.name == top else [file]
    for source in files:
        for where, name in _private_uses(ast.parse(source.read_text(encoding="utf-8"))):
            raise Failed(f"{source.name}:{where} uses the private name '{name}' of the core")


def _private_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tegula":
            names = [*(node.module or "").split("."), *(a.name for a in node.names)]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tegula":
                    names += alias.name.split(".")
        for name in names:
            if name.startswith("_") and not name.startswith("__"):
                yield getattr(node, "lineno", 0), name


def probe(context: Context) -> None:
    """A probe answers with a record, starts no thread, and lets the process fork afterwards."""
    backend = _backend(context)
    if backend.spec.driver is None:
        raise Unsupported("the backend only compiles")
    found = backend.probe()
    if not isinstance(found, Probe):
        raise Failed(f"probe() gives {type(found).__name__}, not Probe")
    code = (
        "import json, os, sys, threading, time\n"
        "import numpy\n"  # it may start threads of its own
        "from tegula.plugin.registry import registry\n"
        "b = registry.backend(sys.argv[1])\n"
        "tasks = lambda: len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task')"
        " else threading.active_count()\n"
        "before = tasks()\n"
        "begin = time.perf_counter()\n"
        "p = b.probe()\n"
        "spent = time.perf_counter() - begin\n"
        "started = tasks() - before\n"
        "code = 0\n"
        "if hasattr(os, 'fork'):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(0 if b.probe().status == p.status else 9)\n"
        "    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "print(json.dumps([p.status, spent, started, code]))\n"
    )
    status, spent, started, code = _python(code, context.backend)
    if status != found.status:
        raise Failed(f"one process sees '{found.status}', another '{status}'")
    if started > 0:
        raise Failed(f"probe() started {started} thread(s)")
    if code != 0:
        raise Failed(f"a process forked after probe() ended with {code}")
    if spent > 5:
        raise Failed(f"probe() takes {spent:.1f} s")


def typed_errors(context: Context) -> None:
    """Wrong options and devices end in the contract's errors, with the name in the message."""
    backend = _backend(context)
    compiler = backend.compiler
    target = compiler.targets()[0]
    try:
        compiler.options(target, {"no_such_option": 1})
    except OptionError as error:
        if "no_such_option" not in str(error):
            raise Failed(f"the error does not name the option: {error}") from None
    else:
        raise Failed("an unknown compile option is accepted")
    if backend.spec.driver is None or not backend.available:
        return
    try:
        backend.driver.open(9999)
    except (TegulaError, IndexError):
        return
    raise Failed("device 9999 can be opened")


def exceptions_file(context: Context) -> None:
    """Declared exceptions name tests that exist, and nothing of the core."""
    from tegula.conformance.catalog import all_tests
    from tegula.conformance.exceptions import matches

    profile = _backend(context).conformance()
    if profile.backend != context.backend:
        raise Failed(f"the profile is for '{profile.backend}', not for '{context.backend}'")
    ids = [t.id for t in all_tests(True)]
    for e in profile.expectations:
        if not any(matches(e, id) for id in ids):
            raise Failed(f"the exception '{e.pattern}' matches no test")
    from tegula.ir.ops import OPS

    for name in profile.tolerances:
        if name not in OPS:
            raise Failed(f"a tolerance is declared for '{name}', which is no op")


CHECKS = (
    record, literal_versions, light_import, public_imports, probe, typed_errors, exceptions_file,
)  # fmt: skip


def tests() -> Iterator[Test]:
    """All tests of this module."""
    for check in CHECKS:
        yield Test(f"plugin.{check.__name__}", 0, check)
