"""The kernels of the conformance suite and of the fuzzer become machine code; no device is needed.

A few of them in the ordinary tests, all of them in the slow ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip("tegula_cuda")

from tegula.conformance.case import Case
from tegula.conformance.catalog import all_specs
from tegula.conformance.needs import missing
from tegula.conformance.programs import random_program
from tegula.conformance.session import compile_module
from tegula.plugin.registry import registry
from tegula_cuda import ptxas
from tegula_cuda.target import resolve

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a")
SOME = (
    "memory.copy.f32", "reduce.max.f16", "scan.add.i32", "dot.f16.f16.f32", "dot.i8.i8.i32",
    "collect.sort.i16", "collect.histogram.i32", "atomic.cas.f32", "atomic.poll.i32",
    "descriptor.load.f8e5.nan", "control.while", "debug.print", "arith.rem.f64",
)  # fmt: skip
PROGRAMS = 60

pytestmark = pytest.mark.skipif(ptxas.find() is None, reason="ptxas is not installed")


def failures(arch: str, cases: Iterable[tuple[str, Case]]) -> Iterator[str]:
    """What does not compile for an architecture, of what its record declares."""
    backend, target = registry.backend("cuda"), resolve(arch)
    record = backend.compiler.capabilities(target)
    for name, case in cases:
        module = case.launch.module
        if missing(record, module):
            continue
        try:
            made = compile_module(backend, target, module, case.options)
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"
        else:
            if made.kind != "cubin":
                yield f"{name}: {made.kind}"


def test_the_sample_is_of_cases_that_there_are() -> None:
    known = {spec.id for spec in all_specs()}
    assert [name for name in SOME if name not in known] == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_some_cases_become_machine_code(arch: str) -> None:
    chosen = [spec for spec in all_specs() if spec.id in SOME]
    assert list(failures(arch, ((s.id, s.make()) for s in chosen))) == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("part", range(8))
def test_all_cases_become_machine_code(arch: str, part: int) -> None:
    chosen = list(all_specs())[part::8]
    assert list(failures(arch, ((s.id, s.make()) for s in chosen))) == []


def _programs(first: int, count: int) -> Iterator[tuple[str, Any]]:
    for seed in range(first, first + count):
        yield f"program {seed}", random_program(seed).case()


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_random_programs_become_machine_code(arch: str) -> None:
    assert list(failures(arch, _programs(0, PROGRAMS))) == []
