"""Clustering. References are distances and means in float64.

The package asks for the GPU's name and shared memory to choose tile sizes; it is told a name that
it knows, or one that it doesn't.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from case import Cases, compare, randn
from flash_kmeans import assign_euclid_triton as assign
from flash_kmeans import centroid_update_triton as update

cases = Cases()
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
SHAPES = ((1, 300, 17, 64), (2, 129, 40, 96), (1, 1000, 130, 33))


def device(name: str, shared: int = 232448) -> None:
    """What the package finds out about the GPU."""
    properties = SimpleNamespace(
        name=name, shared_memory_per_block_optin=shared, multi_processor_count=132
    )
    torch.cuda.get_device_properties = lambda device=None: properties  # type: ignore[assignment]


def points(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    batch, count, clusters, width = shape
    return randn(batch, count, width, dtype=dtype), randn(
        batch, clusters, width, dtype=dtype, seed=1
    )


def nearest(got: torch.Tensor, distance: torch.Tensor, slack: float) -> None:
    """Raise unless each point has a cluster whose distance is the least, but for rounding."""
    assert got.min() >= 0 and got.max() < distance.shape[-1]
    chosen = distance.gather(-1, got.long()[..., None])[..., 0]
    compare(chosen - distance.amin(-1), torch.zeros_like(chosen) + 1e-30, slack / 1e-30)


WAYS = ("heuristic", "tuned", "split", "split tuned")


@cases.over(shape=SHAPES, dtype=FLOATS, way=WAYS)
def euclid(shape: tuple[int, ...], dtype: torch.dtype, way: str) -> None:
    device("unknown" if "split" in way else "NVIDIA H200")
    x, c = points(shape, dtype)
    got = assign.euclid_assign_triton(
        x, c, (x.float() ** 2).sum(-1), use_heuristic="tuned" not in way
    )
    nearest(got, torch.cdist(x.double(), c.double()) ** 2, 1e-3 if dtype == torch.float32 else 0.05)


@cases.over(shape=SHAPES, dtype=FLOATS, split=(False, True))
def cosine(shape: tuple[int, ...], dtype: torch.dtype, split: bool) -> None:
    device("unknown" if split else "NVIDIA H200")
    x, c = points(shape, dtype)
    x, c = (torch.nn.functional.normalize(t.float(), dim=-1).to(dtype) for t in (x, c))
    got = assign.cosine_assign_triton(x, c)
    nearest(got, -(x.double() @ c.double().mT), 1e-3)


def means(x: torch.Tensor, ids: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """The mean of each cluster's points; the old centre where there are none."""
    member = torch.nn.functional.one_hot(ids.long(), old.shape[1]).double()
    counts = member.sum(1)[..., None]
    return torch.where(counts > 0, member.mT @ x.double() / counts.clamp(min=1), old.double())


UPDATES = (
    update.triton_centroid_update_euclid,
    update.triton_centroid_update_sorted_euclid,
    update.triton_centroid_update_cosine,
    update.triton_centroid_update_sorted_cosine,
)


@cases.over(shape=SHAPES, dtype=FLOATS, function=UPDATES)
def centroids(shape: tuple[int, ...], dtype: torch.dtype,
              function: Callable[..., torch.Tensor]) -> None:  # fmt: skip
    x, old = points(shape, dtype)
    ids = torch.randint(0, shape[2] - 3, shape[:2], generator=torch.Generator().manual_seed(4))
    want = means(x, ids, old)
    if "cosine" in function.__name__:
        want = torch.nn.functional.normalize(want, dim=-1)
    compare(function(x, ids, old), want)
