"""Every exception that Tegula raises on purpose, in one tree.

A message says what is wrong, names the argument, option or source line, and ends with the way out.
Launch errors also derive from the built-in exception a Python programmer expects (TypeError,
ValueError), so existing handlers keep working.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


class TegulaError(Exception):
    """Base class of all errors raised by Tegula."""


class LaunchError(TegulaError):
    """A kernel launch was refused or failed."""


class ArgumentError(LaunchError, TypeError):
    """A launch argument is missing, superfluous, given twice, or of a kind that kernels cannot
    take.
    """


class ArgumentValueError(LaunchError, ValueError):
    """A launch argument has the right kind and an impossible value."""


class ArgumentOverflowError(ArgumentValueError, OverflowError):
    """An integer argument does not fit the widest integer type, or the type its annotation names.
    """


class OptionError(LaunchError, KeyError):
    """A launch keyword is neither a parameter of the kernel nor an option of the backend."""

    __str__ = Exception.__str__  # KeyError would print the message's repr


class OptionValueError(OptionError, AssertionError):
    """An option has a value that the target cannot work with; programs written for Triton look for
    an AssertionError."""


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


class OutOfResources(KernelError):
    """A compiled kernel needs more of something (registers, memory on the chip) than the device
    has.
    """

    def __init__(self, required: int, limit: int, name: str) -> None:
        self.required = required
        self.limit = limit
        self.name = name
        super().__init__(
            f"out of resource: {name}: {required} are needed and the device has {limit}; smaller "
            "blocks or fewer stages may help"
        )

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.required, self.limit, self.name)


class AutotunerError(TegulaError):
    """No configuration is left to tune over, or none of them runs."""


class DeviceAssertionError(KernelError, AssertionError):
    """A `device_assert` of a kernel failed."""


class HostCallError(LaunchError, RuntimeError):
    """A jit function was called like an ordinary Python function."""


class ConfigError(TegulaError, ValueError):
    """A setting has a value it cannot take, or there is no such setting."""


class ConfigWarning(UserWarning):
    """An environment variable looks like a setting of Tegula and is not one, or its value is
    ignored.
    """


class CacheWarning(UserWarning):
    """The disk cache cannot be used as configured; compilation goes on without it."""


class OptionWarning(UserWarning):
    """An option of a launch changes nothing on its backend, and one might expect that it does."""


class OffsetWarning(UserWarning):
    """An offset may leave int32, and the arrays at hand are so large that it matters."""


class SourceError(TegulaError):
    """Python kept no source for a function that is to be compiled, or the file no longer holds it.
    """


class CompilationError(TegulaError):
    """A kernel breaks a rule of the language.

    Prints the place as `file:line:column`, the source line with a caret, the cause and a remedy;
    for an error inside of a called function, every call on the way. `frames` goes from the kernel
    to the place itself.
    """

    def __init__(self, message: str, hint: str = "", frames: Iterable[SourceFrame] = ()) -> None:
        self.message = message
        self.hint = hint
        self.frames = tuple(frames)
        super().__init__(message)

    @property
    def error_message(self) -> str:
        """The cause, without the place."""
        return self.message

    @property
    def file(self) -> str:
        """File of the innermost place."""
        return self.frames[-1].file if self.frames else "<unknown>"

    @property
    def line(self) -> int:
        """1-based line of the innermost place."""
        return self.frames[-1].line if self.frames else 0

    @property
    def column(self) -> int:
        """1-based column of the innermost place."""
        return self.frames[-1].column if self.frames else 0

    def __str__(self) -> str:
        text = [frame.render() for frame in self.frames]
        text.append(f"error: {self.message}")
        if self.hint:
            text.append(f"help: {self.hint}")
        return "\n" + "\n".join(text) if self.frames else "\n".join(text)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.message, self.hint, self.frames)


def unchanged(error: CompilationError) -> CompilationError:
    """The error itself."""
    return error


restate: Callable[[CompilationError], CompilationError] = unchanged
"""What an error is turned into before a launch raises it; replaced where other projects' programs
are run.
"""


class UnsupportedLanguageConstruct(CompilationError):
    """A kernel uses a part of Python that the kernel language does not have."""


CONSTRUCTS = {
    "AsyncFunction": "`async def` in a kernel.",
    "AttributeAssignment": "An assignment to an attribute.",
    "Class": "A class defined in a kernel.",
    "Complex": "A complex number in a kernel.",
    "ContextManager": "`with` on something that is no context manager.",
    "ContextJump": "A `return`, `break` or `continue` that leaves a `with`.",
    "Delete": "`del` in a kernel.",
    "DictionaryComprehension": "A dictionary comprehension in a kernel.",
    "DoubleStar": "`**` in a call.",
    "EndlessLoop": "A loop whose condition is always true, and that is never left.",
    "Global": "`global` in a kernel.",
    "Import": "`import` in a kernel.",
    "ItemAssignment": "An assignment to elements of a tensor or tuple.",
    "Lambda": "`lambda` in a kernel.",
    "Launch": "A kernel launched by a kernel.",
    "Match": "`match` in a kernel.",
    "Mutation": "A method that changes a list or a dictionary.",
    "NestedFunction": "A function defined in a kernel.",
    "Nonlocal": "`nonlocal` in a kernel.",
    "PythonFunction": "A call of an ordinary Python function.",
    "Raise": "`raise` in a kernel.",
    "Returns": "Too many early returns within each other.",
    "RuntimeDictionary": "A dictionary that holds a runtime value.",
    "Set": "A set in a kernel.",
    "SetComprehension": "A set comprehension in a kernel.",
    "Syntax": "A part of Python's syntax that kernels do not know.",
    "Try": "`try` in a kernel.",
    "Yield": "`yield` in a kernel.",
}
"""What kernels cannot use -> what it is. Each has an exception class, `Unsupported<name>`."""

_CONSTRUCT_CLASSES: dict[str, type[UnsupportedLanguageConstruct]] = {
    f"Unsupported{name}": type(
        f"Unsupported{name}",
        (UnsupportedLanguageConstruct,),
        {"__doc__": text, "__module__": __name__},
    )
    for name, text in CONSTRUCTS.items()
}
globals().update(_CONSTRUCT_CLASSES)


def unsupported_class(name: str) -> type[UnsupportedLanguageConstruct]:
    """The exception class of one of `CONSTRUCTS`."""
    return _CONSTRUCT_CLASSES[f"Unsupported{name}"]


class CompileTimeAssertionFailure(CompilationError):
    """A `static_assert`, or an `assert` on a compile-time constant, does not hold."""


@dataclass(frozen=True)
class SourceFrame:
    """One place in a kernel's source: file, 1-based line and column, length of the marked text, and
    the line itself; and where the function's `def` stands.
    """

    function: str
    file: str
    line: int
    column: int
    width: int
    text: str
    origin: tuple[int, int] = (1, 1)
    place: str = ""
    """The place once more, as other projects' programs write it."""

    def render(self) -> str:
        """The place, the source line, and carets under the marked text."""
        place = f" {self.place}" if self.place else ""
        number = str(self.line)
        pad = " " * len(number)
        gap = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return (
            f"{self.file}:{self.line}:{self.column}: in `{self.function}`{place}\n"
            f"{pad} |\n{number} | {self.text}\n{pad} | {gap}{'^' * max(1, self.width)}"
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the known name closest to `name`, or an empty string."""
    import difflib  # only errors need it

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
