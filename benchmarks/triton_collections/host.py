"""Lets packages that insist on a GPU take tensors in host memory. Nothing here changes a kernel or
what it is launched with.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class OnHost(TorchFunctionMode):
    """Creates in host memory what a program asks for on `cuda`."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if device is not None and str(device).startswith("cuda"):
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class OnGPU(torch.Tensor):
    """A tensor in host memory that says that it is on a GPU, until it is used."""

    device = torch.device("cuda")  # type: ignore[assignment]

    def contiguous(self) -> torch.Tensor:  # type: ignore[override]
        return self.as_subclass(torch.Tensor).contiguous()


def pretend() -> None:
    """Answer questions about GPUs as a program hopes for, for the rest of the process."""
    torch.Tensor.is_cuda = property(lambda self: True)  # type: ignore[assignment]
    torch.cuda.device = contextlib.nullcontext  # type: ignore[assignment,misc]
    torch.cuda.current_device = lambda: 0
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.mem_get_info = lambda device=None: (1 << 33, 1 << 33)
    torch.cuda.memory_reserved = torch.cuda.memory_allocated = lambda device=None: 0
    properties = SimpleNamespace(
        name="host", multi_processor_count=16, shared_memory_per_block_optin=232448,
        total_memory=1 << 33, major=9, minor=0,
    )  # fmt: skip
    torch.cuda.get_device_properties = lambda device=None: properties  # type: ignore[assignment]
    OnHost().__enter__()
