"""What the shared lowering to threads has to know of NVIDIA's machines, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt import exponentials
from tegula.codegen.simt.hooks import SHARED_SYMBOL, Access, Simt, unpacked
from tegula.codegen.simt.printing import Texts
from tegula.codegen.simt.swapping import compare_and_swap
from tegula.ir.types import DType
from tegula.plugin import ANY, Capabilities, Target
from tegula_cuda import access, atomics, native, printing
from tegula_cuda.options import CudaOptions
from tegula_cuda.target import TRIPLE, WARP_SIZE, features_of
from tegula_cuda.tma import TensorCopies

if TYPE_CHECKING:
    from tegula.codegen.simt.matrix import MatrixUnit
    from tegula.codegen.simt.products import SharedUnit
    from tegula.passes import Pipeline
    from tegula.plugin import Options

DTYPES = frozenset(
    "i1 i8 i16 i32 i64 u8 u16 u32 u64 f8e5 f8e5b16 f8e4nv f8e4b8 f8e4b15 f16 bf16 f32 f64".split()
)

_SREG = "llvm.nvvm.read.ptx.sreg."
_AXES = "xyz"
_SHUFFLES = {"xor": ("bfly", 31), "up": ("up", 0), "down": ("down", 31), "idx": ("idx", 31)}
"""LLVM's name of a shuffle, and the lane at which it stops."""
_ALL_LANES = -1


class CudaSimt(Simt):
    """One kernel's view of a GPU; made for each compilation."""

    native_math = native.NATIVE
    slow_division = True
    assembly: ClassVar[dict[str, str]] = {
        "r": "i32", "l": "i64", "h": "i16", "f": "float", "d": "double", "b": "i1", "c": "i8",
    }  # fmt: skip
    tile_rules = exponentials.TILES
    scopes: ClassVar[dict[str, str]] = {"cta": "block", "gpu": "device", "sys": ""}

    def __init__(self, target: Target, options: CudaOptions) -> None:
        self.target = target
        self.options = options
        self.warp_size = WARP_SIZE
        self.shared_limit = int(target["shared_bytes"])
        features = features_of(target)
        self.async_copies = "cp_async" in features
        narrow = native.NARROW if "bf16" in features else {}
        self.rules = {**exponentials.rules(self), **native.MATH, **narrow}
        self.bulk_copies = TensorCopies() if options.tensor_copies and "tma" in features else None
        self.matrix_loads = "ldmatrix" in features
        self.matrix_stores = "stmatrix" in features
        self._texts = Texts()

    @property
    def prints(self) -> bool:
        """Whether the kernel prints."""
        return bool(self._texts)

    # -- the module

    def header(self) -> str:
        return f'target triple = "{TRIPLE}"'

    def shared(self, nbytes: int) -> str:
        return f"{SHARED_SYMBOL} = external addrspace(3) global [0 x i8], align 1024"

    def kernel(
        self, name: str, params: Sequence[tuple[str, str, dict[str, Any]]], body: str, threads: int
    ) -> str:
        listed = ", ".join(f"{ty}{_alignment(ty, facts)} {name}" for ty, name, facts in params)
        return f"define ptx_kernel void @{name}({listed}) #0 {{\n{body}\n}}"

    def footer(self, name: str, threads: int) -> str:
        facts = [f'"nvvm.reqntid"="{threads}"']
        if self.options.maxnreg is not None:
            facts.append(f'"nvvm.maxnreg"="{self.options.maxnreg}"')
        texts = self._texts.definitions(printing.TEXTS)
        return f"attributes #0 = {{ nounwind {' '.join(facts)} }}\n{texts}"

    def begin(self, w: Writer) -> None:
        if self.options.launch_pdl:  # what the kernel before it wrote is seen after the wait
            text = "griddepcontrol.wait; griddepcontrol.launch_dependents;"
            w.do(f'call void asm sideeffect "{text}", "~{{memory}}"()')

    # -- threads

    def thread_id(self, w: Writer) -> Val:
        return w.call(_SREG + "tid.x", "i32")

    def program_id(self, w: Writer, axis: int) -> Val:
        return w.call(_SREG + "ctaid." + _AXES[axis], "i32")

    def num_programs(self, w: Writer, axis: int) -> Val:
        return w.call(_SREG + "nctaid." + _AXES[axis], "i32")

    def barrier(self, w: Writer) -> None:
        if self.options.num_warps == 1:
            w.declare("llvm.nvvm.bar.warp.sync", "void (i32)")
            w.do(f"call void @llvm.nvvm.bar.warp.sync(i32 {_ALL_LANES})")
            return
        w.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void (i32)")
        w.do("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def shuffle(self, w: Writer, x: Val, mode: str, by: Val) -> Val:
        kind, stop = _SHUFFLES[mode]
        name = f"llvm.nvvm.shfl.sync.{kind}.i32"
        w.declare(name, "i32 (i32, i32, i32, i32)")
        return w.here(
            "i32",
            f"call i32 @{name}(i32 {_ALL_LANES}, i32 {x.text}, i32 {by.text}, i32 {stop})",
        )

    def clock(self, w: Writer) -> Val:
        name = _SREG + "globaltimer"
        w.declare(name, "i64 ()")
        return w.here("i64", f"call i64 @{name}()")

    # -- arithmetic

    def exp2(self, w: Writer, x: Val, denormals: bool) -> Val:
        return w.call(f"llvm.nvvm.ex2.approx{'' if denormals else '.ftz'}.f", "float", x)

    def saturated(self, w: Writer, a: Val, b: Val, c: Val) -> Val:
        return w.call("llvm.nvvm.fma.rn.sat.f", "float", a, b, c)

    # -- memory

    def load(
        self, w: Writer, ptr: Val, ty: str, count: int, pred: Val | None,
        other: Sequence[Val] | None, access_: Access, align: int,
    ) -> list[Val]:  # fmt: skip
        if (pred is None or pred.const is not None) and not access.special(access_):
            return super().load(w, ptr, ty, count, pred, other, access_, align)
        return access.load(w, ptr, ty, count, pred, other, access_, align)

    def store(
        self, w: Writer, ptr: Val, values: Sequence[Val], pred: Val | None, access_: Access,
        align: int,
    ) -> None:  # fmt: skip
        if (pred is None or pred.const is not None) and not access.special(access_):
            super().store(w, ptr, values, pred, access_, align)
        else:
            access.store(w, ptr, values, pred, access_, align)

    def atomic_rmw(
        self, w: Writer, kind: str, ptr: Val, value: Val, e: DType, sem: str, scope: str
    ) -> Val:
        order, capability = self.order(sem, scope), int(self.target["capability"])
        return atomics.rmw(w, kind, ptr, value, e, sem, scope, order, capability)

    def atomic_cas(
        self, w: Writer, ptr: Val, cmp: Val, value: Val, e: DType, sem: str, scope: str
    ) -> Val:
        return compare_and_swap(w, ptr, cmp, value, e.itemsize, self.order(sem, scope))

    # -- copies on their own, and matrix units

    def async_copy(self, w: Writer, to: Val, ptr: Val, nbytes: int, pred: Val | None) -> None:
        way = "cg" if nbytes == 16 else "ca"
        text = f"cp.async.{way}.shared.global [$0], [$1], {nbytes}"
        place = w.pure("i32", f"ptrtoint {to.ty} {{}} to i32", to)
        operands, constraints = f"i32 {place.text}, {ptr.ty} {ptr.text}", "r,l"
        if pred is None or pred.const is not None:
            text += ";" if pred is None or pred.const else ", 0;"
        else:
            size = w.select(pred, w.const(nbytes, "i32"), w.const(0, "i32"))
            text += ", $2;"
            operands, constraints = operands + f", i32 {size.text}", constraints + ",r"
        w.do(f'call void asm sideeffect "{text}", "{constraints},~{{memory}}"({operands})')

    def async_commit(self, w: Writer) -> None:
        w.do('call void asm sideeffect "cp.async.commit_group;", "~{memory}"()')

    def async_wait(self, w: Writer, pending: int) -> None:
        w.do(f'call void asm sideeffect "cp.async.wait_group {pending};", "~{{memory}}"()')
        if "wgmma" in features_of(self.target):
            self.shared_fence(w)

    def shared_fence(self, w: Writer) -> None:
        w.do('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')

    def shared_unit(
        self, a: DType, b: DType, acc: DType, shape: tuple[int, int, int], precision: str,
        warps: int,
    ) -> SharedUnit | None:  # fmt: skip
        if "wgmma" not in features_of(self.target):
            return None
        from tegula_cuda.wgmma import wgmma_unit

        return wgmma_unit(a, b, acc, shape, precision, warps)

    def matrix_units(self, a: DType, b: DType, acc: DType) -> Sequence[MatrixUnit]:
        from tegula_cuda.matrix import units

        return units(features_of(self.target)).get((a.name, b.name, acc.name), ())

    def load_matrices(self, w: Writer, ptr: Val, count: int, transposed: bool) -> list[Val]:
        ty = "{ " + ", ".join(["i32"] * count) + " }" if count > 1 else "i32"
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * transposed}.b16.p3"
        w.declare(name, f"{ty} (ptr addrspace(3))")
        all_ = w.here(ty, f"call {ty} @{name}({ptr.ty} {ptr.text})")
        return [all_] if count == 1 else unpacked(w, all_, "i32", count)

    def store_matrices(self, w: Writer, ptr: Val, words: Sequence[Val], transposed: bool) -> None:
        count = len(words)
        name = f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{count}{'.trans' * transposed}.b16.p3"
        w.declare(name, f"void (ptr addrspace(3){', i32' * count})")
        given = "".join(f", i32 {x.text}" for x in words)
        w.do(f"call void @{name}({ptr.ty} {ptr.text}{given})")

    # -- talking to the host

    def print_line(self, w: Writer, text: str, arguments: Sequence[Val]) -> None:
        printing.print_line(w, self._texts.of(text), arguments)


def _alignment(ty: str, facts: dict[str, Any]) -> str:
    divisible = int(facts.get("divisible", 1))
    if not ty.startswith("ptr"):
        return ""
    return f" align {divisible}" if divisible > 1 and divisible & (divisible - 1) == 0 else ""


# -------------------------------------------------------------------------------------------------
# What the compiler asks for


def pipeline(target: Target, options: Options) -> Pipeline:
    """The passes that follow the shared ones."""
    from tegula.codegen.math import ExpandMath
    from tegula.passes import Pipeline
    from tegula.passes.contract import Contract

    fused = [Contract()] if options.enable_fp_fusion else []
    return Pipeline([*fused, ExpandMath(CudaSimt.native_math)])


def capabilities(target: Target) -> Capabilities:
    """What compiles for a target."""
    from tegula.codegen.capabilities import atomics, products
    from tegula.codegen.simt.capabilities import supported_ops

    features = {"device_assert", "device_print", "inline_asm", "graphs", "streams", "cooperative"}
    if "cp_async" in features_of(target):
        features.add("async_copy")
    return Capabilities(
        target,
        dtypes=DTYPES,
        ops={name: frozenset({ANY}) for name in (*supported_ops(), "inline_asm")},
        dot=products(DTYPES, mixed_bytes=True),
        atomics=atomics(DTYPES),
        features=frozenset(features),
        limits={
            "grid": 65535,
            "shared_bytes": int(target["shared_bytes"]),
            "vector_bits": CudaSimt.vector_bits,
            "warp_size": WARP_SIZE,
            "warps": int(target["max_threads"]) // WARP_SIZE,
        },
        numerics={
            "fma": "contracted with enable_fp_fusion=True only",
            "denormals": "kept, except by atomic additions of f32, which take and leave 0",
            "reduction_order": "free",
            "index_overflow": "wraps",
            "ulp": dict(native.ULP),
            "dot_f8": "sums keep fewer bits than f32 has",
        },
    )
