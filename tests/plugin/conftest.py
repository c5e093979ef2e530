"""Fake distributions: real `.dist-info` metadata and modules in a temporary folder on sys.path."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tegula.config import config
from tegula.plugin import select
from tegula.plugin.registry import Registry

IR = "((0, 1), (0, 1))"

PLUGIN = """
from tegula.plugin import (
    BackendSpec, Device, DeviceInfo, Driver, Finding, HealthCheck, Probe, Target, hookimpl,
)

@hookimpl
def tegula_backends():
    {before}
    return [BackendSpec(
        name="{backend}", api={api}, ir={ir}, compiler="{module}:C", driver={driver},
        priority={priority}, dlpack={dlpack}, hardware={hardware}, requires={requires},
        install_hint="{install_hint}",
    )]

class D(Driver):
    opened = 0

    @classmethod
    def probe(cls):
        {probe}

    def owns(self, tensor):
        return getattr(tensor, "owner", None) == "{backend}"

    def open(self, index):
        D.opened += 1
        return ("device", index)

def found(count):
    target = Target("{backend}", "fake")
    return Probe("available", devices=[
        DeviceInfo(i, f"fake {{i}}", target) for i in range(count)])

{extra}
"""


@dataclass
class Installer:
    """Writes fake distributions into `folder`."""

    folder: Path
    modules: list[str] = field(default_factory=list)

    def __call__(
        self, dist: str, name: str, source: str | None = None, *, module: str = "", **options: str
    ) -> str:
        """Install a distribution with one backend; returns the module's name.

        `source` is the plugin module's text; without it a well-behaved plugin is written, changed
        by `options`, which replace parts of `PLUGIN`.
        """
        module = module or dist.replace("-", "_") + "_plugin"
        if source is None:
            source = self.well_behaved(name, module, **options)
        self.write_module(module, source)
        self.write_metadata(dist, f"[tegula.backends]\n{name} = {module}\n")
        return module

    def well_behaved(self, name: str, module: str, **options: str) -> str:
        fields = {
            "backend": name,
            "module": module,
            "before": "pass",
            "api": "(0, 1)",
            "ir": IR,
            "driver": f'"{module}:D"',
            "priority": "50",
            "dlpack": "(1,)",
            "hardware": "()",
            "requires": "()",
            "install_hint": "",
            "probe": "return found(1)",
            "extra": "",
        }
        assert not set(options) - set(fields), f"no such part: {set(options) - set(fields)}"
        return PLUGIN.format(**{**fields, **options})

    def write_module(self, module: str, source: str) -> None:
        self.modules.append(module)
        (self.folder / f"{module}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()

    def write_metadata(self, dist: str, entry_points: str, version: str = "1.2") -> None:
        info = self.folder / f"{dist.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n"
            "Requires-Dist: tegula<0.2,>=0.1\nRequires-Dist: numpy\n"
        )
        (info / "entry_points.txt").write_text(entry_points)
        importlib.invalidate_caches()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    installer = Installer(folder)
    yield installer
    for module in installer.modules:
        sys.modules.pop(module, None)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A fresh registry, used by device selection too."""
    fresh = Registry()
    monkeypatch.setattr(select, "registry", fresh)
    monkeypatch.setattr(select, "_warned_of", set())
    return fresh


@pytest.fixture
def setting() -> Iterator[Callable[..., None]]:
    """Set settings until the test ends."""
    given: set[str] = set()

    def set_(**values: object) -> None:
        given.update(values)
        config.set(**values)

    yield set_
    config.set(**dict.fromkeys(given))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for knob in ("DEVICE", "BACKEND", "INTERPRET", "DISABLE", "PLUGIN_PATH", "STRICT_PLUGINS"):
        monkeypatch.delenv(f"TEGULA_{knob}", raising=False)
