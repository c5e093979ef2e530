"""Declares the CPU backend to the core. Light: compiler and driver are imported when used."""

from __future__ import annotations

from tegula.plugin import BackendSpec, hookimpl


@hookimpl
def tegula_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="cpu",
            api=(0, 1),
            ir=((0, 1), (0, 1)),
            compiler="tegula_cpu.compiler:CpuCompiler",
            driver="tegula_cpu.driver:CpuDriver",
            kind="cpu",
            priority=0,
            dlpack=(1,),
            torch="cpu",
            summary="vectorised loop nests on a native thread pool",
        )
    ]
