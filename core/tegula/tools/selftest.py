"""Tests of one backend for `tegula doctor`: the plugin's own health checks, and a small kernel."""

from __future__ import annotations

import time
from typing import Any

from tegula.plugin.backend import Backend
from tegula.plugin.contract import Device
from tegula.plugin.loader import one_line
from tegula.plugin.records import Finding

KERNEL = """
kernel @axpy(%x: ptr<const f32>, %y: ptr<f32>, %a: f32, %n: i32) {
  %pid = program_id {axis = 0} : i32
  %block = constant {value = 64} : i32
  %start = mul %pid, %block : i32
  %lane = arange {start = 0, end = 64} : i32[64]
  %starts = splat %start {shape = [64]} : i32[64]
  %i = add %starts, %lane : i32[64]
  %ns = splat %n {shape = [64]} : i32[64]
  %mask = cmp %i, %ns {pred = "lt"} : i1[64]
  %xs = splat %x {shape = [64]} : ptr<const f32>[64]
  %xp = addptr %xs, %i : ptr<const f32>[64]
  %xv = load %xp, mask = %mask : f32[64]
  %ys = splat %y {shape = [64]} : ptr<f32>[64]
  %yp = addptr %ys, %i : ptr<f32>[64]
  %yv = load %yp, mask = %mask : f32[64]
  %as = splat %a {shape = [64]} : f32[64]
  %ax = mul %as, %xv : f32[64]
  %sum = add %ax, %yv : f32[64]
  store %yp, %sum, mask = %mask
  return
}
"""

ELEMENTS = 1000
"""No multiple of the tile, so that the mask matters."""


def health_results(backend: Backend) -> list[dict[str, Any]]:
    """Run the plugin's health checks; one that raises is a problem of its own."""
    try:
        checks = backend.health_checks()
    except Exception as error:
        return [_result("health checks", Finding("problem", one_line(error)))]
    results = []
    for check in checks:
        try:
            finding = check.run()
        except Exception as error:
            finding = Finding("problem", f"the check raised {one_line(error)}")
        results.append(_result(check.name, finding))
    return results


def run_small_kernel(backend: Backend, index: int) -> dict[str, Any]:
    """Compile `y += a * x`, run it on one device and compare with numpy."""
    name = f"kernel on {backend.name}:{index}"
    try:
        begin = time.perf_counter()
        wrong, compile_ms = _axpy(backend, index)
        total_ms = (time.perf_counter() - begin) * 1e3
    except Exception as error:
        return _result(name, Finding("problem", one_line(error)))
    if wrong:
        message = f"wrong results: {wrong} of {ELEMENTS} elements differ from numpy"
        return _result(name, Finding("problem", message))
    message = f"right results; compiled in {compile_ms:.0f} ms, {total_ms:.0f} ms in all"
    return _result(name, Finding("ok", message))


def _result(name: str, finding: Finding) -> dict[str, Any]:
    return {"name": name, **finding.to_json()}


def _axpy(backend: Backend, index: int) -> tuple[int, float]:
    import numpy as np

    from tegula.ir import parse_module
    from tegula.tools.execute import compile_for, launch

    module = parse_module(KERNEL)
    (signature,) = module.kernels
    begin = time.perf_counter()
    kernel = compile_for(module, backend.name, index=index)
    compile_ms = (time.perf_counter() - begin) * 1e3

    device = backend.device(index)
    x = np.linspace(-1, 1, ELEMENTS, dtype=np.float32)
    y = np.arange(ELEMENTS, dtype=np.float32)
    expected = np.float32(3) * x + y
    addresses = [_upload(device, array) for array in (x, y)]
    try:
        args = {"x": addresses[0], "y": addresses[1], "a": 3.0, "n": ELEMENTS}
        launch(kernel, signature, -(-ELEMENTS // 64), args)
        device.synchronize()
        device.copy(y.ctypes.data, addresses[1], y.nbytes)
        device.synchronize()
    finally:
        for address in addresses:
            device.free(address)
    return int(np.sum(~np.isclose(y, expected, rtol=1e-6, atol=1e-6))), compile_ms


def _upload(device: Device, array: Any) -> int:
    address = device.alloc(array.nbytes)
    device.copy(address, array.ctypes.data, array.nbytes)
    return address
