"""What a plugin may use: the records, the classes to implement and the hook marker.

A plugin module imports from here and from the standard library only.
"""

from __future__ import annotations

from tegula.errors import DeviceError, OptionError
from tegula.plugin.contract import (
    Compiler,
    Device,
    Driver,
    Kernel,
)
from tegula.plugin.errors import (
    PluginError,
    RecordError,
    TegulaPluginWarning,
    UnsupportedError,
)
from tegula.plugin.hookspecs import (
    hookimpl,
)
from tegula.plugin.integrity import (
    check_elf,
    check_intact,
    damaged,
    digest,
)
from tegula.plugin.records import (
    ANY,
    Artifact,
    BackendSpec,
    Capabilities,
    CompileContext,
    ConformanceProfile,
    DeviceInfo,
    Expectation,
    Extension,
    Finding,
    HealthCheck,
    MemoryRange,
    Options,
    Probe,
    Target,
    TritonTarget,
)
from tegula.versions import API, API_MIN, IR_VERSION

__all__ = [
    "ANY",
    "API",
    "API_MIN",
    "IR_VERSION",
    "Artifact",
    "BackendSpec",
    "Capabilities",
    "CompileContext",
    "Compiler",
    "ConformanceProfile",
    "Device",
    "DeviceError",
    "DeviceInfo",
    "Driver",
    "Expectation",
    "Extension",
    "Finding",
    "HealthCheck",
    "Kernel",
    "MemoryRange",
    "OptionError",
    "Options",
    "PluginError",
    "Probe",
    "RecordError",
    "Target",
    "TegulaPluginWarning",
    "TritonTarget",
    "UnsupportedError",
    "check_elf",
    "check_intact",
    "damaged",
    "digest",
    "hookimpl",
]
