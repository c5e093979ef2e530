"""Hands what Tegula tells about compilations and tuning on to the hooks in `triton.knobs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tegula.compat.triton import knobs
from tegula.runtime import autotune, hooks
from tegula.runtime.compiler import type_text


@dataclass(frozen=True)
class JitFunctionInfo:
    """Which kernel a hook is called about."""

    module: Any
    name: str
    jit_function: Any


def connect() -> None:
    """Start handing on."""
    autotune.tuned_listeners.append(_tuned)
    hooks.before_compile.append(_before)
    hooks.after_compile.append(_after)


def disconnect() -> None:
    """Stop."""
    autotune.tuned_listeners.remove(_tuned)
    hooks.before_compile.remove(_before)
    hooks.after_compile.remove(_after)


def _tuned(**what: Any) -> None:
    if knobs.autotuning.listener is not None:
        knobs.autotuning.listener(**what)


def _before(event: hooks.Compilation) -> None:
    if knobs.runtime.jit_cache_hook is not None:
        _tell(knobs.runtime.jit_cache_hook, event)


def _after(event: hooks.Compilation) -> None:
    if knobs.runtime.jit_post_compile_hook is not None:
        _tell(knobs.runtime.jit_post_compile_hook, event)


def _tell(hook: Any, event: hooks.Compilation) -> None:
    kernel, specialized = event.kernel, event.specialized
    signature = {
        name: type_text(specialized.types[name]) if name in specialized.types else "constexpr"
        for name in kernel.arg_names
    }
    shown = ", ".join(f"{name}: {kind}" for name, kind in signature.items())
    hook(
        key=event.key,
        repr=f"{kernel.fn.__name__}[{event.options}]({shown})",
        fn=JitFunctionInfo(kernel.fn.__module__, kernel.fn.__qualname__, kernel),
        compile={
            "key": event.key,
            "signature": signature,
            "device": 0,
            "constants": dict(specialized.constants),
            "configs": [dict(specialized.attrs)],
            "num_warps": event.options.get("num_warps", 4),
            "num_ctas": event.options.get("num_ctas", 1),
            "num_stages": event.options.get("num_stages", 3),
            "enable_fp_fusion": event.options.get("enable_fp_fusion", True),
            "launch_cooperative_grid": False,
            "extern_libs": (),
            "specialization_data": event.data,
            "is_warmup": event.warmup,
        },
        is_manual_warmup=event.warmup,
        already_compiled=False,
    )
