"""Kernels run beside faulty plugins as if these were not there, apart from a warning each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import warnings
import numpy as np
import tegula
import tegula.language as tl
from tegula.plugin import TegulaPluginWarning

@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

x = np.arange(1000, dtype=np.float32)
out = np.zeros_like(x)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        add[(8,)](x, x, out, 1000, BLOCK=128)
assert (out == 2 * x).all()
for warning in caught:
    if issubclass(warning.category, TegulaPluginWarning):
        print(warning.message)
"""

FAULTS = {
    "absent": "import no_such_package_anywhere",
    "raising": "from tegula.plugin import hookimpl\n"
    "@hookimpl\ndef tegula_backends(): raise RuntimeError('no licence')",
    "exiting": "import sys; sys.exit(1)",
}


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_kernels_run_beside_faulty_plugins(install, tmp_path, backend):
    for name, source in FAULTS.items():
        install(f"tegula-{name}", name, source)
    install("tegula-future", "future", api="(2, 0)")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    disabled = {"cpu": "interpreter", "interpreter": "cpu"}[backend]
    path = os.pathsep.join([str(install.folder), *filter(None, sys.path)])

    process = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "TEGULA_DISABLE": disabled,
            "TEGULA_CACHE_DIR": str(tmp_path / "cache"),
        },
    )

    assert process.returncode == 0, process.stderr
    for name in [*FAULTS, "future"]:
        assert process.stdout.count(f"backend '{name}'") == 1, process.stdout
