"""`triton.knobs`: groups of settings. Those that have a counterpart among Tegula's settings change
it (see `environment`); the others are remembered and have no effect.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from tegula.compat.triton.knob_types import (
    HookChain,
    base_knobs,
    env_base,
    env_bool,
    env_class,
    env_int,
    env_opt_bool,
    env_opt_str,
    env_str,
    env_tool,
)

__all__ = [
    "CompileTimes",
    "HookChain",
    "base_knobs",
    "env_base",
    "env_bool",
    "env_class",
    "env_int",
    "env_opt_bool",
    "env_opt_str",
    "env_str",
    "env_tool",
]

propagate_env: bool = True
"""Whether assignments also set environment variables."""


@dataclass
class CompileTimes:
    """Microseconds that parts of a compilation took."""

    ir_initialization: int = 0
    lowering_stages: list[tuple[str, int]] = field(default_factory=list)
    store_results: int = 0

    @property
    def total_lowering(self) -> int:
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        return self.ir_initialization + self.total_lowering + self.store_results


def _home() -> str:
    return cache.home_dir


class build_knobs(base_knobs):
    """Compilers of C, which Tegula does without."""

    cc = env_opt_str("CC")
    cudacrt_path = env_opt_str("TRITON_CUDACRT_PATH")
    cudart_path = env_opt_str("TRITON_CUDART_PATH")
    impl: Any = None

    @property
    def backend_dirs(self) -> set[str]:
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):
    """A remote cache."""

    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host = env_str("TRITON_REDIS_HOST", "localhost")
    port = env_int("TRITON_REDIS_PORT", 6379)


class cache_knobs(base_knobs):
    """The disk cache."""

    home_dir = env_str("TRITON_HOME", lambda: os.path.expanduser("~/"))
    dump_dir = env_str("TRITON_DUMP_DIR", lambda: os.path.join(_home(), ".triton", "dump"))
    override_dir = env_str(
        "TRITON_OVERRIDE_DIR", lambda: os.path.join(_home(), ".triton", "override")
    )
    dir = env_str("TRITON_CACHE_DIR", lambda: os.path.join(_home(), ".triton", "cache"))
    manager_class = env_class("TRITON_CACHE_MANAGER", "CacheManager")
    remote_manager_class = env_class("TRITON_REMOTE_CACHE_BACKEND", "RemoteCacheBackend")


class compilation_knobs(base_knobs):
    """Compiling."""

    override = env_bool("TRITON_KERNEL_OVERRIDE")
    dump_ir = env_bool("TRITON_KERNEL_DUMP")
    store_binary_only = env_bool("TRITON_STORE_BINARY_ONLY")
    always_compile = env_bool("TRITON_ALWAYS_COMPILE")
    use_ir_loc = env_opt_str("USE_IR_LOC")
    enable_asan = env_bool("TRITON_ENABLE_ASAN")
    disable_line_info = env_bool("TRITON_DISABLE_LINE_INFO")
    front_end_debugging = env_bool("TRITON_FRONT_END_DEBUGGING")
    allow_non_constexpr_globals = env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
    instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "")
    fpsan_homomorphic_casts = env_bool("TRITON_FPSAN_HOMOMORPHIC_CASTS")
    listener: Any = None


class autotuning_knobs(base_knobs):
    """Autotuning."""

    cache = env_bool("TRITON_CACHE_AUTOTUNING")
    print = env_bool("TRITON_PRINT_AUTOTUNING")
    listener: Any = None


def _watch() -> None:
    from tegula.compat.triton import listeners

    listeners.watch()


class runtime_knobs(base_knobs):
    """Launching."""

    interpret = env_bool("TRITON_INTERPRET")
    debug = env_bool("TRITON_DEBUG")
    override_arch = env_opt_str("TRITON_OVERRIDE_ARCH")
    jit_cache_hook: Any = None
    jit_post_compile_hook: Any = None
    add_stages_inspection_hook: Any = None

    launch_enter_hook: Any = HookChain(changed=_watch)
    launch_exit_hook: Any = HookChain(reversed=True, changed=_watch)
    kernel_load_start_hook: Any = HookChain()
    kernel_load_end_hook: Any = HookChain(reversed=True)
    kernel_unload_hook: Any = HookChain()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self.changed()

    def changed(self) -> None:
        """Hooks may have been assigned."""
        _watch()


class language_knobs(base_knobs):
    """The language."""

    default_fp_fusion = env_bool("TRITON_DEFAULT_FP_FUSION", True)
    fp32_default = env_opt_str("TRITON_F32_DEFAULT")


class nvidia_knobs(base_knobs):
    """NVIDIA's tools."""

    ptxas = env_tool("ptxas")
    ptxas_blackwell = env_tool("ptxas-blackwell")
    cuobjdump = env_tool("cuobjdump")
    nvdisasm = env_tool("nvdisasm")
    dump_nvptx = env_bool("NVPTX_ENABLE_DUMP")
    disable_ptxas_opt = env_bool("DISABLE_PTXAS_OPT")
    ptxas_options = env_opt_str("PTXAS_OPTIONS")
    mock_ptx_version = env_opt_str("TRITON_MOCK_PTX_VERSION")
    dump_ptxas_log = env_bool("TRITON_DUMP_PTXAS_LOG")
    libdevice_path = env_opt_str("TRITON_LIBDEVICE_PATH")
    libcuda_path = env_opt_str("TRITON_LIBCUDA_PATH")


class amd_knobs(base_knobs):
    """AMD's code generator, which is not used."""

    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True)
    use_buffer_atomics = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True)
    dump_amdgcn = env_bool("AMDGCN_ENABLE_DUMP")
    libhip_path = env_opt_str("TRITON_LIBHIP_PATH")
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = env_opt_bool("TRITON_HIP_USE_ASYNC_COPY")
    scalarize_packed_fops = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS")


class proton_knobs(base_knobs):
    """The profiler, which is not there."""

    disable = env_bool("TRITON_PROTON_DISABLE")


build = build_knobs()
redis = redis_knobs()
cache = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()


def refresh_knobs() -> None:
    """Look at the environment again."""
    from tegula.compat.triton import environment

    environment.adopt(os.environ)
