"""The kernel language: what `import tegula.language as tl` offers."""

from __future__ import annotations

import importlib
from typing import Any

from tegula.errors import nearest

from . import math, target_info
from .aggregates import aggregate, aggregate_replace
from .atomic import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_poll,
    atomic_store,
    atomic_xchg,
    atomic_xor,
)
from .block_pointer import advance, make_block_ptr
from .builtin import constexpr_function, must_use_result
from .collect import (
    argsort,
    bitonic_merge,
    flip,
    gather,
    histogram,
    map_elementwise,
    sort,
    topk,
)
from .creation import arange, cast, full, num_programs, program_id, to_tensor, zeros, zeros_like
from .debug import (
    assume,
    condition,
    debug_barrier,
    device_assert,
    device_print,
    expect_zero,
    max_constancy,
    max_contiguous,
    multiple_of,
    range,
    static_assert,
    static_print,
    static_range,
)
from .descriptor import load_tensor_descriptor, make_tensor_descriptor, store_tensor_descriptor
from .dtypes import (
    bfloat16,
    block_type,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    pointer_type,
    tensor_descriptor_type,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from .elementwise import (
    PropagateNan,
    abs,
    add,
    ceil,
    clamp,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    logical_and,
    logical_or,
    maximum,
    minimum,
    mul,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    sub,
    tanh,
    umulhi,
    where,
)
from .foreign import extern_elementwise, inline_asm_elementwise
from .memory import load, store
from .random import (
    N_ROUNDS_DEFAULT,
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
from .reduction import associative_scan, dot, reduce
from .scaled import dot_scaled
from .shape import (
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    item,
    join,
    permute,
    ravel,
    reshape,
    split,
    squeeze,
    trans,
    unsqueeze,
    view,
)
from .standard import (
    argmax,
    argmin,
    cdiv,
    cumprod,
    cumsum,
    interleave,
    max,
    min,
    reduce_or,
    sigmoid,
    softmax,
    sum,
    swizzle2d,
    xor_sum,
)
from .values import const, constexpr, constexpr_type, tensor, tensor_descriptor, tuple_type

tuple = tuple
"""Tuples of a kernel are Python's tuples."""

__all__ = [
    name
    for name in globals()
    if not name.startswith("_") and name not in ("annotations", "Any", "importlib", "nearest")
]


def __getattr__(name: str) -> Any:
    if name == "extra":
        return importlib.import_module("tegula.language.extra")
    raise AttributeError(f"the kernel language has no {name!r}{nearest(name, __all__)}")
