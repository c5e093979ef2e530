"""Read-modify-write operations on memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.frontend.diagnostics import LanguageError
from tegula.frontend.promotion import name_of
from tegula.ir.types import DType, bf16, f16, f32, f64, i1, i64

from .builtin import builtin
from .memory import pointer_operand, stored, writable
from .values import describe, is_number, tensor

if TYPE_CHECKING:
    from tegula.frontend.semantic import Semantic

LOAD_ORDERS = ("acquire", "relaxed")
STORE_ORDERS = ("release", "relaxed")
ORDERS = ("acq_rel", "acquire", "release", "relaxed")
SCOPES = ("gpu", "cta", "sys")


def _check_type(kind: str, elem: DType) -> None:
    if elem.is_int:
        supported = elem.bits >= 32
    elif kind == "add":
        supported = elem in (f16, bf16, f32, f64)
    else:
        supported = kind in ("max", "min", "xchg") and elem in (f32, f64)
    if not supported:
        floats = {"add": " and all floats from fp16 on", "max": ", fp32 and fp64"}
        known = "32-bit and 64-bit integers" + floats.get(
            "max" if kind in ("min", "xchg") else kind, ""
        )
        raise LanguageError(
            f"atomic_{kind} does not work on {name_of(elem)}", f"it works on {known}"
        )


def _rmw(s: Semantic, kind: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any) -> tensor:
    what = f"atomic_{kind}"
    ptr, elem = pointer_operand(s, pointer, what)
    writable(ptr, what)
    _check_type(kind, elem)
    value = stored(s, val, ptr, elem, what)
    enabled = s.mask(mask, ptr.ir_shape, what)
    attrs = {
        "sem": s.choice(sem, ORDERS, f"{what}: sem"),
        "scope": s.choice(scope, SCOPES, f"{what}: scope"),
    }
    masks: dict[str, Any] = {} if enabled is None else {"mask": enabled.handle}
    return s.emit("atomic_rmw", ptr.handle, value.handle, kind=kind, **attrs, **masks)


@builtin
def atomic_add(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Add to memory as one step; returns the old value."""
    return _rmw(s, "add", pointer, val, mask, sem, scope)


@builtin
def atomic_max(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Keep the larger value as one step; returns the old value."""
    return _rmw(s, "max", pointer, val, mask, sem, scope)


@builtin
def atomic_min(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Keep the smaller value as one step; returns the old value."""
    return _rmw(s, "min", pointer, val, mask, sem, scope)


@builtin
def atomic_and(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Bitwise and with memory as one step; returns the old value."""
    return _rmw(s, "and", pointer, val, mask, sem, scope)


@builtin
def atomic_or(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Bitwise or with memory as one step; returns the old value."""
    return _rmw(s, "or", pointer, val, mask, sem, scope)


@builtin
def atomic_xor(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Bitwise exclusive or with memory as one step; returns the old value."""
    return _rmw(s, "xor", pointer, val, mask, sem, scope)


@builtin
def atomic_xchg(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Replace memory as one step; returns the old value."""
    return _rmw(s, "xchg", pointer, val, mask, sem, scope)


@builtin
def atomic_cas(
    s: Semantic,
    pointer: tensor,
    cmp: Any,
    val: Any,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Write `val` where memory equals `cmp`, as one step; returns the old value."""
    ptr, elem = pointer_operand(s, pointer, "atomic_cas")
    writable(ptr, "atomic_cas")
    if elem.bits not in (16, 32, 64):
        raise LanguageError(
            f"atomic_cas does not work on {name_of(elem)}", "it works on 16, 32 and 64 bits"
        )
    expected = stored(s, cmp, ptr, elem, "atomic_cas: cmp")
    value = stored(s, val, ptr, elem, "atomic_cas: val")
    return s.emit(
        "atomic_cas",
        ptr.handle,
        expected.handle,
        value.handle,
        sem=s.choice(sem, ORDERS, "atomic_cas: sem"),
        scope=s.choice(scope, SCOPES, "atomic_cas: scope"),
    )


def _plain(elem: DType, what: str) -> None:
    if elem is i1:
        raise LanguageError(f"{what} does not work on {name_of(elem)}", "use a byte: tl.uint8")


@builtin
def atomic_load(
    s: Semantic,
    pointer: tensor,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> tensor:
    """Read as one step; with `acquire` (the default) what its writer did before is seen as well.
    0 where `mask` is false.
    """
    what = "atomic_load"
    ptr, elem = pointer_operand(s, pointer, what)
    _plain(elem, what)
    enabled = s.mask(mask, ptr.ir_shape, what)
    masks: dict[str, Any] = {} if enabled is None else {"mask": enabled.handle}
    order = s.choice(sem, LOAD_ORDERS, f"{what}: sem")
    place = s.choice(scope, SCOPES, f"{what}: scope")
    return s.emit("atomic_load", ptr.handle, sem=order, scope=place, **masks)


@builtin
def atomic_store(
    s: Semantic,
    pointer: tensor,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> None:
    """Write as one step; with `release` (the default) who reads it also sees what was done
    before.
    """
    what = "atomic_store"
    ptr, elem = pointer_operand(s, pointer, what)
    writable(ptr, what)
    _plain(elem, what)
    value = stored(s, val, ptr, elem, what)
    enabled = s.mask(mask, ptr.ir_shape, what)
    masks: dict[str, Any] = {} if enabled is None else {"mask": enabled.handle}
    order = s.choice(sem, STORE_ORDERS, f"{what}: sem")
    place = s.choice(scope, SCOPES, f"{what}: scope")
    s.b.create("atomic_store", ptr.handle, value.handle, sem=order, scope=place, **masks)


@builtin
def atomic_poll(
    s: Semantic,
    pointer: tensor,
    expected: Any,
    sem: str | None = None,
    scope: str | None = None,
    timeout_ns: Any = None,
) -> tensor:
    """Wait until memory equals `expected`; True if it does, False if `timeout_ns` nanoseconds are
    over first. Without a timeout it waits for ever, which another program has to end.
    """
    what = "atomic_poll"
    ptr, elem = pointer_operand(s, pointer, what)
    _plain(elem, what)
    if ptr.ir_shape:
        raise LanguageError(
            f"{what} waits for one element, not for {describe(ptr)}", "poll them one by one"
        )
    if elem.bits not in (16, 32, 64):
        raise LanguageError(
            f"{what} does not work on {name_of(elem)}", "it works on 16, 32 and 64 bits"
        )
    wanted = stored(s, expected, ptr, elem, f"{what}: expected")
    limit = {}
    if is_number(timeout_ns) and timeout_ns < 0:
        raise LanguageError(f"{what}: timeout_ns must not be negative, got {timeout_ns}")
    if timeout_ns is not None:
        limit["timeout"] = s.to_type(timeout_ns, i64, f"{what}: timeout_ns").handle
    order = s.choice(sem, LOAD_ORDERS, f"{what}: sem")
    place = s.choice(scope, SCOPES, f"{what}: scope")
    return s.emit("atomic_poll", ptr.handle, wanted.handle, sem=order, scope=place, **limit)
