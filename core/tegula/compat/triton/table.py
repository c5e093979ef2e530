"""Which module of Triton is which modules of Tegula."""

from __future__ import annotations

from typing import Final

VERSION: Final = "3.6.0"
"""The level of Triton that programs see: the last with block pointers. Newer names exist too."""

FOREIGN_OPTIONS: Final = frozenset(
    {
        "allowed_dot_input_precisions", "arch", "backend_name", "clc", "cluster_dims",
        "default_dot_input_precision", "deprecated_fp8_dot_operand_dtypes", "extern_libs",
        "instrumentation_mode", "ir_override", "launch_cooperative_grid", "launch_pdl",
        "max_num_imprecise_acc_default", "ptx_options", "ptx_version", "supported_fp8_dtypes",
        "allow_flush_denorm", "kpack", "llvm_fn_attrs", "matrix_instr_nonkdim", "schedule_hint",
        "waves_per_eu", "wgp_cu_mode", "grf_mode", "optimize_epilogue", "warp_size",
        "generate_native_code", "enable_reflect_ftz",
    }
)  # fmt: skip
"""Options of Triton's backends that launches may give, and that mean nothing here."""

_HERE = "tegula.compat.triton."
_LANGUAGE = (_HERE + "language", "tegula.language")
_LIBDEVICE = ("tegula.language.extra.libdevice",)

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "triton": (_HERE + "package",),
    "triton.language": _LANGUAGE,
    "triton.language.core": (_HERE + "core", *_LANGUAGE),
    "triton.language.standard": (_HERE + "standard", *_LANGUAGE),
    "triton.language.math": ("tegula.language.math", *_LIBDEVICE, *_LANGUAGE),
    "triton.language.random": ("tegula.language.random", *_LANGUAGE),
    "triton.language.semantic": _LANGUAGE,
    "triton.language.target_info": (_HERE + "target_info", "tegula.language.target_info"),
    "triton.language.extra": (_HERE + "extra",),
    "triton.language.extra.libdevice": _LIBDEVICE,
    **{
        f"triton.language.extra.{vendor}{module}": (_HERE + "vendor", *_LIBDEVICE)
        if vendor in ("cuda", "hip") and not module
        else _LIBDEVICE
        for vendor in ("cuda", "hip", "intel", "cpu")
        for module in ("", ".libdevice")
    },
    "triton.runtime": (_HERE + "runtime",),
    "triton.runtime.jit": (_HERE + "runtime", _HERE + "kernels"),
    "triton.runtime.autotuner": (_HERE + "runtime", "tegula.runtime.autotune"),
    "triton.runtime.driver": (_HERE + "driver",),
    "triton.runtime.errors": (_HERE + "errors",),
    "triton.runtime.cache": (_HERE + "cache",),
    "triton.runtime.interpreter": (_HERE + "runtime", _HERE + "kernels"),
    "triton.runtime._allocation": (_HERE + "allocation",),
    "triton.runtime._async_compile": ("tegula.runtime.async_compile",),
    "triton.compiler": (_HERE + "compiler",),
    "triton.compiler.compiler": (_HERE + "compiler",),
    "triton.compiler.errors": (_HERE + "errors",),
    "triton.compiler.code_generator": (_HERE + "compiler", _HERE + "errors"),
    "triton.errors": (_HERE + "errors",),
    "triton.testing": (_HERE + "testing", "tegula.testing"),
    "triton.tools": (_HERE + "tools",),
    "triton.tools.tensor_descriptor": (_HERE + "tensor_descriptor",),
    "triton.backends": (_HERE + "backends",),
    "triton.backends.compiler": (_HERE + "compiler",),
    "triton.backends.driver": (_HERE + "driver",),
    "triton.knobs": (_HERE + "knobs",),
    "triton._utils": (_HERE + "kernels",),
}
"""Module of the alias -> modules whose names it has, the first that has one counts. A module
with one source and no modules below is that very source, so that assignments to its attributes are
seen by it.
"""
