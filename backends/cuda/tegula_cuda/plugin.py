"""Declares the CUDA backend to the core. Light: compiler and driver are imported when used."""

from __future__ import annotations

from tegula.plugin import BackendSpec, ConformanceProfile, HealthCheck, hookimpl


@hookimpl
def tegula_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="cuda",
            api=(0, 1),
            ir=((0, 1), (0, 1)),
            compiler="tegula_cuda.compiler:CudaCompiler",
            driver="tegula_cuda.driver:CudaDriver",
            kind="gpu",
            priority=100,
            dlpack=(2, 13),
            torch="cuda",
            interface="__cuda_array_interface__",
            hardware=("/dev/nvidia[0-9]*", "/dev/dxg"),
            summary="NVIDIA GPUs through PTX",
            install_hint="install NVIDIA's driver, and: pip install tegula-cuda",
        )
    ]


@hookimpl
def tegula_health_checks(backend: str | None) -> list[HealthCheck]:
    if backend != "cuda":
        return []
    from tegula_cuda.health import checks

    return checks()


@hookimpl
def tegula_conformance(backend: str, device: int | None) -> ConformanceProfile | None:
    if backend != "cuda":
        return None
    from tegula_cuda.native import ULP

    return ConformanceProfile("cuda", tolerances=ULP)
