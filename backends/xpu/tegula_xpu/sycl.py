"""dpctl, imported when it is first needed, and its C interface."""

from __future__ import annotations

import ctypes
import os
import site
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

OPENCL_FOR_CPUS = "libintelocl.so"
"""Intel's OpenCL runtime for processors; its package does not tell the system that it is there."""
_ICD_LIST = "OCL_ICD_FILENAMES"

_P, _N, _I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int

FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "DPCTLaligned_alloc_device": (_P, (_N, _N, _P)),
    "DPCTLaligned_alloc_shared": (_P, (_N, _N, _P)),
    "DPCTLfree_with_queue": (None, (_P, _P)),
    "DPCTLQueue_Memcpy": (_P, (_P, _P, _P, _N)),
    "DPCTLQueue_Wait": (None, (_P,)),
    "DPCTLQueue_IsInOrder": (ctypes.c_bool, (_P,)),
    "DPCTLQueue_SubmitBarrier": (_P, (_P,)),
    "DPCTLQueue_SubmitBarrierForEvents": (_P, (_P, _P, _N)),
    "DPCTLQueue_SubmitNDRange": (_P, (_P, _P, _P, _P, _N, _P, _P, _N, _P, _N)),
    "DPCTLEvent_Wait": (None, (_P,)),
    "DPCTLEvent_Delete": (None, (_P,)),
    "DPCTLEvent_GetProfilingInfoEnd": (_N, (_P,)),
}
"""What is called of the C interface: result and parameters."""


def opencl_for_cpus() -> Path | None:
    """Intel's OpenCL runtime for processors, where its package has put it."""
    roots = [sys.prefix, site.getuserbase() or sys.prefix, sys.base_prefix]
    for root in dict.fromkeys(roots):
        found = Path(root) / "lib" / OPENCL_FOR_CPUS
        if found.exists():
            return found
    return None


@cache
def dpctl() -> Any:
    """The module `dpctl`, with Intel's OpenCL runtime made known to OpenCL's loader before."""
    listed = [name for name in os.environ.get(_ICD_LIST, "").split(os.pathsep) if name]
    library = opencl_for_cpus()
    if library is not None and not any(OPENCL_FOR_CPUS in name for name in listed):
        os.environ[_ICD_LIST] = os.pathsep.join([*listed, str(library)])
    import dpctl

    return dpctl


@cache
def interface() -> Any:
    """dpctl's C interface, with the prototypes of `FUNCTIONS`."""
    directory = Path(dpctl().__file__).parent
    found = [p for p in directory.glob("*DPCTLSyclInterface*") if p.suffix in (".so", ".dll")]
    if not found:
        raise OSError(f"dpctl's C interface is not in {directory}")
    library = ctypes.CDLL(str(found[0]))
    for name, (result, params) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, params
    return library


def address_of(name: str) -> int:
    """Address of a function of the C interface, for native code."""
    return ctypes.cast(getattr(interface(), name), _P).value or 0


def devices() -> list[Any]:
    """GPUs first (Level Zero's, or OpenCL's where it has none), then processors."""
    return list(_devices(dpctl().get_devices()))


def _devices(found: list[Any]) -> Iterator[Any]:
    gpus = [d for d in found if d.is_gpu and backend_of(d) in ("level_zero", "opencl")]
    native = [d for d in gpus if backend_of(d) == "level_zero"]
    yield from native or gpus  # the same GPU, seen through two interfaces, is one device
    yield from (d for d in found if d.is_cpu and backend_of(d) == "opencl")


def backend_of(device: Any) -> str:
    """`level_zero`, `opencl`, ..."""
    return str(device.backend.name)


def wait(event: int | None, what: str) -> None:
    """Wait for an event of the C interface and release it; a null one is a failure."""
    from tegula.plugin import DeviceError

    if not event:
        raise DeviceError(f"{what} was refused by the SYCL runtime")
    interface().DPCTLEvent_Wait(event)
    interface().DPCTLEvent_Delete(event)
