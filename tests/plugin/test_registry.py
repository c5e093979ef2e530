"""Every kind of faulty plugin is a state with a reason, and hurts nobody else."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tegula.plugin import IR_VERSION, ConformanceProfile, PluginError, TegulaPluginWarning
from tegula.plugin.loader import State, load, new_manager, sources_of_path


def status_of(registry, name):
    (backend,) = [b for b in registry.all() if b.name == name]
    return backend.status


def assert_others_work(registry):
    for name in ("cpu", "interpreter"):
        assert registry.backend(name).state.loaded
    assert registry.backend("interpreter").available


FAULTS = {
    "missing import": (
        "import no_such_package_anywhere",
        State.BROKEN,
        ["cannot be imported", "no_such_package_anywhere"],
    ),
    "syntax error": ("def (", State.BROKEN, ["cannot be imported", "SyntaxError"]),
    "exit": ("import sys; sys.exit(3)", State.BROKEN, ["exits the process when imported"]),
    "raising hook": (
        """
        from tegula.plugin import hookimpl
        @hookimpl
        def tegula_backends():
            raise RuntimeError("no licence")
        """,
        State.BROKEN,
        ["tegula_backends() raised RuntimeError: no licence"],
    ),
    "exiting hook": (
        """
        from tegula.plugin import hookimpl
        @hookimpl
        def tegula_backends():
            raise SystemExit(1)
        """,
        State.BROKEN,
        ["tegula_backends() raised SystemExit"],
    ),
    "no hook": ("x = 1", State.BROKEN, ["exactly one BackendSpec", "nothing"]),
    "not a spec": (
        """
        from tegula.plugin import hookimpl
        @hookimpl
        def tegula_backends():
            return [{"name": "fake"}]
        """,
        State.BROKEN,
        ["exactly one BackendSpec", "dict"],
    ),
    "not iterable": (
        """
        from tegula.plugin import hookimpl
        @hookimpl
        def tegula_backends():
            return 7
        """,
        State.BROKEN,
        ["tegula_backends()"],
    ),
    "wrong argument": (
        """
        from tegula.plugin import hookimpl
        @hookimpl
        def tegula_backends(device):
            return []
        """,
        State.BROKEN,
        ["tegula_backends", "device"],
    ),
    "unknown hook": (
        """
        from tegula.plugin import hookimpl
        @hookimpl
        def tegula_backend():
            return []
        """,
        State.BROKEN,
        ["no hook 'tegula_backend'", "did you mean 'tegula_backends'"],
    ),
    "bad record": (
        """
        from tegula.plugin import BackendSpec, hookimpl
        @hookimpl
        def tegula_backends():
            return [BackendSpec(name="Fake!", api=(0, 1), ir=((0, 1), (0, 1)), compiler="a:B")]
        """,
        State.BROKEN,
        ["RecordError", "lower case"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_plugin_is_classed_with_its_reason(install, registry, fault):
    source, state, words = FAULTS[fault]
    install("tegula-fake", "fake", source)

    status = status_of(registry, "fake")

    assert status.state is state
    for word in words:
        assert word in status.reason
    assert_others_work(registry)


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        ({"api": "(2, 0)"}, ["plugin API 2.0", "0.1 to 0.1"], "upgrade tegula"),
        ({"api": "(0, 0)"}, ["plugin API 0.0"], "upgrade tegula-fake"),
        ({"api": "(0, 2)"}, ["plugin API 0.2"], "upgrade tegula"),
        ({"ir": "((0, 0), (0, 0))"}, ["reads IR 0.0 to 0.0", "0.1"], "upgrade tegula-fake"),
        ({"ir": "((1, 0), (1, 3))"}, ["reads IR 1.0 to 1.3"], "upgrade tegula"),
        ({"requires": "('teleport',)"}, ["requires teleport"], "upgrade tegula"),
    ],
)
def test_other_versions_are_incompatible(install, registry, options, words, hint):
    install("tegula-fake", "fake", **options)

    status = status_of(registry, "fake")

    assert status.state is State.INCOMPATIBLE
    for word in words:
        assert word in status.reason
    assert status.hint == hint
    assert_others_work(registry)


def test_name_of_entry_point_and_backend_have_to_agree(install, registry):
    install("tegula-fake", "fake", backend="other")
    status = status_of(registry, "fake")
    assert status.state is State.BROKEN
    assert "'fake'" in status.reason and "'other'" in status.reason


def test_import_error_quotes_the_requirement(install, registry):
    install("tegula-fake", "fake", "from tegula.plugin import Thingamajig")
    assert "tegula<0.2,>=0.1" in status_of(registry, "fake").hint


def test_all_faults_together_leave_the_good_ones_usable(install, registry):
    for number, (source, _, _) in enumerate(FAULTS.values()):
        install(f"tegula-fault{number}", f"fault{number}", source)
    install("tegula-good", "good", priority="3")

    states = {b.name: b.state for b in registry.all()}

    assert states["good"] is State.REGISTERED
    assert [n for n, s in states.items() if s.faulty] == sorted(
        f"fault{n}" for n in range(len(FAULTS))
    )
    assert_others_work(registry)
    known = ("good", "cpu", "interpreter")  # others may be installed too
    assert tuple(b.name for b in registry.usable() if b.name in known) == known


def test_failed_registration_is_rolled_back(install):
    module = install("tegula-fake", "fake", FAULTS["wrong argument"][0])
    ((source,), _) = sources_of_path(f"fake={module}")
    manager = new_manager()
    with pytest.raises(Exception, match="tegula_backends"):
        load(source, manager)
    assert manager.get_plugins() == set()
    assert manager.hook.tegula_backends.get_hookimpls() == []


def test_keyboard_interrupt_is_let_through(install, registry):
    install("tegula-fake", "fake", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        registry.all()


def test_plugin_that_asks_for_itself_is_broken(install, registry, monkeypatch):
    monkeypatch.setattr("tegula.plugin.registry.registry", registry)
    install(
        "tegula-fake",
        "fake",
        "from tegula.plugin.registry import registry; registry.backend('fake')",
    )
    assert "asks for itself" in status_of(registry, "fake").reason


# -------------------------------------------------------------------------------------------------
# Names


def test_two_distributions_of_one_name_conflict(install, registry):
    install("tegula-one", "fake")
    install("tegula-two", "fake")

    with pytest.raises(PluginError) as caught:
        registry.backend("fake")

    message = str(caught.value)
    for word in ("tegula-one 1.2", "tegula-two 1.2", "TEGULA_DISABLE=tegula-one"):
        assert word in message
    assert status_of(registry, "fake").state is State.CONFLICT
    assert_others_work(registry)


def test_conflict_ends_when_one_is_disabled(install, registry, setting):
    install("tegula-one", "fake")
    module = install("tegula-two", "fake")
    setting(disable="tegula_one")
    assert registry.backend("fake").source.module == module


def test_built_in_name_cannot_be_taken(install, registry):
    install("tegula-usurper", "interpreter")
    assert registry.backend("interpreter").source.dist == "tegula"
    (usurper,) = [b for b in registry.all() if b.source.dist == "tegula-usurper"]
    assert usurper.state is State.CONFLICT
    assert "tegula 0.1" in usurper.status.reason


@pytest.mark.parametrize("disabled", ["fake", "tegula-fake", "Tegula_Fake"])
def test_disabled_backend_is_blocked_and_not_imported(install, registry, setting, disabled):
    module = install("tegula-fake", "fake")
    setting(disable=disabled)
    assert status_of(registry, "fake").state is State.BLOCKED
    assert module not in sys.modules
    with pytest.raises(PluginError, match="TEGULA_DISABLE"):
        registry.backend("fake")


def test_unknown_name_suggests_the_nearest(registry):
    with pytest.raises(PluginError, match="did you mean 'cpu'") as caught:
        registry.backend("cpuu")
    assert "interpreter" in str(caught.value)


def test_plugin_path_adds_and_hides(install, registry, setting):
    install("tegula-fake", "fake", FAULTS["syntax error"][0])
    install.write_module("local_plugin", install.well_behaved("fake", "local_plugin"))
    setting(plugin_path="fake=local_plugin, nonsense")
    assert registry.backend("fake").source.dist == "TEGULA_PLUGIN_PATH"
    assert "nonsense" in registry.problems[0]


def test_plugin_may_be_an_object_of_a_module(install, registry, setting):
    source = install.well_behaved("fake", "local_plugin")
    source += "\nclass Plugin:\n    tegula_backends = staticmethod(tegula_backends)\n"
    install.write_module("local_plugin", source)
    setting(plugin_path="fake=local_plugin:Plugin")
    assert registry.backend("fake").spec.name == "fake"


# -------------------------------------------------------------------------------------------------
# Laziness


def test_naming_a_backend_loads_only_that_one(install, registry):
    wanted = install("tegula-wanted", "wanted")
    other = install("tegula-other", "other")
    registry.backend("wanted")
    assert wanted in sys.modules
    assert other not in sys.modules


def test_listing_names_loads_nothing(install, registry):
    module = install("tegula-fake", "fake")
    assert {"cpu", "fake", "interpreter"} <= set(registry.names())
    assert module not in sys.modules


def test_plugins_are_loaded_once_by_many_threads(install, registry):
    install("tegula-fake", "fake", before="import time; time.sleep(0.05); calls.append(1)",
            extra="calls = []")  # fmt: skip
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(registry.backend("fake"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert len(set(map(id, results))) == 1
    assert len(sys.modules["tegula_fake_plugin"].calls) == 1


def test_refresh_finds_what_was_installed_meanwhile(install, registry):
    with pytest.raises(PluginError):
        registry.backend("fake")
    install("tegula-fake", "fake")
    registry.refresh()
    assert registry.backend("fake").state is State.REGISTERED


def test_import_of_tegula_looks_for_no_plugin_and_imports_no_torch():
    code = (
        "import sys, tegula\n"
        "heavy = {'pluggy', 'rich', 'llvmlite', 'torch', 'importlib.metadata', 'ml_dtypes'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-S", "-c", _with_path(code)], capture_output=True)
    assert out.stdout.decode().strip() == "[]", out.stderr.decode()


@pytest.mark.parametrize("module", ["tegula_cpu.plugin", "tegula.interp.backend"])
def test_plugin_modules_are_light_and_state_their_version_as_a_literal(module):
    import ast
    import importlib.util

    code = f"import sys, {module}\nprint(sorted({{'llvmlite', 'torch'}} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert out.stdout.decode().strip() == "[]"

    spec = importlib.util.find_spec(module)
    tree = ast.parse(Path(spec.origin).read_text())
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BackendSpec"
    ]
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    assert ast.literal_eval(given["api"]) == (0, 1)
    oldest, newest = ast.literal_eval(given["ir"])
    assert oldest <= IR_VERSION <= newest


def _with_path(code: str) -> str:
    return f"import sys; sys.path[:] = {sys.path!r}\n{code}"


# -------------------------------------------------------------------------------------------------
# Metadata, warnings, strictness


def test_damaged_metadata_hides_only_its_own_distribution(install, registry):
    install.write_metadata("tegula-damaged", "[tegula.backends\nfake = = \x00")
    install("tegula-good", "good")
    assert registry.backend("good").state is State.REGISTERED
    assert_others_work(registry)


def test_each_faulty_plugin_is_warned_of_once(install, registry):
    install("tegula-fake", "fake", FAULTS["missing import"][0])
    with pytest.warns(TegulaPluginWarning, match="'fake' .* is broken") as caught:
        registry.warn_of_faults()
        registry.warn_of_faults()
    assert len(caught) == 1


def test_strict_mode_raises(install, registry, setting):
    install("tegula-fake", "fake", FAULTS["missing import"][0])
    setting(strict_plugins=True)
    with pytest.raises(PluginError, match="TEGULA_STRICT_PLUGINS"):
        registry.all()


def test_strict_mode_is_content_with_sound_plugins(install, registry, setting):
    install("tegula-fake", "fake")
    setting(strict_plugins=True)
    assert "fake" in [b.name for b in registry.all()]


# -------------------------------------------------------------------------------------------------
# Devices and the other hooks


def test_probe_that_raises_is_a_state(install, registry):
    install("tegula-fake", "fake", probe="raise OSError('libacme.so not found')",
            install_hint="install acme 6")  # fmt: skip
    backend = registry.backend("fake")
    probe = backend.probe()
    assert probe.status == "unavailable"
    assert "libacme.so not found" in probe.reason
    assert backend.state is State.CRASHED
    assert backend.status.hint == "install acme 6"
    with pytest.raises(PluginError, match=r"libacme\.so not found"):
        backend.device(0)


def test_probe_has_to_return_a_probe(install, registry):
    install("tegula-fake", "fake", probe="return 5")
    assert "has to return a Probe" in registry.backend("fake").probe().reason


def test_device_is_opened_once_and_index_is_checked(install, registry):
    install("tegula-fake", "fake", probe="return found(2)")
    backend = registry.backend("fake")
    assert backend.device(1) is backend.device(1)
    assert backend.state is State.OPEN
    assert sys.modules["tegula_fake_plugin"].D.opened == 1
    with pytest.raises(PluginError, match="'fake:2' does not exist"):
        backend.device(2)


def test_compile_only_backend_has_no_device(install, registry):
    install("tegula-fake", "fake", driver="None")
    backend = registry.backend("fake")
    assert not backend.available
    assert "only compiles" in backend.probe().reason


def test_compiler_that_cannot_be_loaded_says_why(install, registry):
    install("tegula-fake", "fake")
    with pytest.raises(PluginError, match="tegula_fake_plugin:C.*AttributeError"):
        _ = registry.backend("fake").compiler


def test_compiler_of_another_class_is_refused(install, registry):
    install("tegula-fake", "fake", extra="class C: pass")
    with pytest.raises(PluginError, match="is no Compiler"):
        _ = registry.backend("fake").compiler


def test_conformance_profile_defaults_to_an_empty_one(install, registry):
    install("tegula-fake", "fake")
    assert registry.backend("fake").conformance() == ConformanceProfile("fake")


def test_hooks_of_one_plugin_do_not_speak_for_another(install, registry):
    install(
        "tegula-fake",
        "fake",
        extra="@hookimpl\ndef tegula_health_checks(backend):\n"
        "    return [HealthCheck('x', 'y', lambda: Finding('ok', backend))]\n",
    )
    install("tegula-other", "other")
    (check,) = registry.backend("fake").health_checks()
    assert check.run().message == "fake"
    assert registry.backend("other").health_checks() == []


def test_records_of_other_hooks_are_checked(install, registry):
    install(
        "tegula-fake",
        "fake",
        extra="@hookimpl\ndef tegula_extensions(ir_version):\n    return [ir_version]\n",
    )
    with pytest.raises(PluginError, match="Extension records, not tuple"):
        registry.backend("fake").extensions()


EXTENDED = """
from tegula.interp.backend import InterpreterCompiler as C
from tegula.plugin import Extension

@hookimpl
def tegula_extensions(ir_version):
    from tegula.passes import Pipeline
    unroll, licm = Pipeline.parse("unroll"), Pipeline.parse("licm")
    return [Extension("mine", {"shared.begin": unroll.passes, "backend.end": licm.passes}, "v7")]
"""


def test_extension_joins_pipeline_and_fingerprint_of_its_backend_only(install, registry):
    from tegula.passes import default_pipeline

    install("tegula-fake", "fake", extra=EXTENDED)
    fake, plain = registry.backend("fake"), registry.backend("interpreter")
    assert [str(fake.pipeline(context_of(fake))), str(plain.pipeline(context_of(plain)))] == [
        f"unroll,{default_pipeline()},licm",
        str(default_pipeline()),
    ]
    assert "mine=v7" in fake.fingerprint()
    assert "mine" not in plain.fingerprint()


def context_of(backend):
    return backend.context(backend.info(0).target, {"num_warps": 8})


def test_context_holds_checked_options_and_capabilities(registry):
    from tegula.plugin import OptionError

    interpreter = registry.backend("interpreter")
    context = context_of(interpreter)
    assert context.options.num_warps == 8
    assert context.capabilities.supports("dot", "f16", "f16", "f32")
    assert context.backend is interpreter.spec
    with pytest.raises(OptionError, match="num_wraps"):
        interpreter.context(context.target, {"num_wraps": 8})


def test_fingerprint_names_distribution_and_toolchain(registry):
    import numpy as np

    fingerprint = registry.backend("interpreter").fingerprint()
    assert "tegula 0.1" in fingerprint and f"numpy {np.__version__}" in fingerprint
