"""Offsets into arrays of more than 2^30 elements are computed in int64, or reported."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.errors import OffsetWarning

FAR = 2**31 + 2**20
"""Elements; the memory is not touched where no kernel writes."""


@pytest.fixture(scope="module")
def far() -> np.ndarray:
    return np.zeros(FAR, np.int8)


@pytest.fixture(autouse=True)
def device(backend_name):
    with tegula.use_device(backend_name), warnings.catch_warnings():
        warnings.simplefilter("error", OffsetWarning)
        yield


@tegula.jit
def rows(x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    offsets = row * stride + columns
    tl.store(x + offsets, 1 + columns, mask=columns < n)


def test_products_of_arguments_reach_all_of_a_far_array(far):
    rows[(3,)](far, 2**30 + 2**18, 5, 8)
    for row in range(3):
        start = row * (2**30 + 2**18)
        assert far[start : start + 8].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]
        far[start : start + 8] = 0
    small = np.zeros(40, np.int8)
    rows[(3,)](small, 12, 5, 8)
    assert small[24:32].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]


@tegula.jit
def last_block(x, first, n, BLOCK: tl.constexpr):
    offsets = (tl.program_id(0) + first) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, 3, mask=offsets < n)


@pytest.mark.parametrize("n", [2**31 - 5, 2**31 + 10], ids=["int32", "int64"])
def test_masks_do_not_wrap_either(far, n):
    last_block[(2,)](far[:n], 2**24 - 1, n, 128)
    assert far[2**31 - 128 : n].all() and not far[n : n + 512].any()
    far[2**31 - 128 : n] = 0


@tegula.jit
def helper(x, at, value):
    tl.store(x + at, value)


@tegula.jit
def moved(x, big, small, which):
    p = x + big * 4
    i = tl.minimum(big * 4, big * 3)
    if which > 0:
        helper(p + small, 0, 7)
        i = i + 0
    tl.store(x + tl.where(which > 0, big * 4, 0) + 1, 8)
    tl.store(x + i.to(tl.int64), 9)
    tl.store(x + (big * 4).to(tl.int64) + 2, 6)


def test_choices_casts_and_calls(far):
    big = 2**29 + 2**10
    moved[(1,)](far, big, 3, 1)
    assert far[big * 4 : big * 4 + 4].tolist() == [0, 8, 6, 7]
    far[big * 4 : big * 4 + 4] = 0
    far[big * 3] = 0


@tegula.jit
def carried(x, step, n):
    at = step * 0
    for _ in range(n):
        tl.store(x + at, 1)
        at += step


def test_what_a_loop_carries_is_reported_once_with_its_line(far):
    with pytest.warns(OffsetWarning) as told:
        carried[(1,)](far, 16, 4)
        carried[(1,)](far, 16, 4)
        carried[(1,)](far, 16, 5)
    (message,) = {str(w.message) for w in told}
    line = carried.fn.__code__.co_firstlineno + 4
    assert message.startswith(f"{__file__}:{line}: in `carried`: an offset may leave int32")
    assert far[:80:16].all()
    far[:96] = 0


def test_a_kernel_from_the_cache_reports_as_well(far):
    carried.forget()
    with pytest.warns(OffsetWarning, match="carried by a loop"):
        carried[(1,)](far, 16, 4)
    far[:96] = 0


def test_small_arrays_are_never_reported():
    x = np.zeros(64, np.int8)
    carried[(1,)](x, 16, 4)
    assert x.sum() == 4


def test_one_launcher_tells_far_arrays_from_near_ones(far):
    launch = rows[(3,)]
    near = np.zeros(64, np.int8)
    for _ in range(3):
        launch(near, 12, 5, 8)
        launch(far, 2**30 + 2**18, 5, 8)
    start = 2 * (2**30 + 2**18)
    assert far[start : start + 5].tolist() == [1, 2, 3, 4, 5]
    for row in range(3):
        far[row * (2**30 + 2**18) :][:8] = 0
    assert near[24:29].tolist() == [1, 2, 3, 4, 5]


def test_torch_tensors_and_own_arrays(far):
    torch = pytest.importorskip("torch")
    start = 2 * (2**30 + 2**18)
    for x in (torch.from_numpy(far), tegula.asarray(far)):
        for _ in range(2):
            rows[(3,)](x, 2**30 + 2**18, 5, 8)
            assert far[start : start + 5].tolist() == [1, 2, 3, 4, 5]
            for row in range(3):
                far[row * (2**30 + 2**18) :][:8] = 0
    small = tegula.asarray(np.zeros(64, np.int8))
    rows[(3,)](small, 12, 5, 8)
    assert small.numpy()[24:29].tolist() == [1, 2, 3, 4, 5]


def test_a_strided_view_is_far_by_what_it_spans(far):
    view = far[:: 2**21]
    rows[(3,)](view, 2**30, 1, 8)
    assert [far[i * 2**30] for i in range(3)] == [1, 1, 1]
    far[:: 2**30] = 0
