"""Declares the backend for Intel devices. Light: compiler and driver are imported when used."""

from __future__ import annotations

from tegula.plugin import BackendSpec, HealthCheck, hookimpl

INSTALL = "pip install 'tegula[xpu]'"
INTERFACE = "__sycl_usm_array_interface__"


@hookimpl
def tegula_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="xpu",
            api=(0, 1),
            ir=((0, 1), (0, 1)),
            compiler="tegula_xpu.compiler:XpuCompiler",
            driver="tegula_xpu.driver:XpuDriver",
            kind="gpu",
            priority=80,
            dlpack=(14,),
            torch="xpu",
            interface=INTERFACE,
            summary="SPIR-V for Intel GPUs, and for processors through OpenCL",
            install_hint=INSTALL,
        )
    ]


@hookimpl
def tegula_health_checks() -> list[HealthCheck]:
    from tegula_xpu import health

    return health.checks()
