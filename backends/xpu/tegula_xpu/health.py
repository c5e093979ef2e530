"""What `tegula doctor xpu` looks at."""

from __future__ import annotations

import os

from tegula.plugin import DeviceInfo, Finding, HealthCheck
from tegula_xpu.plugin import INSTALL


def checks() -> list[HealthCheck]:
    return [
        HealthCheck("dpctl", "the library that reaches SYCL devices", _dpctl),
        HealthCheck("OpenCL for processors", "the runtime that tests need", _opencl),
        HealthCheck("devices", "what devices there are and what they lack", _devices),
    ]


def _dpctl() -> Finding:
    from tegula_xpu import sycl

    try:
        version = sycl.dpctl().__version__
    except ModuleNotFoundError:
        return Finding(
            "problem", "dpctl is not installed: kernels compile, and cannot run", INSTALL
        )
    except ImportError as error:
        return Finding("problem", f"dpctl cannot be imported: {error}", INSTALL)
    missing = [name for name in sycl.FUNCTIONS if not hasattr(sycl.interface(), name)]
    if missing:
        return Finding("problem", f"dpctl {version} lacks {', '.join(missing)}", INSTALL)
    return Finding("ok", f"version {version}")


def _opencl() -> Finding:
    from tegula_xpu import sycl

    library = sycl.opencl_for_cpus()
    if library is not None:
        return Finding("ok", str(library))
    listed = os.environ.get("OCL_ICD_FILENAMES", "")
    if sycl.OPENCL_FOR_CPUS in listed:
        return Finding("ok", f"by OCL_ICD_FILENAMES: {listed}")
    return Finding(
        "ok", "Intel's OpenCL runtime is not in this environment; only GPUs are found", INSTALL
    )


def _devices() -> Finding:
    from tegula_xpu.driver import XpuDriver

    probe = XpuDriver.probe()
    if probe.status != "available":
        return Finding("problem", probe.reason, probe.hint)
    lines = "; ".join(map(_describe, probe.devices))
    if all(device.details["for_tests"] for device in probe.devices):
        hint = "for a GPU, install its driver (Level Zero); the processor serves for tests"
        return Finding("warning", f"no GPU: {lines}", hint)
    return Finding("ok", lines)


def _describe(device: DeviceInfo) -> str:
    target = device.target
    lacking = [name for name in ("fp64", "fp16", "atomic64") if not target[name]]
    text = (
        f"xpu:{device.index} {device.name} ({device.details['interface']}, {target.arch}, "
        f"subgroups of {target['subgroup']}, {target['shared_bytes'] >> 10} KiB shared)"
    )
    return f"{text} has no {', '.join(lacking)}" if lacking else text
