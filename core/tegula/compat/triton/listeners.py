"""Hands what Tegula tells about compilations and tuning on to the hooks in `triton.knobs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tegula.compat.triton import knobs
from tegula.compat.triton.compiler import LazyDict
from tegula.runtime import autotune, hooks
from tegula.runtime.compiled import CompiledKernel
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
    hooks.before_load.append(_load_start)
    hooks.after_load.append(_load_end)
    watch()


def disconnect() -> None:
    """Stop."""
    autotune.tuned_listeners.remove(_tuned)
    hooks.before_compile.remove(_before)
    hooks.after_compile.remove(_after)
    hooks.before_load.remove(_load_start)
    hooks.after_load.remove(_load_end)
    for chain, hook in ((hooks.before_launch, _enter), (hooks.after_launch, _exit)):
        if hook in chain:
            chain.remove(hook)


def watch() -> None:
    """Watch launches if there are hooks to tell about them, and only then: it costs time."""
    for chain, hook, wanted in (
        (hooks.before_launch, _enter, knobs.runtime.launch_enter_hook),
        (hooks.after_launch, _exit, knobs.runtime.launch_exit_hook),
    ):
        if wanted and hook not in chain:
            chain.append(hook)
        elif not wanted and hook in chain:
            chain.remove(hook)


def _enter(launch: hooks.Launch) -> None:
    knobs.runtime.launch_enter_hook(_metadata(launch))


def _exit(launch: hooks.Launch) -> None:
    knobs.runtime.launch_exit_hook(_metadata(launch))


def _metadata(launch: hooks.Launch) -> LazyDict:
    compiled = launch.compiled
    lazy = LazyDict({"name": compiled.name, "function": None, "stream": 0})
    if launch.kernel.launch_metadata is not None:
        metadata = (launch.grid, compiled.metadata, launch.arguments)
        lazy.add(launch.kernel.launch_metadata, metadata)
    return lazy


def _load_start(compiled: CompiledKernel) -> None:
    if knobs.runtime.kernel_load_start_hook:
        knobs.runtime.kernel_load_start_hook(None, None, compiled.name, {}, compiled.hash)


def _load_end(compiled: CompiledKernel) -> None:
    if knobs.runtime.kernel_load_end_hook:
        knobs.runtime.kernel_load_end_hook(None, None, compiled.name, {}, compiled.hash)


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
