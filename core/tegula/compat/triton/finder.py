"""The import hook: finds the modules of `table.MODULES`."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tegula.compat.triton.table import MODULES, VERSION
from tegula.errors import nearest


class AliasFinder(MetaPathFinder, Loader):
    """Finds and makes the modules of the alias. Nothing behind one is imported before it is
    needed.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None  # others look along the alias's path, which is empty
        spec = ModuleSpec(fullname, self, origin="tegula", is_package=True)
        spec.submodule_search_locations = []
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        sources = MODULES[name]
        if len(sources) == 1 and not any(n.startswith(name + ".") for n in MODULES):
            sys.modules[name] = importlib.import_module(sources[0])
            return
        alias = Alias(module, sources)
        module.__dict__.update(
            __doc__=f"`{name}`, as Tegula offers it.",
            __file__=__file__,
            __getattr__=alias.get,
            __dir__=alias.names,
            __all__=_Names(alias),
        )
        if name == "triton":
            module.__dict__["__version__"] = VERSION

    def find_distributions(self, context: Any) -> Iterator[importlib.metadata.Distribution]:
        """What `importlib.metadata.version("triton")` asks."""
        if getattr(context, "name", None) == "triton":
            yield AliasDistribution()


class Alias:
    """Attributes of one module of the alias: those of its sources, in order, and modules below."""

    def __init__(self, module: ModuleType, sources: Sequence[str]) -> None:
        self.module = module
        self.name = module.__name__
        self.sources = sources

    def get(self, attribute: str) -> Any:
        """Module `__getattr__`: looked up once, kept in the module after that."""
        below = f"{self.name}.{attribute}"
        if below in MODULES:
            return importlib.import_module(below)
        if not attribute.startswith("__"):
            for module in self.modules():
                private = attribute.startswith("_") and attribute in module.__dict__
                if private or attribute in _public(module):
                    value = getattr(module, attribute)
                    setattr(self.module, attribute, value)
                    return value
        raise AttributeError(
            f"module {self.name!r} has no attribute {attribute!r}, as Tegula offers it"
            f"{nearest(attribute, self.names())}"
        )

    def modules(self) -> Iterator[ModuleType]:
        """The sources, those that this version of Tegula has."""
        for source in self.sources:
            try:
                yield importlib.import_module(source)
            except ModuleNotFoundError as error:
                if error.name is None or not source.startswith(error.name):
                    raise

    def names(self) -> list[str]:
        """Module `__dir__`."""
        found = {name for module in self.modules() for name in _public(module)}
        start = f"{self.name}."
        found |= {n[len(start) :] for n in MODULES if n.startswith(start)}
        return sorted(n for n in found if "." not in n)


class _Names(list[str]):
    """`__all__`, made when somebody writes `from ... import *`."""

    def __init__(self, alias: Alias) -> None:
        super().__init__()
        self._alias = alias

    def __iter__(self) -> Iterator[str]:
        return iter(self._alias.names())

    def __getitem__(self, index: Any) -> Any:
        return self._alias.names()[index]

    def __len__(self) -> int:
        return len(self._alias.names())


def _public(module: ModuleType) -> Sequence[str]:
    names = getattr(module, "__all__", None)
    return names if names is not None else [n for n in dir(module) if not n.startswith("_")]


class AliasDistribution(importlib.metadata.Distribution):
    """The alias as installed packages are described."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: triton\nVersion: {VERSION}\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"the alias of triton has no files ({path})")
