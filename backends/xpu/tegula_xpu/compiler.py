"""Compiles kernels for Intel devices: tile IR to LLVM text for many threads to SPIR-V."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tegula.errors import OptionValueError, OutOfResources
from tegula.plugin import (
    ANY,
    Artifact,
    Capabilities,
    Compiler,
    OptionError,
    Options,
    Target,
    UnsupportedError,
    digest,
)
from tegula.runtime import stages

if TYPE_CHECKING:
    from tegula.ir import Module
    from tegula.passes import Pipeline


DTYPES = "i1 i8 i16 i32 i64 u8 u16 u32 u64 f8e5 f8e5b16 f8e4nv f8e4b8 f8e4b15 f16 bf16 f32 f64"


def _takes_many(lane_bytes: int, warps: int, target: Target) -> bool:
    """Whether a tile alone takes half of the registers, and half of the threads are enough."""
    size, register = int(target["subgroup"]), int(target["register"])
    enough = 2 * warps * size <= int(target["max_threads"])
    return enough and lane_bytes * size >= 64 * register > 0


@dataclass(frozen=True)
class XpuOptions(Options):
    """The common options; stages, clusters and registers mean nothing here yet."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {"num_stages", "num_ctas", "maxnreg", "enable_fp_fusion"}
    )
    any_warps: bool = False
    """The backend chooses `num_warps`: on processors, for launches that do not say."""


class XpuCompiler(Compiler):
    """Tiles spread over the work-items of a work-group."""

    def targets(self) -> Sequence[Target]:
        from tegula_xpu.target import known_targets

        return known_targets()

    def capabilities(self, target: Target) -> Capabilities:
        from tegula.codegen.capabilities import atomics, products
        from tegula.codegen.simt.capabilities import supported_ops
        from tegula.ir.types import DTYPES as ALL

        lacking = {name for name in ("f64", "f16") if not target[name.replace("f", "fp")]}
        dtypes = frozenset(DTYPES.split()) - lacking
        atomic = [n for n in dtypes if ALL[n].bits < 64 or target["atomic64"]]
        return Capabilities(
            target,
            dtypes=dtypes,
            ops={name: frozenset({ANY}) for name in supported_ops() - {"atomic_poll"}},
            dot=products(dtypes),
            atomics=atomics(atomic),
            features=frozenset({"atomic_subnormals", "device_assert", "device_print", "streams"}),
            limits={
                "warp_size": int(target["subgroup"]),
                "shared_bytes": int(target["shared_bytes"]),
                "warps": int(target["max_threads"]) // int(target["subgroup"]),
            },
            numerics={"fma": "never contracted", "denormals": "kept", "reduction_order": "free"},
        )

    def options(self, target: Target, given: Mapping[str, Any]) -> Options:
        free = target.arch == "cpu" and "num_warps" not in given
        options = XpuOptions.make({"any_warps": free, **given})
        warps, size, limit = options.num_warps, int(target["subgroup"]), int(target["max_threads"])
        if warps <= 0 or warps & (warps - 1):
            raise OptionValueError(f"num_warps must be a power of 2, not {warps}")
        if warps * size > limit:
            raise OptionError(
                f"num_warps={warps} means {warps * size} work-items; {target} has room for {limit}"
            )
        return options

    def pipeline(self, target: Target, options: Options) -> Pipeline:
        from tegula.codegen.math import ExpandMath
        from tegula.passes import Pipeline
        from tegula_xpu.simt import XpuSimt

        return Pipeline([ExpandMath(XpuSimt(target).native_math)])

    def emit(self, module: Module, target: Target, options: Options) -> Artifact:
        from tegula.codegen.loops.evaluate import Unsupported
        from tegula.codegen.simt.capabilities import check_dtypes
        from tegula.codegen.simt.lower import entry_of, lower
        from tegula.codegen.simt.warps import suitable_warps
        from tegula_xpu.simt import XpuSimt
        from tegula_xpu.spirv import assemble

        check_dtypes(module, self.capabilities(target))
        simt = XpuSimt(target)
        (kernel,) = module.kernels
        warps, most = options.num_warps, int(target["max_threads"]) // simt.warp_size
        if isinstance(options, XpuOptions) and options.any_warps:
            warps = suitable_warps(kernel, simt.warp_size, most)
        try:
            lowered = lower(
                module,
                simt,
                num_warps=warps,
                assume_disjoint=options.assume_disjoint,
                debug=options.debug,
            )
        except Unsupported as error:
            op = error.op
            raise UnsupportedError("xpu", op.name, error.why, loc=op.loc) from None
        stages.record("llir", lowered.text)
        if lowered.shared_bytes > simt.shared_limit:
            raise OutOfResources(
                lowered.shared_bytes,
                simt.shared_limit,
                f"bytes of shared memory (kernel `{kernel.name}`, {target})",
            )
        code = assemble(lowered.text)
        return Artifact(
            "spirv",
            code,
            entry_of(kernel.name),
            tuple(str(p.type) for p in kernel.body.args),
            {
                **lowered.metadata,
                "digest": digest(code),
                "shared": lowered.shared_bytes,
                "shared_bytes": lowered.shared_bytes,
                "num_warps": warps,
                "threads": warps * simt.warp_size,
                "large_registers": _takes_many(lowered.lane_bytes, warps, target),
                "asserts": list(lowered.asserts),
                "alias_pairs": [list(pair) for pair in lowered.alias_pairs],
            },
        )

    def fingerprint(self) -> str:
        import llvmlite
        import llvmlite.binding as llvm

        from tegula import __version__

        llvm_version = ".".join(map(str, llvm.llvm_version_info))
        return f"xpu {__version__}, llvmlite {llvmlite.__version__}, LLVM {llvm_version}"
