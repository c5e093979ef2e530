"""NVIDIA's driver through `cuda.bindings`, which is imported at first use; its errors explained."""

from __future__ import annotations

from functools import cache
from typing import Any

from tegula.errors import DeviceError, KernelError

MINIMUM = (12, 0)
"""The oldest version of CUDA that a driver has to support."""

_ADDRESSES_AS_OF = 12000
"""Version of CUDA whose functions `address` gives."""

FAULTS = (700, 710, 715, 716, 717, 718, 719)
"""Errors of kernels that ran."""
GONE = (4, 201, 709, *FAULTS)
"""Errors that leave nothing on a device to give back; 4: the process ends."""
REMEDIES = {
    1: "a size or an address is not one that the device knows",
    2: "free memory, or use smaller arrays",
    200: "the code is damaged or was made for something else; clear the cache: tegula cache clear",
    209: "the code was made for another architecture; compile for this device's target",
    218: "update NVIDIA's driver, or set TEGULA_PTXAS to the path of NVIDIA's ptxas",
    222: "update NVIDIA's driver, or set TEGULA_PTXAS to the path of a ptxas as old as the driver",
    700: "a kernel read or wrote out of bounds, this one or one launched before it: check masks, "
    "shapes and strides, or run the program on the interpreter (TEGULA_INTERPRET=1), which checks "
    "every access; this process cannot use the device any more",
    701: "a program needs more registers or shared memory than there are: use fewer warps, smaller "
    "blocks, fewer stages, or set maxnreg",
    702: "a kernel ran longer than the system allows: give each launch less work",
    709: "another library has reset the device; start the process anew, and let nothing reset it",
    710: "an assertion of another library's kernel failed; this process cannot use the device any "
    "more",
    715: "the code has an instruction that the device lacks: check the target and inline assembly; "
    "this process cannot use the device any more",
    716: "a kernel used an address that is no multiple of the access's size: check hints such as "
    "multiple_of; this process cannot use the device any more",
    719: "a kernel, this one or one launched before it, did something that the device does not "
    "allow; compute-sanitizer says what; this process cannot use the device any more",
    720: "a cooperative launch needs all programs to run at once: use a smaller grid",
    802: "NVIDIA's system services are not ready; look at nvidia-smi",
    803: "NVIDIA's driver and its libraries are of different versions: restart the machine",
    999: "the driver is in a bad state; look at nvidia-smi",
    906: "a stream is recording a graph, and the default stream cannot be used meanwhile",
    **dict.fromkeys(
        (900, 901),
        "a stream is recording a graph: synchronize, allocate and copy outside of the recording",
    ),
}
"""What to do about an error of the driver, by number."""


def find() -> Any:
    """The module `cuda.bindings.driver`."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(
            f"the cuda backend launches through the package cuda-bindings, which cannot be "
            f"imported ({error}); install it: pip install 'cuda-bindings>=12.8'"
        ) from error
    return driver


def started() -> bool:
    """Whether this process has started the driver already, by whatever library."""
    try:
        return int(find().cuDeviceGetCount()[0]) == 0
    except RuntimeError:  # the library is not there
        return False


@cache
def bindings() -> Any:
    """The module `cuda.bindings.driver`, with the driver started."""
    driver = find()
    try:
        started = driver.cuInit(0)
    except RuntimeError as error:  # the library is not there
        raise DeviceError("NVIDIA's driver is not installed") from error
    check(started, "NVIDIA's driver does not start", driver)
    return driver


def device_of(address: int) -> int:
    """The number of the device whose memory holds an address."""
    driver = bindings()
    what = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    result = driver.cuPointerGetAttribute(what, address)
    if int(result[0]) == 1:  # an invalid value
        raise DeviceError(
            f"no memory that CUDA knows is at its address {address:#x}; it may have been freed, or "
            "belong to the host or to a device of another vendor"
        )
    return int(check(result, f"the address {address:#x}"))


def first_line(error: BaseException) -> str:
    """The first line of an exception's text."""
    return str(error).partition("\n")[0]


def describe(number: int, driver: Any = None) -> str:
    """Name, meaning and remedy of an error of the driver."""
    driver = driver or bindings()
    try:
        result = driver.CUresult(number)
        name = driver.cuGetErrorName(result)[1].decode()
        text = driver.cuGetErrorString(result)[1].decode()
    except (ValueError, AttributeError):  # newer than the bindings
        name, text = "unknown", "unknown error"
    remedy = REMEDIES.get(number)
    return f"{name} ({number}): {text}" + (f"; {remedy}" if remedy else "")


def check(result: tuple[Any, ...], what: str, driver: Any = None) -> Any:
    """The values of a call to the driver; an error is raised as a `DeviceError` about `what`."""
    code, *values = result
    if int(code) != 0:
        kind = KernelError if int(code) in FAULTS else DeviceError
        raise kind(f"{what}: {describe(int(code), driver)}")
    return values[0] if len(values) == 1 else tuple(values)


def address(name: str) -> int:
    """Address of a function of the driver."""
    found = check(bindings().cuGetProcAddress(name.encode(), _ADDRESSES_AS_OF, 0), name)
    pointer = int(found[0] if isinstance(found, tuple) else found)
    if not pointer:
        raise DeviceError(f"NVIDIA's driver has no function {name}; update it")
    return pointer


def version() -> tuple[int, int]:
    """The newest version of CUDA that the driver supports."""
    number = check(bindings().cuDriverGetVersion(), "the driver's version")
    return number // 1000, number % 1000 // 10
