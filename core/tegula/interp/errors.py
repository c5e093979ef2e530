"""What the interpreter reports: each error carries the source location, program and lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula import errors

if TYPE_CHECKING:
    from tegula.ir.location import Location


class InterpreterError(errors.KernelError):
    """A kernel did something wrong while it was interpreted."""

    def __init__(
        self,
        message: str,
        loc: Location | None = None,
        kernel: str = "",
        program: tuple[int, int, int] | None = None,
    ) -> None:
        self.message = message
        self.loc = loc
        self.kernel = kernel
        self.program = program
        super().__init__(message)

    def __str__(self) -> str:
        where = f"kernel '{self.kernel}'" if self.kernel else "kernel"
        if self.loc is not None:
            where += f", {self.loc}"
        if self.program is not None:
            where += f", program {self.program}"
        return f"{where}: {self.message}"


class OutOfBoundsError(InterpreterError, IndexError):
    """A load, store or atomic touched memory outside the buffer it was meant for."""


class ReadOnlyError(InterpreterError, ValueError):
    """A store or atomic went to a buffer that may only be read."""


class DeviceAssertionError(InterpreterError, errors.DeviceAssertionError):
    """An `assert` (or `assume`) of the kernel does not hold."""
