"""How far a math function is off: exact values, errors in ulp, and arguments worth trying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.ir.builder import Builder
from tegula.ir.core import Block, Function, Module, Op, Value
from tegula.ir.types import DType, Pointer, f32, f64, i32, numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]
BLOCK = 4096
"""Elements that one program of a measuring kernel does."""

# Where a function does its work: arguments from here are drawn evenly, besides any bits at all.
_RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-1, 1), (-105, 89), (-746, 710)),
    "exp2": ((-1, 1), (-152, 129), (-1077, 1025)),
    "log": ((0.5, 2), (0.99, 1.01)),
    "log2": ((0.5, 2), (0.99, 1.01)),
    "sin": ((-1.6, 1.6), (-1e3, 1e3), (-1e6, 1e6), (-1e10, 1e10)),
    "cos": ((-1.6, 1.6), (-1e3, 1e3), (-1e6, 1e6), (-1e10, 1e10)),
    "tanh": ((-1, 1), (-20, 20)),
    "erf": ((-1.2, 1.2), (-6, 6)),
    "rsqrt": ((1, 4), (0, 1)),
}


def wide_enough() -> bool:
    """Whether this machine has a float type with more bits than f64, to judge f64 by."""
    return np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


def exact(name: str, x: Array) -> Array:
    """The function in a wider type: f64 for f32, long double for f64."""
    with np.errstate(all="ignore"):  # numpy warns about signalling NaN even when widening
        wide = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
        result: Array = _EXACT[name](wide)
    return result


def ulp_errors(actual: Array, expected: Array) -> Array:
    """Errors in units in the last place of the exact value.

    Infinite where one is NaN and the other not, where an infinity is wrong, and where a zero has
    the wrong sign. A finite value that rounds to infinity may come out as either neighbour.
    """
    dtype = f32 if actual.dtype == np.float32 else f64
    wide = expected.dtype.type
    # For the distance, infinity is where the next power of two would be.
    beyond = np.ldexp(wide(1), dtype.exponent_bias + 1)
    least = 1 - dtype.exponent_bias - dtype.mantissa
    with np.errstate(all="ignore"):
        a = actual.astype(wide)
        scale = np.frexp(np.where(np.isfinite(expected), expected, 1))[1] - 1 - dtype.mantissa
        unit = np.ldexp(wide(1), np.maximum(scale, least))
        clipped = np.where(np.isinf(a), np.copysign(beyond, a), a)
        errors = np.abs(clipped - expected) / unit
        rounded = expected.astype(actual.dtype)
    same = (a == expected) | (np.isnan(a) & np.isnan(expected)) | (np.isinf(a) & (a == rounded))
    errors = np.where(same, 0, np.where(np.isnan(errors), np.inf, errors))
    lost_sign = (a == 0) & (expected == 0) & (np.signbit(a) != np.signbit(expected))
    wrong = lost_sign | (np.isinf(expected) & ~same)
    result: Array = np.where(wrong, np.inf, errors).astype(np.float64)
    return result


def worst(actual: Array, expected: Array) -> tuple[float, int]:
    """The largest error and where it is. Correctly rounded results count as 1/2 at most."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(actual.dtype)
    bits = f"u{actual.dtype.itemsize}"
    fine = (actual.view(bits) == rounded.view(bits)) | (np.isnan(actual) & np.isnan(rounded))
    (others,) = np.nonzero(~fine)
    if not others.size:
        return 0.5, 0
    errors = ulp_errors(actual[others], expected[others])
    at = int(np.argmax(errors))
    return max(float(errors[at]), 0.5), int(others[at])


def on_backend(name: str, dtype: DType, backend: str) -> Callable[[Array], Array]:
    """The function on a backend that works on the host's memory, for arrays of any size."""
    from tegula.conformance.case import Launch
    from tegula.conformance.session import Session, enter
    from tegula.plugin import MemoryRange

    session = Session(backend)
    module = elementwise_kernel(name, dtype)
    kernel = session.device.load(session.compile(module))

    def run(x: Array) -> Array:
        x = np.ascontiguousarray(x, numpy_dtype(dtype))
        y = np.empty_like(x)
        launch = Launch(module, [x.ctypes.data, y.ctypes.data, x.size], (-(-x.size // BLOCK), 1, 1))
        memory = [MemoryRange(a.ctypes.data, a.nbytes, "array", True) for a in (x, y)]
        enter(kernel, launch, launch.args, memory)
        session.device.synchronize()
        return y

    return run


def elementwise_kernel(name: str, dtype: DType) -> Module:
    """y[i] = f(x[i]) for i < n, a block of elements to a program."""
    body = Block([Value(Pointer(dtype), "x"), Value(Pointer(dtype), "y"), Value(i32, "n")])
    x, y, n = body.args
    b = Builder(body)
    start = b.mul(b.program_id(axis=0), b.constant(BLOCK, i32))
    index = b.add(b.splat(start, shape=(BLOCK,)), b.arange(start=0, end=BLOCK))
    mask = b.cmp(index, b.splat(n, shape=(BLOCK,)), pred="lt")
    loaded = b.load(b.addptr(b.splat(x, shape=(BLOCK,)), index), mask=mask)
    value = b.create(name, loaded)
    b.store(b.addptr(b.splat(y, shape=(BLOCK,)), index), value, mask=mask)
    b.return_([])
    return Module([Function(name, body)])


def operation_counts(name: str, dtype: DType) -> tuple[int, int]:
    """Operations of a formula: what every element costs, and with what only unlikely ones need.

    Constants and reinterpretations of bits cost nothing.
    """
    from tegula.codegen.math.emitter import Emitter
    from tegula.codegen.math.functions import FUNCTIONS

    body = Block([dtype])
    result = FUNCTIONS[name].build(Emitter(dtype, body), body.args[0])
    usual, whole = (_operations(result, follow) for follow in (False, True))
    return usual, whole


def _operations(result: Value, unlikely: bool) -> int:
    found: set[Op] = set()
    todo = [result]
    while todo:
        op = todo.pop().owner
        if op is not None and op not in found:
            found.add(op)
            skipped = op.operands[1:2] if op.attrs.get("unlikely") and not unlikely else ()
            todo += [v for v in op.operands if v not in skipped]
    return sum(op.name not in ("constant", "bitcast") for op in found)


def samples(name: str, dtype: DType, count: int, seed: int = 0) -> Array:
    """Arguments of a function: the edges of all binades, and random ones.

    About `count` have random bits, and as many are drawn from each range that matters.
    """
    rng = np.random.default_rng(seed)
    float_type = numpy_dtype(dtype)
    bits_type = np.uint32 if dtype is f32 else np.uint64
    anything = rng.integers(0, 1 << dtype.bits, count, dtype=np.uint64).astype(bits_type)
    parts = [anything.view(float_type), binade_edges(dtype)]
    parts += [rng.uniform(low, high, count).astype(float_type) for low, high in _RANGES[name]]
    return np.concatenate(parts)


def binade_edges(dtype: DType) -> Array:
    """The first and last few numbers of every binade, of both signs; specials are among them."""
    bits_type = np.uint32 if dtype is f32 else np.uint64
    exponents = np.arange(1 << (dtype.bits - 1 - dtype.mantissa), dtype=np.uint64)
    starts = exponents << np.uint64(dtype.mantissa)
    steps = np.array([0, 1, 2, 3, (1 << dtype.mantissa - 1) - 1, 1 << dtype.mantissa - 1])
    ends = (1 << dtype.mantissa) - 1 - np.arange(3)
    fractions = np.concatenate([steps, ends]).astype(np.uint64)
    positive = (starts[:, None] + fractions).ravel()
    both = np.concatenate([positive, positive | np.uint64(1 << (dtype.bits - 1))])
    result: Array = both.astype(bits_type).view(numpy_dtype(dtype))
    return result


def _erf(x: Array) -> Array:
    """erf(x) = 2/√π e**(-x²) (x + 2x³/3 + 4x⁵/15 + ...), whose terms are all of one sign."""
    wide = x.dtype.type
    one = np.abs(x) > 6.5  # to more than f64 can tell; and the series would take its time
    small = np.where(one, 0, np.abs(x))
    square = small * small
    term = small.copy()
    total = small.copy()
    n = 1
    while np.any(term > total * np.finfo(x.dtype).eps):
        term = term * square * wide(2) / wide(2 * n + 1)
        total = total + term
        n += 1
    # √π by numpy's widest π, which is that of f64, and what it lacks.
    pi = wide(np.pi) + wide(1.2246467991473531772e-16)
    value = np.where(one, wide(1), total * np.exp(-square) * 2 / np.sqrt(pi))
    result: Array = np.where(np.isnan(x), x, np.copysign(np.minimum(value, 1), x))
    return result


_EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": _erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
