"""Which device a launch runs on. The first of these that says something decides:

1. `device=` at the launch,
2. `tegula.use_device(...)`,
3. `TEGULA_INTERPRET` and `TEGULA_DEVICE`,
4. where the tensor arguments live,
5. the best available device that reaches host memory.

`TEGULA_BACKEND` limits 4 and 5 to the listed backends, in that order of preference. An explicit
choice never falls back to something else: if it cannot be used, that is an error with its reason.
"""

from __future__ import annotations

import glob
import warnings
from collections.abc import Callable, Sequence
from contextvars import Token
from dataclasses import dataclass
from typing import Any

from tegula.config import OVERRIDES, Settings, config
from tegula.errors import DeviceError, MixedDevicesError
from tegula.plugin.backend import Backend
from tegula.plugin.contract import Device
from tegula.plugin.errors import PluginError, TegulaPluginWarning
from tegula.plugin.records import HOST_DLPACK, DeviceInfo, Target
from tegula.plugin.registry import registry

SHARED_DLPACK_TYPES = frozenset({12})
"""DLPack device types that several vendors use; there a driver says which tensors are its own."""


@dataclass(frozen=True)
class DeviceId:
    """A device by its name: `cpu`, `acme:1`."""

    backend: str
    index: int = 0

    @classmethod
    def parse(cls, device: Any) -> DeviceId:
        """From a text, a `DeviceId`, or an array library's object with `type` and `index`."""
        if isinstance(device, DeviceId):
            return device
        if isinstance(device, Selection):
            return device.id
        if not isinstance(device, str) and isinstance(getattr(device, "type", None), str):
            return cls(device.type, getattr(device, "index", None) or 0)
        backend, colon, index = device.partition(":") if isinstance(device, str) else ("", "", "")
        if not backend or (colon and not index.isdecimal()):
            raise DeviceError(
                f"{device!r} names no device; write a backend's name and, if it has several "
                "devices, a number: 'cpu', 'cpu:0'"
            )
        return cls(backend, int(index or 0))

    def __str__(self) -> str:
        return f"{self.backend}:{self.index}"


@dataclass(frozen=True)
class Selection:
    """The device that was chosen, and what decided."""

    backend: Backend
    id: DeviceId
    why: str

    @property
    def info(self) -> DeviceInfo:
        return self.backend.info(self.id.index)

    def open(self) -> Device:
        """The device, opened at the first use."""
        return self.backend.device(self.id.index)


@dataclass(frozen=True)
class TargetSelection(Selection):
    """A target to compile for, whether or not there is a device of it; given as `device=` where
    nothing is launched.
    """

    target: Target

    @property
    def info(self) -> DeviceInfo:
        return DeviceInfo(self.id.index, str(self.target), self.target)


@dataclass(frozen=True)
class Place:
    """Where one tensor argument lives: a DLPack device type and a number."""

    argument: str
    tensor: Any
    type: int
    index: int
    owner: DeviceId | None = None
    """The device that an array of Tegula's own was made for; others can reach the same memory."""

    @property
    def key(self) -> tuple[int, int]:
        return (self.type, 0 if self.type == HOST_DLPACK else self.index)

    def __str__(self) -> str:
        if self.owner is not None:
            return f"device {self.owner}"
        if self.type == HOST_DLPACK:
            return "host memory"
        device = getattr(self.tensor, "device", None)
        return f"device {device}" if device is not None else f"DLPack device {self.key}"


class use_device:
    """Choose the device of the launches that follow, in this thread or task.

    Called by itself it stays in force; in a `with` statement it ends with the block. `None` goes
    back to choosing automatically.
    """

    def __init__(self, device: Any) -> None:
        name = None if device is None else str(DeviceId.parse(device))
        self._outer: Settings = OVERRIDES.get()
        self._token: Token[Settings] = OVERRIDES.set(Settings.of({**self._outer, "device": name}))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        OVERRIDES.reset(self._token)


def select_device(tensors: Sequence[tuple[str, Any]] = (), device: Any = None) -> Selection:
    """The device for a launch whose tensor arguments are `tensors`, as (argument name, tensor)."""
    if isinstance(device, TargetSelection):
        return device
    places = [place_of(name, tensor) for name, tensor in tensors]
    _check_one_place(places)
    explicit = _explicit(device)
    if explicit is not None:
        chosen, why = explicit
        selection = _named(chosen, why)
        _check_reach(selection, places)
        return selection
    owned = [place for place in places if place.owner is not None]
    if owned:
        return _by_owner(owned[0], places)
    if places:
        return _by_place(places[0])
    return _best_available()


def preferred_device(fits: Callable[[Backend], bool]) -> Selection:
    """The device that was chosen explicitly, else the best available one whose backend fits, else
    that of launches without tensor arguments.
    """
    explicit = _explicit(None)
    if explicit is not None:
        return _named(*explicit)
    for backend in _candidates():
        if backend.spec.driver and fits(backend) and backend.available:
            return _named(DeviceId(backend.name), "best available device that fits")
    return _best_available()


def _explicit(device: Any) -> tuple[DeviceId, str] | None:
    if device is not None:
        return DeviceId.parse(device), "device="
    scoped = OVERRIDES.get()
    if "device" in scoped:
        name = scoped["device"]
        return None if name is None else (DeviceId.parse(name), "use_device()")
    if config.interpret:
        return DeviceId("interpreter"), "TEGULA_INTERPRET"
    if config.debugger:
        return DeviceId("interpreter"), "TEGULA_DEBUGGER"
    if config.device:
        return DeviceId.parse(config.device), "TEGULA_DEVICE"
    return None


def _named(device: DeviceId, why: str) -> Selection:
    """The device of that name, or an error with the reason; nothing else is tried."""
    try:
        backend = registry.backend(device.backend)
        backend.info(device.index)
    except PluginError as error:
        raise DeviceError(f"{error}\n  ('{device}' was chosen: {why})") from error
    return Selection(backend, device, why)


# -------------------------------------------------------------------------------------------------
# Where tensors live


def place_of(argument: str, tensor: Any) -> Place:
    """Where a tensor argument lives, by DLPack or an array interface."""
    ask = getattr(tensor, "__dlpack_device__", None)
    if ask is not None:
        try:
            kind, index = ask()
        except Exception as error:
            raise DeviceError(
                f"argument '{argument}' ({type(tensor).__name__}) does not say where it lives: "
                f"{error}"
            ) from error
        own = getattr(tensor, "__tegula_array__", False)
        owner = DeviceId.parse(tensor.device) if own else None
        return Place(argument, tensor, int(kind), int(index), owner)
    if hasattr(tensor, "__array_interface__"):
        return Place(argument, tensor, HOST_DLPACK, 0)
    raise DeviceError(
        f"argument '{argument}' of type {type(tensor).__name__} is no tensor: it offers neither "
        "DLPack nor an array interface"
    )


def _check_one_place(places: Sequence[Place]) -> None:
    owners = {place.owner for place in places if place.owner is not None}
    if len({place.key for place in places}) > 1 or len(owners) > 1:
        where = "".join(f"\n  {place.argument}: {place}" for place in places)
        raise MixedDevicesError(
            f"the tensor arguments live on different devices:{where}\n"
            "copy them to one device before the launch"
        )


def _check_reach(selection: Selection, places: Sequence[Place]) -> None:
    for place in places:
        same_device = place.type == HOST_DLPACK or place.index == selection.id.index
        if not (_claims(selection.backend, place) and same_device):
            raise DeviceError(
                f"{selection.why} chose '{selection.id}', and argument '{place.argument}' lives in "
                f"{place}, which '{selection.id}' does not reach; copy it with "
                f"tegula.asarray({place.argument}, device='{selection.id}') or choose another one"
            )


def _claims(backend: Backend, place: Place) -> bool:
    if not backend.reaches(place.type):
        return False
    return place.type not in SHARED_DLPACK_TYPES or backend.driver.owns(place.tensor)


# -------------------------------------------------------------------------------------------------
# Choosing among backends


def _candidates() -> list[Backend]:
    """The backends to consider, the preferred first."""
    if config.backend:
        return [registry.backend(name) for name in config.backend]
    registry.warn_of_faults()
    return registry.usable()


def _by_owner(place: Place, places: Sequence[Place]) -> Selection:
    assert place.owner is not None
    why = f"argument '{place.argument}' lives on {place}"
    selection = _named(place.owner, why)
    _check_reach(selection, places)
    return selection


def _by_place(place: Place) -> Selection:
    claiming = [b for b in _candidates() if _claims(b, place)]
    for backend in claiming:
        if backend.available:
            _warn_if_passed_over(claiming, backend)
            index = 0 if place.type == HOST_DLPACK else place.index
            why = f"argument '{place.argument}' lives in {place}"
            return _named(DeviceId(backend.name, index), why)
    reasons = "".join(f"\n  {b.name}: {b.probe().reason}" for b in claiming)
    if not reasons:
        reasons = "\n  none claims it; considered: " + ", ".join(b.name for b in _candidates())
    raise DeviceError(
        f"argument '{place.argument}' lives in {place}, and no available backend reaches it:"
        f"{reasons}\ninstall the backend for that device, or copy the argument to host memory"
    )


def _best_available() -> Selection:
    candidates = [b for b in _candidates() if b.reaches(HOST_DLPACK)]
    if config.backend:
        # The listed ones were asked for: the first is the default, whatever else there is.
        return _named(DeviceId(config.backend[0]), "TEGULA_BACKEND")
    for backend in candidates:
        if backend.available:
            _warn_if_passed_over(candidates, backend)
            why = "best available device that reaches host memory"
            return _named(DeviceId(backend.name), why)
    reasons = "".join(f"\n  {b.name}: {b.probe().reason}" for b in candidates)
    raise DeviceError(f"no device is available:{reasons or ' no backend reaches host memory'}")


_warned_of: set[str] = set()


def _warn_if_passed_over(candidates: Sequence[Backend], chosen: Backend) -> None:
    """Say once when a better device looks present and is not used, or nothing real is left."""
    for backend in candidates:
        if backend is chosen:
            break
        if backend.name in _warned_of or not _hardware_looks_present(backend):
            continue
        _warned_of.add(backend.name)
        hint = f" ({backend.status.hint})" if backend.status.hint else ""
        _warn(
            f"hardware for backend '{backend.name}' looks present and is not used: "
            f"{backend.status.reason}{hint}; running on '{chosen.name}' instead"
        )
    if chosen.priority < 0 and not config.backend and chosen.name not in _warned_of:
        _warned_of.add(chosen.name)
        _warn(
            f"no other backend is available: kernels run on '{chosen.name}', which is slow "
            f"(choose it with tegula.use_device('{chosen.name}') to silence this; "
            "`tegula backends` shows why the others are not used)"
        )


def _warn(message: str) -> None:
    warnings.warn(message, TegulaPluginWarning, stacklevel=5)


def _hardware_looks_present(backend: Backend) -> bool:
    return any(glob.glob(pattern) for pattern in backend.spec.hardware)
