"""A backend for tests of the CUDA driver: its kernels are LLVM text written by hand, which the
driver under test loads and launches. A jit function of the same name gives the signature.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tegula.config import config
from tegula.plugin import (
    Artifact,
    BackendSpec,
    Capabilities,
    Compiler,
    Options,
    Target,
    hookimpl,
)
from tegula.plugin.registry import registry
from tegula_cuda.compiler import finish
from tegula_cuda.options import CudaOptions
from tegula_cuda.target import known_targets

GLOBAL = "ptr addrspace(1)"

_PROLOGUE = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @vprintf(ptr, ptr)
@tegula_shared = external addrspace(3) global [0 x i8], align 16
"""

_INDEX = """
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %cta = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %first = mul i32 %cta, %size
  %i = add i32 %first, %tid
"""


@dataclass(frozen=True)
class Hand:
    """One kernel: parameters and body, and what its metadata have to say."""

    params: str
    body: str
    shared: int = 0
    asserts: tuple[str, ...] = ()
    prints: bool = False

    def text(self, name: str) -> str:
        return (
            f"{_PROLOGUE}\ndefine ptx_kernel void @{name}({self.params}) {{\n"
            f"{_INDEX}{self.body}\n}}\n"
        )


KERNELS = {
    # z[i] = x[i] + y[i] for i < n
    "add": Hand(
        f"{GLOBAL} %x, {GLOBAL} %y, {GLOBAL} %z, i32 %n",
        f"""
  %in = icmp slt i32 %i, %n
  br i1 %in, label %do, label %end
do:
  %x.p = getelementptr float, {GLOBAL} %x, i32 %i
  %y.p = getelementptr float, {GLOBAL} %y, i32 %i
  %z.p = getelementptr float, {GLOBAL} %z, i32 %i
  %a = load float, {GLOBAL} %x.p
  %b = load float, {GLOBAL} %y.p
  %c = fadd float %a, %b
  store float %c, {GLOBAL} %z.p
  br label %end
end:
  ret void""",
    ),
    # x[i] = i * scale + offset, with an i64 and a double argument
    "affine": Hand(
        f"{GLOBAL} %x, i64 %scale, double %offset",
        f"""
  %i64 = sext i32 %i to i64
  %m = mul i64 %i64, %scale
  %f = sitofp i64 %m to double
  %v = fadd double %f, %offset
  %p = getelementptr double, {GLOBAL} %x, i32 %i
  store double %v, {GLOBAL} %p
  ret void""",
    ),
    # fails in the program x[0], in each of its threads
    "positive": Hand(
        f"{GLOBAL} %x, {GLOBAL} %tegula_error",
        f"""
  %bad = load i32, {GLOBAL} %x
  %is = icmp eq i32 %bad, %cta
  br i1 %is, label %fail, label %end
fail:
  %seen = cmpxchg {GLOBAL} %tegula_error, i32 0, i32 2 monotonic monotonic
  %first.one = extractvalue {{i32, i1}} %seen, 1
  br i1 %first.one, label %note, label %end
note:
  %p0 = getelementptr i32, {GLOBAL} %tegula_error, i32 1
  store i32 %cta, {GLOBAL} %p0
  %p1 = getelementptr i32, {GLOBAL} %tegula_error, i32 2
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  store i32 %y, {GLOBAL} %p1
  %p2 = getelementptr i32, {GLOBAL} %tegula_error, i32 3
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  store i32 %z, {GLOBAL} %p2
  br label %end
end:
  ret void""",
        asserts=("never shown", "x is not positive"),
    ),
    # prints a number from each thread 0
    "speak": Hand(
        "i32 %n",
        """
  %one = icmp eq i32 %tid, 0
  br i1 %one, label %do, label %end
do:
  %args = alloca {i32, i32}, align 8
  store i32 %cta, ptr %args
  %second = getelementptr i32, ptr %args, i32 1
  store i32 %n, ptr %second
  %format = addrspacecast ptr addrspace(1) @text to ptr
  %done = call i32 @vprintf(ptr %format, ptr %args)
  br label %end
end:
  ret void""",
        prints=True,
    ),
    # reverses each program's numbers through shared memory
    "reverse": Hand(
        f"{GLOBAL} %x",
        f"""
  %p = getelementptr i32, {GLOBAL} %x, i32 %i
  %v = load i32, {GLOBAL} %p
  %s = getelementptr i32, ptr addrspace(3) @tegula_shared, i32 %tid
  store i32 %v, ptr addrspace(3) %s
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %last = sub i32 %size, 1
  %other = sub i32 %last, %tid
  %t = getelementptr i32, ptr addrspace(3) @tegula_shared, i32 %other
  %w = load i32, ptr addrspace(3) %t
  store i32 %w, {GLOBAL} %p
  ret void""",
        shared=64 << 10,
    ),
    # x[program] = number of its cluster's programs
    "clusters": Hand(
        f"{GLOBAL} %x",
        f"""
  %count = call i32 asm "mov.u32 $0, %cluster_nctaid.x;", "=r"()
  %p = getelementptr i32, {GLOBAL} %x, i32 %cta
  store i32 %count, {GLOBAL} %p
  ret void""",
    ),
    # reads far outside of everything
    "stray": Hand(
        f"{GLOBAL} %x",
        f"""
  %p = getelementptr i8, {GLOBAL} %x, i64 1125899906842624
  store i32 1, {GLOBAL} %p
  ret void""",
    ),
}

_EXTRA = {
    "speak": '@text = internal addrspace(1) constant [16 x i8] c"program %d: %d\\0A\\00"\n',
    "reverse": "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n",
}


def text_of(name: str) -> str:
    """The LLVM text of one kernel."""
    return _EXTRA.get(name, "") + KERNELS[name].text(name)


def artifact_of(
    name: str, target: Target, options: CudaOptions | None = None, params: Sequence[str] = ()
) -> Artifact:
    """One kernel, compiled."""
    hand, options = KERNELS[name], options or CudaOptions()
    metadata = {
        "shared_bytes": hand.shared,
        "num_warps": options.num_warps,
        "asserts": list(hand.asserts),
        "prints": hand.prints,
    }
    return finish(text_of(name), name, params, metadata, target, options)


@hookimpl
def tegula_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="hand",
            api=(0, 1),
            ir=((0, 1), (0, 1)),
            compiler=f"{__name__}:HandCompiler",
            driver="tegula_cuda.driver:CudaDriver",
            kind="gpu",
            priority=-300,
            dlpack=(2,),
        )
    ]


class HandCompiler(Compiler):
    def targets(self) -> Sequence[Target]:
        return known_targets()

    def capabilities(self, target: Target) -> Capabilities:
        return Capabilities(target, dtypes=frozenset({"f32", "i32"}))

    def options(self, target: Target, given: Mapping[str, Any]) -> Options:
        return CudaOptions.make(given)

    def pipeline(self, target: Target, options: Options) -> Any:
        from tegula.passes import Pipeline

        return Pipeline(())

    def emit(self, module: Any, target: Target, options: Options) -> Artifact:
        (kernel,) = module.kernels
        params = [str(p.type) for p in kernel.body.args]
        assert isinstance(options, CudaOptions)
        return artifact_of(kernel.name, target, options, params)

    def fingerprint(self) -> str:
        return "hand 1"


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """The backend is known and chosen inside the block."""
    plugins = ",".join([*config.plugin_path, f"hand={__name__}"])
    with config.scope(plugin_path=plugins, device="hand", cache=False):
        registry.refresh()
        registry.backend("hand")
        yield
    registry.refresh()
