"""Printing, assertions, promises to the compiler, and the specifications of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.frontend import rules
from tegula.frontend.diagnostics import LanguageError, StaticAssertion
from tegula.ir.types import DType, i1
from tegula.printing import normal_prefix

from .builtin import Static, builtin
from .values import condition_spec, describe, is_number, range_spec, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic


@builtin
def static_assert(s: Semantic, cond: Static, msg: str = "") -> None:
    """Stop compilation unless a compile-time condition holds."""
    if isinstance(cond, tensor):
        raise LanguageError(
            "static_assert: the condition is not known at compile time",
            "use tl.device_assert for values that only exist at run time",
        )
    if not cond:
        raise StaticAssertion(
            f"static assertion failed: {msg}" if msg else "static assertion failed"
        )


@builtin
def static_print(s: Semantic, *values: Static, sep: str = " ", end: str = "\n") -> None:
    """Print compile-time values while the kernel is compiled."""
    show = rules.shown or describe
    print(*[show(v) if isinstance(v, tensor) else v for v in values], sep=sep, end=end)


@builtin
def device_print(s: Semantic, prefix: str, *args: Any, hex: bool = False) -> None:
    """Print values at run time, a line per element, after a constant prefix."""
    if not isinstance(prefix, str):
        raise LanguageError(
            f"device_print: the first argument is a constant text, not {describe(prefix)}",
            'write device_print("x: ", x)',
        )
    values = [s.to_tensor(a, "device_print: argument").handle for a in args]
    text = normal_prefix(prefix, bool(values))
    s.b.create("print", values, prefix=text, hex=s.flag(hex, "device_print: hex"))


@builtin
def device_assert(s: Semantic, cond: Any, msg: str = "", mask: Any = None) -> None:
    """Stop the launch with `msg` unless the condition holds wherever `mask` is set. Only with the
    option `debug`.
    """
    if not s.options.get("debug"):
        return
    if not isinstance(msg, str):
        raise LanguageError(f"device_assert: the message is a constant text, not {describe(msg)}")
    condition = s.truth(cond, "device_assert: condition")
    enabled = None
    if mask is not None:
        chosen = s.truth(mask, "device_assert: mask")
        condition, chosen = s.broadcast(condition, chosen)
        enabled = chosen.handle
    s.b.create("assert", condition.handle, enabled, message=msg)


@builtin
def expect_zero(s: Semantic, x: tensor, mask: Any) -> tensor:
    """x, promised to be 0 where `mask` is set; with the option `debug` that is checked."""
    value = s.to_tensor(x, "expect_zero: x")
    chosen = s.truth(mask, "expect_zero: mask")
    value, chosen = s.broadcast(value, chosen)
    zero = s.constant(0, value.ir_elem, value.ir_shape)
    if s.options.get("debug"):
        same = s.emit("cmp", value.handle, zero.handle, pred="eq")
        s.b.create("assert", same.handle, chosen.handle, message="expected zero")
    return s.emit("select", chosen.handle, zero.handle, value.handle)


@builtin
def debug_barrier(s: Semantic) -> None:
    """A program is one thread of control in this language, so there is nothing to wait for; kept
    for older kernels.
    """


def _hint(s: Semantic, kind: str, x: Any, values: Any) -> tensor:
    t = s.to_tensor(x, f"{kind}: input")
    given = values if isinstance(values, tuple) else (values,)
    for v in given:
        if not isinstance(v, int) or isinstance(v, bool) or v < 0:
            raise LanguageError(f"{kind}: values are compile-time integers, not {describe(v)}")
    rank = max(1, len(t.ir_shape))
    if len(given) != rank:
        raise LanguageError(
            f"{kind}: {rank} values are needed for shape {list(t.ir_shape)}, got {len(given)}"
        )
    return s.emit("hint", t.handle, kind=kind, values=tuple(given))


@builtin
def multiple_of(s: Semantic, input: tensor, values: Static) -> tensor:
    """Promise: the first element of every contiguous run is a multiple of these values, one per
    dimension.
    """
    return _hint(s, "multiple_of", input, values)


@builtin
def max_contiguous(s: Semantic, input: tensor, values: Static) -> tensor:
    """Promise: runs of this many elements per dimension are contiguous."""
    return _hint(s, "max_contiguous", input, values)


@builtin
def max_constancy(s: Semantic, input: tensor, values: Static) -> tensor:
    """Promise: runs of this many elements per dimension are equal."""
    return _hint(s, "max_constancy", input, values)


@builtin
def assume(s: Semantic, cond: Static) -> None:
    """Promise that a scalar condition holds; the compiler may rely on it."""
    if is_number(cond):
        if not cond:
            raise StaticAssertion("assume: the condition is false at compile time")
        return
    c = s.to_tensor(cond, "assume: condition")
    if c.ir_shape or c.ir_elem is not i1:
        raise LanguageError(
            f"assume takes a scalar condition, not {describe(c)}", "compare: tl.assume(n > 0)"
        )
    s.b.create("assume", c.handle)


# ---- loops


def _bound(x: Any, what: str) -> Any:
    if isinstance(x, int):
        return int(x)
    if (
        isinstance(x, tensor)
        and not x.ir_shape
        and isinstance(x.ir_elem, DType)
        and x.ir_elem.is_int
    ):
        return x
    hint = "convert it: x.to(tl.int32)" if isinstance(x, (float, tensor)) else ""
    raise LanguageError(f"{what} must be an integer scalar, not {describe(x)}", hint)


def _make_range(a: Any, b: Any, step: Any, what: str, **fields: Any) -> range_spec:
    start, stop = (0, a) if b is None else (a, b)
    step = 1 if step is None else step
    spec = range_spec(
        _bound(start, f"{what}: start"),
        _bound(stop, f"{what}: end"),
        _bound(step, f"{what}: step"),
        **fields,
    )
    if spec.step == 0 and isinstance(spec.step, int):
        raise LanguageError(f"{what}: the step is 0", "a loop needs a step other than 0")
    return spec


@builtin
def range(
    s: Semantic,
    arg1: Any,
    arg2: Any = None,
    step: Any = None,
    num_stages: int | None = None,
    loop_unroll_factor: int | None = None,
    disallow_acc_multi_buffer: bool = False,
    flatten: bool = False,
    warp_specialize: bool = False,
    disable_licm: bool = False,
) -> range_spec:
    """The range of a `for` loop, with wishes about how it is compiled; they never change
    results."""
    hints = {
        "disallow_acc_multi_buffer": disallow_acc_multi_buffer,
        "flatten": flatten,
        "warp_specialize": warp_specialize,
        "disable_licm": disable_licm,
    }
    chosen = tuple(name for name, on in hints.items() if s.flag(on, f"range: {name}"))
    for name, x in (("num_stages", num_stages), ("loop_unroll_factor", loop_unroll_factor)):
        if x is not None and (not isinstance(x, int) or x < 0):
            raise LanguageError(f"range: {name} must be a compile-time integer, not {describe(x)}")
    return _make_range(
        arg1,
        arg2,
        step,
        "range",
        stages=num_stages or 0,
        unroll=loop_unroll_factor or 0,
        hints=chosen,
    )


@builtin
def static_range(
    s: Semantic, arg1: int, arg2: int | None = None, step: int | None = None
) -> range_spec:
    """The range of a `for` loop that is unrolled completely; its variable is a compile-time
    integer.
    """
    spec = _make_range(arg1, arg2, step, "static_range", static=True)
    for x in (spec.start, spec.stop, spec.step):
        if not isinstance(x, int):
            raise LanguageError(
                "static_range takes compile-time integers only",
                "use range(...) for a loop with runtime bounds",
            )
    return spec


@builtin
def condition(s: Semantic, arg1: Any, disable_licm: bool = False) -> condition_spec:
    """The condition of a `while` loop, with wishes about how it is compiled."""
    return condition_spec(
        arg1, ("disable_licm",) if s.flag(disable_licm, "condition: disable_licm") else ()
    )


def python_range(args: tuple[Any, ...]) -> range_spec:
    """Python's `range` in a kernel."""
    if not 1 <= len(args) <= 3:
        raise LanguageError(f"range takes one to three arguments, not {len(args)}")
    start, stop, step = (
        args[0],
        args[1] if len(args) > 1 else None,
        args[2] if len(args) > 2 else None,
    )
    return _make_range(start, stop, step, "range")
