"""Warm-ups that compile in an executor.

with AsyncCompileMode(ThreadPoolExecutor()):
    first = one.warmup(...)                     # returns at once
    second = other.warmup(...)
first[grid](...)                                # both are compiled here
"""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("active_mode", default=None)
"""The mode that warm-ups of this thread or task are in."""


class FutureKernel:
    """A compiled kernel that may not be there yet; every use waits for it."""

    def __init__(self, future: Future[Any]) -> None:
        self.future = future

    def result(self, ignore_errors: bool = False) -> Any:
        """The compiled kernel; None after a failure that is to be ignored."""
        try:
            return self.future.result()
        except Exception:
            if ignore_errors:
                return None
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.future.result(), name)

    def __getitem__(self, grid: Any) -> Any:
        return self.future.result()[grid]


class AsyncCompileMode:
    """Inside of `with AsyncCompileMode(executor):` warm-ups return at once, and the block ends when
    all of them are compiled.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        if not hasattr(executor, "submit"):
            raise TypeError(
                f"an AsyncCompileMode takes an executor, such as a ThreadPoolExecutor, not "
                f"{type(executor).__name__}"
            )
        self.executor = executor
        self.ignore_errors = ignore_errors
        self._futures: list[Future[Any]] = []
        self._token: Any = None

    def submit(self, compile: Any) -> FutureKernel:
        """Compile in the executor, with the settings of this context."""
        context = copy_context()
        future = self.executor.submit(context.run, compile)
        self._futures.append(future)
        return FutureKernel(future)

    def __enter__(self) -> AsyncCompileMode:
        if active_mode.get() is not None:
            raise RuntimeError("an AsyncCompileMode is active already")
        self._token = active_mode.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        active_mode.reset(self._token)
        futures, self._futures = self._futures, []
        for future in futures:
            FutureKernel(future).result(self.ignore_errors)
