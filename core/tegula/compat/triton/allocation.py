"""Allocators of scratch memory. Kernels of Tegula need none; what is set is remembered."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any


class NullAllocator:
    """Says that no allocator was set."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Any:
        raise RuntimeError("no allocator is set; call triton.set_allocator(function)")


_allocator: ContextVar[Callable[..., Any]] = ContextVar("allocator", default=NullAllocator())  # noqa: B039


def set_allocator(allocator: Callable[..., Any]) -> None:
    """Remember an allocator, a function of size, alignment and stream."""
    _allocator.set(allocator)


def get_allocator() -> Callable[..., Any]:
    """The allocator that was set last."""
    return _allocator.get()
