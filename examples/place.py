"""Where the examples run: the best device found, with arrays and times of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tegula
from tegula.plugin import select

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]


class Place:
    """A device, and how arrays get there and back.

    Host arrays are used as they are. On another device they are tensors of torch where torch works
    on it, so that both sides compute with the same memory, and Tegula's own arrays elsewhere.
    """

    def __init__(self, selection: select.Selection) -> None:
        self.selection = selection
        backend, info = selection.backend, selection.info
        self.id = str(selection.id)
        self.on_host = backend.reaches(1)
        self.for_tests = bool(info.details.get("for_tests")) or backend.priority < 0
        """Whether the device only stands in for another kind."""
        self.torch_device = self._torch_device(backend.spec.torch)
        options: Any = backend.context(info.target, {}).options
        self.exact_products = self.on_host or options.default_dot_precision == "ieee"
        """Whether products of f32 keep all bits of their factors."""
        if torch is not None and not self.exact_products:
            torch.set_float32_matmul_precision("high")  # let torch shorten them, too
        self._tensors: dict[int, tuple[np.ndarray, Any]] = {}

    def _torch_device(self, kind: str) -> Any:
        if torch is None or not kind:
            return None
        module = getattr(torch, kind, None)
        if kind != "cpu" and not (module is not None and module.is_available()):
            return None
        return torch.device(kind) if kind == "cpu" else torch.device(kind, self.selection.id.index)

    def put(self, x: np.ndarray) -> Any:
        """An array as kernels take it; the same each time."""
        if self.on_host:
            return x
        if self.torch_device is not None:
            return self.tensor(x)
        return self._kept(x, lambda: tegula.asarray(x, device=self.id))

    def get(self, x: np.ndarray) -> np.ndarray:
        """What an array that was put there holds now."""
        there = self.put(x)
        if there is x:
            return x
        host: np.ndarray = there.numpy() if self.torch_device is None else there.cpu().numpy()
        return host

    def fill(self, x: np.ndarray) -> None:
        """Give an array that was put there the values of the host's."""
        there = self.put(x)
        if there is x:
            return
        source = x if self.torch_device is None else torch.from_numpy(x)
        (there.copy_from if self.torch_device is None else there.copy_)(source)

    def tensor(self, x: np.ndarray) -> Any:
        """An array as torch takes it, on this device if torch works on it, else on the host."""
        if self.torch_device is None or self.torch_device.type == "cpu":
            return torch.from_numpy(x)
        return self._kept(x, lambda: torch.from_numpy(x).to(self.torch_device))

    def _kept(self, x: np.ndarray, make: Callable[[], Any]) -> Any:
        if id(x) not in self._tensors:
            self._tensors[id(x)] = x, make()  # with `x`, so that its number stays its own
        return self._tensors[id(x)][1]

    def wait(self) -> None:
        """Until all work is done."""
        if not self.on_host:
            self.selection.open().synchronize()

    @property
    def calls(self) -> int:
        """How many calls to time together: elsewhere than on the host they overlap."""
        return 1 if self.on_host or self.for_tests else 20

    def interleaved(
        self, ours: Callable[[], Any], peer: Callable[[], Any], rounds: int
    ) -> tuple[float, float]:
        """Median seconds of each, measured in turn so that both see the same machine."""
        times: tuple[list[float], list[float]] = ([], [])
        for f in (ours, peer):
            f()
        for _ in range(rounds):
            for f, out in zip((ours, peer), times):
                self.wait()
                start = time.perf_counter()
                for _ in range(self.calls):
                    f()
                self.wait()
                out.append((time.perf_counter() - start) / self.calls)
        return sorted(times[0])[rounds // 2], sorted(times[1])[rounds // 2]


def best() -> Place:
    """The device that was chosen, else the best one that is not there for tests only."""
    return Place(
        select.preferred_device(
            lambda backend: backend.available and not backend.info(0).details.get("for_tests")
        )
    )
