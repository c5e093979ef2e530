"""What `tegula doctor cuda` looks at."""

from __future__ import annotations

from tegula.plugin import DeviceError, Finding, HealthCheck
from tegula_cuda import cu, ptxas
from tegula_cuda.target import DRIVERS


def checks() -> list[HealthCheck]:
    """The checks, in the order in which they make sense."""
    return [
        HealthCheck("driver", "NVIDIA's driver and the package that calls it", driver),
        HealthCheck("devices", "what the driver shows", devices),
        HealthCheck("assembler", "who turns PTX into machine code", assembler),
        HealthCheck("compiler", "LLVM's code for NVIDIA's GPUs", compiler),
    ]


def driver() -> Finding:
    """Whether the driver is there, starts, and is new enough."""
    try:
        cu.bindings()
        version = cu.version()
    except DeviceError as error:
        hint = "" if "pip install" in str(error) else "install NVIDIA's driver"
        return Finding("problem", cu.first_line(error), hint)
    said = f"supports CUDA {_text(version)}"
    if version < cu.MINIMUM:
        need = f"{said}; {_text(cu.MINIMUM)} is needed"
        return Finding("problem", need, "update NVIDIA's driver")
    return Finding("ok", said)


def devices() -> Finding:
    """The devices, and whether their generations are known."""
    from tegula_cuda.driver import CudaDriver

    probe = CudaDriver.probe()
    if probe.status != "available":
        return Finding("problem", probe.reason, probe.hint)
    listed = ", ".join(f"cuda:{d.index} {d.name} ({d.target.arch})" for d in probe.devices)
    old = [f"cuda:{d.index}" for d in probe.devices if not d.details["supported"]]
    if old:
        return Finding("warning", f"{listed}; too old to be used: {', '.join(old)}")
    late = {d.target.arch: DRIVERS[d.target["ptx"]] for d in probe.devices}
    late = {arch: least for arch, least in late.items() if least > cu.version()}
    if late and ptxas.find() is None:
        (arch, least), *_ = late.items()
        return Finding(
            "warning",
            f"{listed}; the driver reads no PTX for {arch}, which CUDA {_text(least)} does",
            "update NVIDIA's driver, or install ptxas: pip install 'tegula-cuda[ptxas]'",
        )
    return Finding("ok", listed)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def assembler() -> Finding:
    """ptxas or the driver; either will do."""
    try:
        path = ptxas.find()
    except DeviceError as error:
        return Finding("problem", str(error))
    if path is None:
        return Finding("ok", "the driver assembles PTX when it loads it (no ptxas is used)")
    return Finding("ok", f"ptxas {ptxas.version(path)} at {path}")


def compiler() -> Finding:
    """Whether this LLVM makes PTX."""
    from tegula_cuda.compiler import to_ptx
    from tegula_cuda.target import resolve

    try:
        ptx = to_ptx("define ptx_kernel void @empty() {\n  ret void\n}\n", resolve("sm_80"))
    except Exception as error:
        return Finding(
            "problem",
            f"LLVM makes no PTX: {cu.first_line(error)}",
            "reinstall llvmlite: pip install --force-reinstall 'llvmlite>=0.50,<0.51'",
        )
    return Finding("ok", "PTX " + ptx.partition(".version ")[2].partition("\n")[0])
