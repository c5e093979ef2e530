"""Image resizing with Lanczos filters. References are written out in float64.

The public entry insists on a CUDA device; the functions behind it are called.
"""

from __future__ import annotations

import math

import torch
from case import Cases, compare, randn
from lanczos_triton.resize import _execute, _table

cases = Cases()


def table(size: int, new: int, a: int, antialias: bool) -> torch.Tensor:
    """The weight of each input sample (columns) in each output sample."""
    scale = max(size / new, 1.0) if antialias else 1.0
    centre = (torch.arange(new, dtype=torch.float64) + 0.5) * size / new - 0.5
    distance = (torch.arange(size, dtype=torch.float64)[None, :] - centre[:, None]) / scale
    weight = torch.sinc(distance) * torch.sinc(distance / a) * (distance.abs() < a)
    return weight / weight.sum(1, keepdim=True)


def check(shape: tuple[int, ...], size: tuple[int, int], a: int, antialias: bool,
          dtype: torch.dtype, tune: bool) -> None:  # fmt: skip
    image = randn(*shape, dtype=dtype)
    (ih, iw), (oh, ow) = shape[2:], size
    x = _table(iw, ow, a, antialias, "cpu") if iw != ow else None
    y = _table(ih, oh, a, antialias, "cpu") if ih != oh else None
    got = _execute(image, size, x, y, autotune=tune)
    want = image.double()
    if iw != ow:
        want = want @ table(iw, ow, a, antialias).T
    if ih != oh:
        want = table(ih, oh, a, antialias) @ want
    compare(got, want, 1e-4)


SIZES = (((2, 3, 19, 37), (40, 70)), ((1, 1, 64, 33), (31, 33)), ((2, 1, 5, 200), (9, 90)))


@cases.over(sizes=SIZES, a=(2, 3), dtype=(torch.float16, torch.bfloat16, torch.float32),
            tune=(False, True))  # fmt: skip
def narrow(sizes: tuple[tuple[int, ...], tuple[int, int]], a: int, dtype: torch.dtype,
           tune: bool) -> None:  # fmt: skip
    check(*sizes, a, True, dtype, tune)


WIDE = (((1, 2, 200, 210), (11, 13)), ((2, 1, 130, 1), (17, 1)), ((1, 1, 7, 2000), (7, 9)))


@cases.over(sizes=WIDE, dtype=(torch.float16, torch.float32), tune=(False, True))
def wide(sizes: tuple[tuple[int, ...], tuple[int, int]], dtype: torch.dtype, tune: bool) -> None:
    check(*sizes, 3, True, dtype, tune)


@cases.over(new=(5, 64, 301), antialias=(False, True))
def weights(new: int, antialias: bool) -> None:
    table_, starts, taps = _table(100, new, 3, antialias, "cpu")
    want = table(100, new, 3, antialias)
    dense = torch.zeros(new, 100, dtype=torch.float64)
    columns = starts[:, None].long() + torch.arange(taps)
    dense.scatter_(1, columns, table_.T.double())
    compare(dense, want, 2e-5)
    assert math.isclose(float(dense.sum()), new, rel_tol=1e-4)
