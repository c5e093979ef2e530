"""`with`: what its manager does stands before and behind the body."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import call, jit

import tegula.language as tl

pytestmark = pytest.mark.usefixtures("on_each_backend")


@tl.aggregate
class Section:
    """Counts in memory when it is entered and left."""

    counter: tl.tensor
    step: tl.constexpr = 1

    @jit
    def __enter__(self):
        tl.store(self.counter, tl.load(self.counter) + self.step)
        return tl.load(self.counter)

    @jit
    def __exit__(self, kind, value, trace):
        tl.store(self.counter, tl.load(self.counter) * 10)


@jit
def nested(out, n):
    with Section(out) as first, Section(out, 2):
        tl.store(out + 1, first)
        tl.store(out + 2, tl.load(out))
    total = n * 0
    for i in range(n):
        if i % 2 == 0:
            with Section(out + 3):
                if i > 2:
                    total += i
                else:
                    total += 100
        else:
            continue
        total += 1
    tl.store(out + 4, total)


def test_managers_are_entered_in_order_and_left_in_reverse():
    out = call(nested, 6, shape=5, dtype=np.int32)
    assert out.tolist() == [300, 1, 3, 1110, 100 + 100 + 4 + 3]


@jit
def returns_behind(out, n):
    tl.store(out + 1, helper(out, n))


@jit
def helper(out, n):
    with Section(out):
        result = n + 1
        for i in range(n):
            if i == 2:
                break
            result += i
    return result


def test_loops_inside_may_be_left():
    assert call(returns_behind, 5, shape=2, dtype=np.int32).tolist() == [10, 7]


class Plain:
    """A manager that does not compute anything in the kernel."""

    entered = 0

    def __enter__(self):
        Plain.entered += 1
        return 7

    def __exit__(self, *error):
        Plain.entered += 10


@jit
def host(out):
    with Plain() as seven:
        tl.store(out, seven)


def test_managers_of_the_host_run_while_the_kernel_is_compiled():
    Plain.entered = 0
    assert call(host, dtype=np.int32) == 7
    assert Plain.entered == 11
