"""What `tegula doctor xpu` says where something is missing."""

from __future__ import annotations

import dataclasses

import pytest

from tegula.plugin import Probe, Target
from tegula.plugin.registry import registry

pytestmark = pytest.mark.skipif("xpu" not in registry.names(), reason="tegula-xpu is missing")


def finding(name: str):
    from tegula_xpu import health

    (check,) = [c for c in health.checks() if c.name == name]
    return check.run()


def test_dpctl_is_missing(monkeypatch):
    from tegula_xpu import sycl

    def missing():
        raise ModuleNotFoundError("No module named 'dpctl'", name="dpctl")

    monkeypatch.setattr(sycl, "dpctl", missing)
    found = finding("dpctl")
    assert found.status == "problem" and "not installed" in found.message
    assert "pip install" in found.hint
    found = finding("devices")
    assert found.status == "problem" and "dpctl is not installed" in found.message


def test_the_runtime_is_missing(monkeypatch):
    from tegula_xpu import sycl

    monkeypatch.setattr(sycl, "devices", lambda: [])
    monkeypatch.setattr(sycl, "opencl_for_cpus", lambda: None)
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    assert "only GPUs are found" in finding("OpenCL for processors").message
    found = finding("devices")
    assert found.status == "problem" and "runtime for processors is missing" in found.message
    assert "driver" in found.hint and "pip install" in found.hint


def test_no_device_is_shown(monkeypatch, tmp_path):
    from tegula_xpu import sycl

    monkeypatch.setattr(sycl, "devices", lambda: [])
    monkeypatch.setattr(sycl, "opencl_for_cpus", lambda: tmp_path)
    found = finding("devices")
    assert found.status == "problem" and "no device" in found.message
    assert "ONEAPI_DEVICE_SELECTOR" in found.hint


def test_a_device_lacks_float64(device, monkeypatch):
    from tegula_xpu.driver import XpuDriver

    target = Target("xpu", "xe-hpg", {**device.info.target.attrs, "fp64": False})
    details = {**device.info.details, "for_tests": False, "interface": "level_zero"}
    lacking = dataclasses.replace(device.info, target=target, details=details)
    probe = Probe("available", devices=(lacking,))
    monkeypatch.setattr(XpuDriver, "probe", classmethod(lambda cls: probe))
    found = finding("devices")
    assert found.status == "ok" and "has no fp64" in found.message
