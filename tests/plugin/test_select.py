"""Which device a launch runs on: the rules in order, and that explicit choices never fall back."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from tegula.errors import DeviceError, MixedDevicesError
from tegula.plugin import DeviceInfo, PluginError, Probe, Target, TegulaPluginWarning
from tegula.plugin.backend import Backend
from tegula.plugin.select import DeviceId, select_device, use_device

ACME = 77  # a DLPack device type that no real backend claims
SHARED = 12


class Tensor:
    """Something that lives on a device."""

    def __init__(self, kind: int, index: int = 0, owner: str | None = None) -> None:
        self.place = (kind, index)
        self.owner = owner

    def __dlpack_device__(self):
        return self.place


HOST = ("x", np.zeros(3))


@pytest.fixture
def acme(install, registry):
    install("tegula-acme", "acme", probe="return found(2)", dlpack=f"({ACME},)")
    return registry


def chosen(tensors=(), device=None):
    return str(select_device(tensors, device).id)


@pytest.fixture(autouse=True)
def cpu_is_available(monkeypatch):
    """Selection is tested apart from the real CPU driver."""
    info = DeviceInfo(0, "a cpu", Target("cpu", "test"))
    look = Backend._look

    def look_or_pretend(backend):
        if backend.name == "cpu" and backend.state.loaded:
            return backend._settle(Probe("available", devices=(info,)))
        return look(backend)

    monkeypatch.setattr(Backend, "_look", look_or_pretend)


# -------------------------------------------------------------------------------------------------
# Order of the rules


def test_host_tensors_go_to_the_cpu(registry):
    assert chosen([HOST]) == "cpu:0"


def test_without_tensors_the_best_device_that_reaches_host_memory(acme):
    assert chosen() == "cpu:0"


def test_higher_priority_wins_among_those_that_reach_host_memory(acme, install):
    install("tegula-better", "better", priority="10")
    acme.refresh()
    assert chosen() == "better:0"
    assert chosen([HOST]) == "better:0"


def test_data_decides(acme):
    assert chosen([("x", Tensor(ACME, 1)), ("y", Tensor(ACME, 1))]) == "acme:1"


def test_launch_argument_beats_everything(acme, setting):
    setting(device="acme:1")
    with use_device("acme:0"):
        assert chosen([HOST], "interpreter") == "interpreter:0"


def test_use_device_beats_the_environment(acme, monkeypatch):
    monkeypatch.setenv("TEGULA_DEVICE", "acme:1")
    with use_device("interpreter"):
        assert chosen([HOST]) == "interpreter:0"
    assert chosen() == "acme:1"


def test_environment_beats_the_data(registry, monkeypatch):
    monkeypatch.setenv("TEGULA_DEVICE", "interpreter")
    assert chosen([HOST]) == "interpreter:0"


def test_interpret_means_the_interpreter(registry, monkeypatch):
    monkeypatch.setenv("TEGULA_INTERPRET", "1")
    assert chosen([HOST]) == "interpreter:0"


def test_reason_is_kept(registry):
    assert select_device([HOST]).why == "argument 'x' lives in host memory"
    assert select_device([HOST], "interpreter").why == "device="


# -------------------------------------------------------------------------------------------------
# use_device


def test_use_device_called_by_itself_stays_in_force(registry):
    with use_device(None):  # ends whatever happens inside
        use_device("interpreter")
        assert chosen([HOST]) == "interpreter:0"
        use_device(None)
        assert chosen([HOST]) == "cpu:0"


def test_use_device_nests(registry):
    with use_device("interpreter"):
        with use_device("cpu"):
            assert chosen([HOST]) == "cpu:0"
        assert chosen([HOST]) == "interpreter:0"
    assert chosen([HOST]) == "cpu:0"


def test_use_device_none_goes_back_to_automatic_despite_the_environment(registry, monkeypatch):
    monkeypatch.setenv("TEGULA_DEVICE", "interpreter")
    with use_device(None):
        assert chosen([HOST]) == "cpu:0"


def test_use_device_is_for_this_thread_only(registry):
    seen = []
    with use_device("interpreter"):
        thread = threading.Thread(target=lambda: seen.append(chosen([HOST])))
        thread.start()
        thread.join()
    assert seen == ["cpu:0"]


@pytest.mark.parametrize("device", ["", ":1", "cpu:x", "cpu:-1", 5])
def test_malformed_device_is_refused(device):
    with pytest.raises(DeviceError, match="names no device"):
        DeviceId.parse(device)


def test_device_objects_of_array_libraries_are_understood():
    class TheirDevice:
        type, index = "acme", 1

    class Unnumbered:
        type, index = "acme", None

    assert DeviceId.parse(TheirDevice()) == DeviceId("acme", 1)
    assert DeviceId.parse(Unnumbered()) == DeviceId("acme", 0)


# -------------------------------------------------------------------------------------------------
# Explicit choices never fall back


def test_unknown_backend_is_an_error(registry):
    with pytest.raises(DeviceError, match="no backend 'cuba' is installed"):
        chosen([HOST], "cuba")


def test_chosen_device_without_hardware_is_an_error_with_its_reason(install, registry):
    install("tegula-acme", "acme", probe='return Probe("unavailable", "no card", "insert one")')
    with pytest.raises(DeviceError) as caught:
        chosen([], "acme")
    for words in ("no card", "insert one", "device="):
        assert words in str(caught.value)


def test_chosen_device_of_a_broken_plugin_is_an_error(install, registry, setting):
    install("tegula-acme", "acme", "import no_such_package_anywhere")
    setting(device="acme")
    with pytest.raises(DeviceError, match="no_such_package_anywhere"):
        chosen([HOST])


def test_number_of_the_device_has_to_exist(acme):
    with pytest.raises(DeviceError, match="'acme:7' does not exist"):
        chosen([], "acme:7")


def test_chosen_device_has_to_reach_the_arguments(acme):
    with pytest.raises(DeviceError) as caught:
        chosen([HOST], "acme")
    for words in ("device= chose 'acme:0'", "argument 'x'", "host memory", "tegula.asarray(x"):
        assert words in str(caught.value)


def test_chosen_number_has_to_be_the_arguments_one(acme):
    assert chosen([("x", Tensor(ACME, 1))], "acme:1") == "acme:1"
    with pytest.raises(DeviceError, match="does not reach"):
        chosen([("x", Tensor(ACME, 1))], "acme:0")


# -------------------------------------------------------------------------------------------------
# TEGULA_BACKEND


def test_backend_list_gives_order_and_limits(acme, install, setting):
    install("tegula-better", "better", priority="10")
    acme.refresh()
    setting(backend="interpreter,better")
    assert chosen() == "interpreter:0"
    assert chosen([HOST]) == "interpreter:0"


def test_data_decides_within_the_backend_list(acme, setting):
    setting(backend="interpreter,acme")
    assert chosen([("x", Tensor(ACME))]) == "acme:0"


def test_data_that_no_listed_backend_reaches_is_an_error(acme, setting):
    setting(backend="acme")
    with pytest.raises(DeviceError, match="(?s)no available backend reaches it.*considered: acme"):
        chosen([HOST])
    with pytest.raises(DeviceError):
        setting(backend="cpu")
        chosen([("x", Tensor(ACME))])


def test_every_listed_backend_has_to_load(acme, install, setting):
    install("tegula-broken", "broken", "import no_such_package_anywhere")
    acme.refresh()
    setting(backend="acme,broken")
    with pytest.raises(PluginError, match="no_such_package_anywhere"):
        chosen()


# -------------------------------------------------------------------------------------------------
# Where arguments live


def test_data_on_a_device_that_the_driver_does_not_see_is_an_error(acme):
    with pytest.raises(DeviceError, match="(?s)'acme:5' does not exist.*argument 'x' lives in"):
        chosen([("x", Tensor(ACME, 5))])


def test_mixed_devices_are_listed(acme):
    with pytest.raises(MixedDevicesError) as caught:
        chosen([("x", np.zeros(3)), ("y", Tensor(ACME)), ("z", Tensor(ACME, 1))])
    message = str(caught.value)
    for words in (
        "x: host memory",
        f"y: DLPack device ({ACME}, 0)",
        f"z: DLPack device ({ACME}, 1)",
    ):
        assert words in message


def test_mixed_devices_are_an_error_for_explicit_choices_too(acme):
    with pytest.raises(MixedDevicesError):
        chosen([HOST, ("y", Tensor(ACME))], "acme")


def test_device_that_nobody_reaches_says_so(registry):
    with pytest.raises(
        DeviceError, match="(?s)argument 'x' lives in DLPack device .* none claims it"
    ):
        chosen([("x", Tensor(ACME))])


def test_shared_device_type_belongs_to_whoever_owns_the_tensor(install, registry):
    install("tegula-one", "one", dlpack=f"({SHARED},)", priority="90")
    install("tegula-two", "two", dlpack=f"({SHARED},)", priority="10")
    assert chosen([("x", Tensor(SHARED, owner="two"))]) == "two:0"
    assert chosen([("x", Tensor(SHARED, owner="one"))]) == "one:0"


class OwnArray(Tensor):
    """An array as `tegula.asarray` makes it: it knows the device that it is for."""

    __tegula_array__ = True

    def __init__(self, device: str, kind: int = 1) -> None:
        super().__init__(kind, DeviceId.parse(device).index)
        self.device = device


def test_arrays_of_tegula_go_to_their_own_device(acme):
    assert chosen([("x", OwnArray("interpreter:0"))]) == "interpreter:0"
    assert chosen([HOST, ("y", OwnArray("interpreter:0"))]) == "interpreter:0"
    assert chosen([("x", OwnArray("acme:1", ACME)), ("y", Tensor(ACME, 1))]) == "acme:1"


def test_arrays_of_tegula_for_two_devices_are_an_error_even_in_the_same_memory(registry):
    with pytest.raises(MixedDevicesError) as caught:
        chosen([("x", OwnArray("interpreter:0")), ("y", OwnArray("cpu:0"))])
    assert "x: device interpreter:0\n  y: device cpu:0" in str(caught.value)


def test_explicit_choice_beats_the_device_of_an_array_that_it_reaches(registry):
    assert chosen([("x", OwnArray("interpreter:0"))], "cpu") == "cpu:0"


def test_array_interface_is_host_memory(registry):
    class OnlyInterface:
        __array_interface__ = np.zeros(2).__array_interface__

    assert chosen([("x", OnlyInterface())]) == "cpu:0"


def test_what_is_no_tensor_is_named(registry):
    with pytest.raises(DeviceError, match="argument 'x' of type list is no tensor"):
        chosen([("x", [1, 2])])


def test_tensor_that_hides_its_place_is_named(registry):
    class Shy:
        def __dlpack_device__(self):
            raise RuntimeError("meta tensors have no place")

    with pytest.raises(DeviceError, match="'x'.*meta tensors have no place"):
        chosen([("x", Shy())])


# -------------------------------------------------------------------------------------------------
# Automatic choices speak up


UNPLUGGED = dict(
    probe='return Probe("unavailable", "libacme is missing")', install_hint="install libacme"
)


def test_present_hardware_that_is_passed_over_is_said_once(install, registry, tmp_path):
    (tmp_path / "acme0").touch()
    install("tegula-acme", "acme", hardware=f"({str(tmp_path / 'acme*')!r},)", **UNPLUGGED)
    with pytest.warns(TegulaPluginWarning) as caught:
        assert chosen() == "cpu:0"
        assert chosen([HOST]) == "cpu:0"
    assert len(caught) == 1
    for words in ("looks present", "libacme is missing", "install libacme", "'cpu'"):
        assert words in str(caught[0].message)


def test_absent_hardware_is_passed_over_in_silence(install, registry, tmp_path):
    install("tegula-acme", "acme", hardware=f"({str(tmp_path / 'acme*')!r},)", **UNPLUGGED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen() == "cpu:0"


def test_falling_back_to_the_interpreter_says_so(registry, setting):
    setting(disable="cpu")
    registry.refresh()
    with pytest.warns(TegulaPluginWarning, match="run on 'interpreter', which is slow"):
        assert chosen([HOST]) == "interpreter:0"


def test_choosing_the_interpreter_is_silent(registry):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen([HOST], "interpreter") == "interpreter:0"


def test_broken_plugin_does_not_disturb_an_explicit_choice(install, registry):
    install("tegula-broken", "broken", "import no_such_package_anywhere")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen([HOST], "cpu") == "cpu:0"


def test_broken_plugin_is_a_warning_for_an_automatic_choice(install, registry):
    install("tegula-broken", "broken", "import no_such_package_anywhere")
    with pytest.warns(TegulaPluginWarning, match="'broken'"):
        assert chosen([HOST]) == "cpu:0"
