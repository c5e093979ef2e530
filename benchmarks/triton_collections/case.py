"""What a case of a collection is, and how its results are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""How far a result may be from the reference, relative to the largest value, by its dtype."""


@dataclass(frozen=True)
class Case:
    """Something that runs kernels of a collection and compares what they compute."""

    name: str
    run: Callable[[], None]
    fault: str | None = None
    """Why the collection itself is wrong here: the case counts neither for nor against Tegula."""


class Cases(list[Case]):
    """The cases of a collection, added by decorating functions."""

    def over(
        self, *, fault: str | None = None, **values: Any
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """One case for each combination of keyword arguments."""

        def add(function: Callable[..., None]) -> Callable[..., None]:
            for chosen in combinations(values):
                shown = ", ".join(f"{k}={short(v)}" for k, v in chosen.items())
                name = f"{function.__name__}({shown})"
                self.append(Case(name, lambda chosen=chosen: function(**chosen), fault))
            return function

        return add


def combinations(values: dict[str, Any]) -> list[dict[str, Any]]:
    """All choices of one value for each name."""
    result: list[dict[str, Any]] = [{}]
    for name, options in values.items():
        result = [{**chosen, name: option} for chosen in result for option in options]
    return result


def short(value: Any) -> str:
    """A value as it stands in a case's name."""
    if isinstance(value, tuple):
        return "x".join(short(v) for v in value)
    return getattr(value, "__name__", str(value).removeprefix("torch."))


def compare(
    got: torch.Tensor,
    want: torch.Tensor,
    tolerance: float | None = None,
    what: str = "result",
    mismatches: float = 0.0,
) -> None:
    """Raise unless every element is within `tolerance` (of the largest value) of the reference; of
    integers, unless all are equal. `mismatches` is the share that may differ: of results that are
    rounded to a coarse grid.
    """
    if got.shape != want.shape:
        raise AssertionError(f"{what}: shape {tuple(got.shape)} instead of {tuple(want.shape)}")
    if tolerance is None:
        tolerance = TOLERANCE.get(got.dtype, 0.0)
    a, b = got.detach().double(), want.detach().double()
    finite = b[b.isfinite()].abs()
    scale = max(float(finite.max()), 1e-30) if finite.numel() else 1.0
    same = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= tolerance * scale)
    wrong = int((~same).sum())
    if wrong > mismatches * same.numel():
        place = tuple(int(i) for i in (~same).nonzero()[0])
        raise AssertionError(
            f"{what}: {wrong} of {same.numel()} elements differ; at {place} "
            f"{a[place].item():.6g} instead of {b[place].item():.6g} (tolerance {tolerance:g} of "
            f"{scale:.6g})"
        )


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Normally distributed numbers, the same in each run."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)
