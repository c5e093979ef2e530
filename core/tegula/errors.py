"""Every exception that Tegula raises on purpose, in one tree.

A message says what is wrong, names the argument, option or source line, and ends with the way out. Launch errors also
derive from the built-in exception a Python programmer expects (TypeError, ValueError), so existing handlers keep working.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TegulaError(Exception):
    """Base class of all errors raised by Tegula."""


class LaunchError(TegulaError):
    """A kernel launch was refused or failed."""


class ArgumentError(LaunchError, TypeError):
    """A launch argument is missing, superfluous, given twice, or of a kind that kernels cannot take."""


class ArgumentValueError(LaunchError, ValueError):
    """A launch argument has the right kind and an impossible value."""


class ArgumentOverflowError(ArgumentValueError, OverflowError):
    """An integer argument does not fit the widest integer type, or the type its annotation names."""


class OptionError(LaunchError, KeyError):
    """A launch keyword is neither a parameter of the kernel nor an option of the backend."""

    __str__ = Exception.__str__  # KeyError would print the message's repr


class GridError(LaunchError, ValueError):
    """The launch grid is malformed."""


class GridTypeError(GridError, TypeError):
    """The launch grid, or one of its dimensions, is of a wrong type."""


class DeviceError(LaunchError, RuntimeError):
    """No device fits the request, or the device asked for cannot be used."""


class MixedDevicesError(DeviceError, ValueError):
    """The tensor arguments of one launch live on different devices."""


class KernelError(LaunchError, RuntimeError):
    """A kernel was started and reported failure (a failed device assertion, for example)."""


class DeviceAssertionError(KernelError, AssertionError):
    """A `device_assert` of a kernel failed."""


class HostCallError(LaunchError, RuntimeError):
    """A jit function was called like an ordinary Python function."""


class ConfigError(TegulaError, ValueError):
    """A setting has a value it cannot take, or there is no such setting."""


class ConfigWarning(UserWarning):
    """An environment variable looks like a setting of Tegula and is not one, or its value is ignored."""


class CacheWarning(UserWarning):
    """The disk cache cannot be used as configured; compilation goes on without it."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the known name closest to `name`, or an empty string."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
