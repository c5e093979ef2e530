"""All tests of the suite, in the order of their levels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tegula.conformance.case import Spec
from tegula.conformance.testing import Test, case_test


def all_specs() -> Iterator[Spec]:
    """All cases."""
    from tegula.conformance.cases import (
        atomics,
        bytes,
        collect,
        combining,
        control,
        elementwise,
        memory,
        shapes,
    )

    for module in (control, memory, elementwise, shapes, combining, collect, atomics, bytes):
        yield from module.specs()


@lru_cache(maxsize=2)
def all_tests(full: bool) -> tuple[Test, ...]:
    """All tests; a full run has more random programs."""
    from tegula.conformance.checks import compiling, device, plugin, stress

    found = [*plugin.tests(), *compiling.tests(), *map(case_test, all_specs())]
    found += [*device.tests(), *stress.tests(full)]
    found.sort(key=lambda t: t.level)
    ids = [t.id for t in found]
    assert len(ids) == len(set(ids)), "two tests have the same id"
    return tuple(found)


def selected(
    full: bool = False,
    level: int = 4,
    profiles: frozenset[str] | None = None,
    expression: str = "",
    shard: tuple[int, int] = (1, 1),
) -> list[Test]:
    """The tests of a run.

    `profiles` keeps, of the tests that belong to profiles, those that belong to these alone.
    `expression` is a list of words: a test is kept if one of them is part of its id; a word with
    `!` before it takes away. A shard is every n-th test.
    """
    number, count = shard
    chosen = [t for t in all_tests(full) if t.level <= level]
    if profiles is not None:
        chosen = [t for t in chosen if t.profiles <= profiles]
    words = expression.split()
    wanted = [w for w in words if not w.startswith("!")]
    unwanted = [w[1:] for w in words if w.startswith("!")]
    if wanted:
        chosen = [t for t in chosen if any(w in t.id for w in wanted)]
    chosen = [t for t in chosen if not any(w in t.id for w in unwanted)]
    return chosen[number - 1 :: count]
