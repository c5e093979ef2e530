"""One backend as the core uses it: compiler, driver and open devices, made on demand."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tegula.plugin.contract import Compiler, Device, Driver
from tegula.plugin.errors import PluginError
from tegula.plugin.loader import Rejected, Source, State, Status, one_line
from tegula.plugin.records import (
    BackendSpec,
    CompileContext,
    ConformanceProfile,
    DeviceInfo,
    Extension,
    HealthCheck,
    Probe,
    Target,
    load_object,
)
from tegula.versions import IR_VERSION

if TYPE_CHECKING:
    from tegula.passes import Pipeline

T = TypeVar("T")

HookCall = Callable[..., Any]


class Backend:
    """A backend by its name, with everything known about it.

    `status` says where it stands. The other attributes raise `PluginError` with the reason where
    the backend cannot do what is asked.
    """

    def __init__(self, source: Source, status: Status, others: Sequence[Source] = ()) -> None:
        self.source = source
        self.others = tuple(others)
        """Further distributions that claim the same name."""
        self.status = status
        self._spec: BackendSpec | None = None
        self._call: HookCall | None = None
        self._lock = threading.RLock()
        self._compiler: Compiler | None = None
        self._driver: Driver | None = None
        self._probe: Probe | None = None
        self._devices: dict[int, Device] = {}
        self._fingerprint: str | None = None

    def loaded(self, spec: BackendSpec, call: HookCall) -> None:
        """Take over the record of a plugin that was just loaded."""
        self._spec, self._call = spec, call
        self.status = Status(State.REGISTERED)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def state(self) -> State:
        return self.status.state

    def __repr__(self) -> str:
        return f"<backend {self.name}: {self.state} ({self.source})>"

    @property
    def spec(self) -> BackendSpec:
        if self._spec is None:
            raise self.error()
        return self._spec

    @property
    def priority(self) -> int:
        return self.spec.priority

    def reaches(self, dlpack_type: int) -> bool:
        """Whether its devices work on memory of this DLPack device type."""
        return self._spec is not None and dlpack_type in self._spec.dlpack

    def error(self, what: str = "cannot be used") -> PluginError:
        """The reason why the backend cannot be used, as an exception."""
        reason = self.status.reason or f"it is {self.state}"
        return PluginError(
            f"backend '{self.name}' ({self.source}) {what}: {reason}",
            backend=self.name,
            hint=self.status.hint,
        )

    # ---------------------------------------------------------------------------------------------
    # Compiling

    @property
    def compiler(self) -> Compiler:
        """The backend's compiler; imported at the first use, with or without a device."""
        if self._compiler is None:
            with self._lock:
                if self._compiler is None:
                    self._compiler = self._make(self.spec.compiler, Compiler)
        return self._compiler

    def fingerprint(self) -> str:
        """Everything about the backend that shapes code, for cache keys."""
        if self._fingerprint is None:
            extensions = ",".join(f"{e.name}={e.fingerprint}" for e in self.extensions())
            parts = (self.name, str(self.source), self.compiler.fingerprint(), extensions)
            self._fingerprint = "|".join(parts)
        return self._fingerprint

    def context(self, target: Target, options: Mapping[str, Any]) -> CompileContext:
        """Resolve one compilation: checked options and capabilities for a target."""
        compiler = self.compiler
        return CompileContext(
            self.spec, target, compiler.capabilities(target), compiler.options(target, options)
        )

    def pipeline(self, context: CompileContext) -> Pipeline:
        """All passes of a compilation: the shared ones, the backend's and its extensions'."""
        from tegula.passes import Pipeline, default_pipeline

        own = self.compiler.pipeline(context.target, context.options)
        passes: list[Any] = [
            *self._extra("shared.begin"),
            *default_pipeline().passes,
            *self._extra("shared.end"),
            *self._extra("backend.begin"),
            *own.passes,
            *self._extra("backend.end"),
        ]
        return Pipeline(tuple(passes))

    def _extra(self, anchor: str) -> list[Any]:
        return [p for e in self.extensions() for p in e.passes.get(anchor, ())]

    # ---------------------------------------------------------------------------------------------
    # Running

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            with self._lock:
                if self._driver is None:
                    path = self.spec.driver
                    if path is None:
                        raise PluginError(
                            f"backend '{self.name}' only compiles: it has no driver",
                            backend=self.name,
                        )
                    self._driver = self._make(path, Driver)
        return self._driver

    def probe(self) -> Probe:
        """What devices there are. Looked at once; never raises."""
        if self._probe is None:
            with self._lock:
                if self._probe is None:
                    self._probe = self._look()
        return self._probe

    def _look(self) -> Probe:
        if not self.state.loaded:
            return Probe("unavailable", self.status.reason or str(self.state), self.status.hint)
        if self.spec.driver is None:
            return self._settle(Probe("unavailable", "it only compiles and has no driver"))
        try:
            # Asked of the class, as the contract has it: nothing is made to look for devices.
            probe = load_object(self.spec.driver).probe()
            if not isinstance(probe, Probe):
                raise TypeError(f"probe() has to return a Probe, not {type(probe).__name__}")
        except (Exception, SystemExit) as error:
            self.status = Status(
                State.CRASHED,
                f"looking for devices raised {one_line(error)}",
                self.spec.install_hint,
                "".join(traceback.format_exception(error)),
            )
            return Probe("unavailable", self.status.reason, self.status.hint)
        return self._settle(probe)

    def _settle(self, probe: Probe) -> Probe:
        state = State.AVAILABLE if probe.status == "available" else State.UNAVAILABLE
        hint = probe.hint or (self.spec.install_hint if state is State.UNAVAILABLE else "")
        self.status = Status(state, probe.reason, hint)
        return probe

    @property
    def available(self) -> bool:
        """Whether it has at least one device."""
        return self.probe().status == "available"

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        return self.probe().devices

    def info(self, index: int = 0) -> DeviceInfo:
        """What is known about one device; an index that does not exist is an error."""
        if not self.available:
            raise self.error("has no device")
        if not 0 <= index < len(self.devices):
            raise PluginError(
                f"device '{self.name}:{index}' does not exist; "
                f"'{self.name}' has {len(self.devices)} device(s), numbered from 0",
                backend=self.name,
            )
        return self.devices[index]

    def device(self, index: int = 0) -> Device:
        """An open device; opened once per process."""
        device = self._devices.get(index)
        if device is None:
            with self._lock:
                device = self._devices.get(index)
                if device is None:
                    self.info(index)
                    device = self._devices[index] = self.driver.open(index)
                    self.status = Status(State.OPEN)
        return device

    def _make(self, path: str, kind: type[T]) -> T:
        try:
            made = load_object(path)()
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"backend '{self.name}' ({self.source}): '{path}' cannot be loaded: "
                f"{one_line(error)}",
                backend=self.name,
                hint=self.spec.install_hint,
            ) from error
        if not isinstance(made, kind):
            raise PluginError(
                f"backend '{self.name}' ({self.source}): '{path}' is no {kind.__name__}",
                backend=self.name,
            )
        return made

    # ---------------------------------------------------------------------------------------------
    # The plugin's other hooks

    def extensions(self) -> list[Extension]:
        """The passes that the plugin adds to compilations for its backend."""
        return self._records("tegula_extensions", Extension, ir_version=IR_VERSION)

    def health_checks(self) -> list[HealthCheck]:
        return self._records("tegula_health_checks", HealthCheck, backend=self.name)

    def conformance(self, device: int | None = None) -> ConformanceProfile:
        """What the plugin declares about its conformance; an empty profile if nothing."""
        found = self._hook("tegula_conformance", backend=self.name, device=device)
        return found if found is not None else ConformanceProfile(self.name)

    def _records(self, hook: str, kind: type[T], **arguments: Any) -> list[T]:
        records = self._hook(hook, **arguments)
        for record in records:
            if not isinstance(record, kind):
                raise PluginError(
                    f"backend '{self.name}' ({self.source}): {hook}() has to give "
                    f"{kind.__name__} records, not {type(record).__name__}",
                    backend=self.name,
                )
        return list(records)

    def _hook(self, hook: str, **arguments: Any) -> Any:
        if self._call is None:
            raise self.error()
        try:
            return self._call(hook, **arguments)
        except Rejected as rejected:
            raise PluginError(
                f"backend '{self.name}' ({self.source}): {rejected.status.reason}",
                backend=self.name,
            ) from rejected.__cause__
