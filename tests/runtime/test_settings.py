"""Settings: where a value comes from, what is refused, and that the page about them is complete."""

from __future__ import annotations

import runpy
import threading
from pathlib import Path
from typing import Any

import pytest

from tegula import config as config_module
from tegula.config import KNOBS, Knob, Settings, config
from tegula.errors import ConfigError, ConfigWarning

PAGE = Path(__file__).parents[2] / "docs" / "launching.md"


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.debug == 0
    monkeypatch.setenv("TEGULA_DEBUG", "3")
    assert config.debug == 3
    config.set(debug=4)
    try:
        assert config.debug == 4
        with config.scope(debug=5):
            assert config.debug == 5
            with config.scope(dump="d"):
                assert (config.debug, config.dump) == (5, "d")
        assert config.debug == 4
    finally:
        config.set(debug=None)
    assert config.debug == 3


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("verify", "1", True),
        ("verify", "off", False),
        ("only", "a, b,,c", ("a", "b", "c")),
        ("cache_size", "7", 7),
        ("device", "", None),
    ],
)
def test_values_are_typed(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KNOBS[name].env, text)
    assert getattr(config, name) == value


@pytest.mark.parametrize(
    ("name", "text"), [("debug", "loud"), ("verify", "maybe"), ("debug", "-1")]
)
def test_values_that_make_no_sense(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KNOBS[name].env, text)
    with pytest.raises(ConfigError, match=f"{KNOBS[name].env}='{text}' cannot be understood"):
        getattr(config, name)


def test_unknown_settings() -> None:
    with pytest.raises(AttributeError, match="did you mean 'debug'"):
        config.debgu  # noqa: B018
    with pytest.raises(ConfigError, match="did you mean 'cache_dir'"):
        config.set(cache_dirs="x")
    with pytest.raises(ConfigError), config.scope(nonsense=1):
        pass


@pytest.mark.parametrize(
    "given", [{"debug": "x"}, {"debug": -1}, {"debug": 1.5}, {"interpret": 2}, {"device": 3}]
)
def test_values_that_a_setting_cannot_have(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(ConfigError, match=f"setting {name}=.*cannot be understood.*it is: "):
        config.set(**given)
    with pytest.raises(ConfigError), config.scope(**given):
        pass


def test_texts_and_paths_mean_what_they_mean_in_the_environment(tmp_path: Path) -> None:
    with config.scope(debug="2", interpret="no", only="a, b", dump=tmp_path):
        assert config.debug == 2 and config.interpret is False
        assert config.only == ("a", "b") and config.dump == str(tmp_path)


def test_unknown_variables_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEGULA_DEVCIE", "cpu")
    monkeypatch.setattr(config, "_warned", set())
    with pytest.warns(ConfigWarning, match="TEGULA_DEVCIE .*did you mean 'TEGULA_DEVICE'"):
        config.check_environment()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.check_environment()


def test_scopes_belong_to_their_thread() -> None:
    seen: list[int] = []
    with config.scope(debug=6):
        thread = threading.Thread(target=lambda: seen.append(config.debug))
        thread.start()
        thread.join()
    assert seen == [0]


def test_equal_overrides_are_one_object() -> None:
    assert Settings.of({"debug": 1, "dump": "x"}) is Settings.of({"dump": "x", "debug": 1})
    assert Settings.of({"debug": 1}) is not Settings.of({"debug": 2})


def test_backends_declare_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_module, "KNOBS", dict(KNOBS))
    knob = Knob("acme_speed", int, 3, "how fast", affects_code=True)
    assert config_module.declare(knob) is knob
    assert config_module.declare(Knob("acme_speed", int, 9, "again")) is knob
    assert config.acme_speed == 3
    monkeypatch.setenv("TEGULA_ACME_SPEED", "5")
    assert config.code_settings()["acme_speed"] == 5


def test_the_page_lists_every_setting() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `TEGULA_")]
    # Backends that are installed declare theirs, and document them, elsewhere.
    own = runpy.run_path(config_module.__file__)["KNOBS"].values()
    assert rows == [f"| `{knob.env}` | {knob.doc} |" for knob in own]
