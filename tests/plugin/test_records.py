"""Records check themselves when they are made, and read back what was put in."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, dataclass

import pytest

from tegula.plugin import (
    ANY,
    Artifact,
    BackendSpec,
    Capabilities,
    DeviceInfo,
    Expectation,
    Extension,
    Finding,
    HealthCheck,
    OptionError,
    Options,
    Probe,
    RecordError,
    Target,
)

SOUND = dict(name="acme", api=(0, 1), ir=((0, 1), (0, 3)), compiler="acme.compiler:C")
TARGET = Target("acme", "a1", {"lanes": 32})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Acme"}, "lower case"),
        ({"name": ""}, "lower case"),
        ({"api": "0.1"}, "api is a pair"),
        ({"api": (0, -1)}, "api is a pair"),
        ({"ir": (0, 1)}, "ir is a range"),
        ({"ir": ((0, 3), (0, 1))}, "ir is a range"),
        ({"compiler": "acme.compiler"}, "module:Class"),
        ({"compiler": object}, "module:Class"),
        ({"driver": "acme driver:D"}, "module:Class"),
        ({"kind": "fpga"}, "kind is one of"),
        ({"priority": "high"}, "priority is an int"),
        ({"dlpack": ("cpu",)}, "dlpack holds ints"),
    ],
)
def test_backend_spec_refuses(change, words):
    with pytest.raises(RecordError, match=words):
        BackendSpec(**{**SOUND, **change})


def test_backend_spec_is_frozen_and_json_able():
    spec = BackendSpec(**SOUND, dlpack=[1, 2], requires={"loops"})
    assert spec.dlpack == (1, 2)
    assert json.loads(json.dumps(spec.to_json()))["ir"] == [[0, 1], [0, 3]]
    with pytest.raises(FrozenInstanceError):
        spec.name = "other"


# -------------------------------------------------------------------------------------------------
# Target


def test_target_facts_take_part_in_equality_and_digest():
    same = Target("acme", "a1", {"lanes": 32})
    other = Target("acme", "a1", {"lanes": 64})
    assert same == TARGET and hash(same) == hash(TARGET) and same.digest() == TARGET.digest()
    assert other != TARGET and other.digest() != TARGET.digest()


def test_target_order_of_facts_does_not_matter():
    assert (
        Target("a", "b", {"x": 1, "y": 2}).digest() == Target("a", "b", {"y": 2, "x": 1}).digest()
    )


def test_target_survives_pickle_and_json():
    assert pickle.loads(pickle.dumps(TARGET)) == TARGET
    assert Target.from_json(json.loads(json.dumps(TARGET.to_json()))) == TARGET


def test_target_does_not_follow_later_changes_of_the_mapping():
    facts = {"lanes": 32}
    target = Target("acme", "a1", facts)
    facts["lanes"] = 64
    assert target["lanes"] == 32
    with pytest.raises(TypeError):
        target.attrs["lanes"] = 64


def test_target_refuses_what_is_no_scalar():
    with pytest.raises(RecordError, match="lanes"):
        Target("acme", "a1", {"lanes": [32]})


# -------------------------------------------------------------------------------------------------
# Capabilities


def capabilities(**changes):
    fields = dict(
        target=TARGET,
        dtypes={"f16", "f32", "i32"},
        ops={"add": {("f32",), ("i32",)}, "load": {ANY}, "cast": {("f16", "f32")}},
        dot={("f16", "f16", "f32")},
        atomics={"add": {"f32"}},
        features={"streams"},
        limits={"warp_size": 32},
    )
    return Capabilities(**{**fields, **changes})


@pytest.mark.parametrize(
    ("op", "dtypes", "answer"),
    [
        ("add", (), True),
        ("add", ("f32",), True),
        ("add", ("f32", "f32"), True),
        ("add", ("f32", "i32"), False),
        ("add", ("f16", "f16"), False),
        ("load", ("f16", "i32"), True),
        ("cast", ("f16", "f32"), True),
        ("cast", ("f32", "f16"), False),
        ("sort", (), False),
        ("load", ("f64",), False),
    ],
)
def test_supports(op, dtypes, answer):
    assert capabilities().supports(op, *dtypes) is answer


def test_why_not_names_what_is_missing():
    has = capabilities()
    assert has.why_not("add", "f32") == ""
    assert has.why_not("sort") == "op 'sort' is not supported on acme:a1"
    assert has.why_not("add", "f64") == "dtype 'f64' is not supported on acme:a1"
    assert has.why_not("add", "f16") == "op 'add' on acme:a1 takes (f32), (i32), not (f16)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": {"antigravity"}}, "unknown features.*antigravity"),
        ({"limits": {"width": 3}}, "unknown limits.*width"),
        ({"dot": {("f64", "f64", "f64")}}, "f64.*not listed in Capabilities"),
        ({"numerics": {"fma": object()}}, "JSON-able"),
    ],
)
def test_capabilities_refuse(change, words):
    with pytest.raises(RecordError, match=words):
        capabilities(**change)


def test_capabilities_digest_follows_every_part():
    changed = [
        capabilities(dtypes={"f16", "f32", "i32", "f64"}),
        capabilities(ops={"add": {("f32",)}}),
        capabilities(dot=set()),
        capabilities(atomics={}),
        capabilities(features=set()),
        capabilities(limits={"warp_size": 64}),
        capabilities(numerics={"fma": True}),
        capabilities(target=Target("acme", "a2")),
    ]
    assert len({c.digest() for c in [capabilities(), *changed]}) == len(changed) + 1
    assert capabilities().digest() == capabilities().digest()


# -------------------------------------------------------------------------------------------------
# Options and artifacts


@dataclass(frozen=True)
class AcmeOptions(Options):
    ignored = frozenset({"num_warps"})
    swizzle: bool = True


def test_unknown_option_names_the_nearest():
    with pytest.raises(OptionError, match="'num_warp'; did you mean 'num_warps'"):
        Options.make({"num_warp": 8})


@pytest.mark.parametrize(
    "given", [{"num_warps": "8"}, {"num_warps": True}, {"swizzle": 1}, {"maxnreg": 1.5}]
)
def test_option_of_a_wrong_type_is_named(given):
    (name,) = given
    with pytest.raises(OptionError, match=f"option '{name}' has to be of type"):
        AcmeOptions.make(given)


def test_ignored_options_stay_out_of_the_key():
    assert AcmeOptions.make({"num_warps": 8}).key() == AcmeOptions().key()
    assert AcmeOptions.make({"swizzle": False}).key() != AcmeOptions().key()


def test_artifact_metadata_has_to_be_json_able():
    artifact = Artifact("ptx", b"x", "k", ("i32",), {"scratch_bytes": 64, "pairs": [(0, 1)]})
    assert artifact.metadata == {"scratch_bytes": 64, "pairs": [[0, 1]]}
    with pytest.raises(RecordError, match="JSON-able"):
        Artifact("ptx", b"x", "k", (), {"x": object()})
    with pytest.raises(RecordError, match="bytes"):
        Artifact("ptx", "text", "k")


# -------------------------------------------------------------------------------------------------
# Probes and the other hooks' records


def test_probe_has_to_make_sense():
    device = DeviceInfo(0, "a1", TARGET)
    assert Probe("available", devices=[device]).to_json()["devices"][0]["name"] == "a1"
    for wrong, words in (
        (dict(status="available"), "has to list devices"),
        (dict(status="available", devices=[DeviceInfo(1, "a1", TARGET)]), "numbered"),
        (dict(status="unavailable"), "has to give a reason"),
        (dict(status="maybe", reason="x"), "status is one of"),
    ):
        with pytest.raises(RecordError, match=words):
            Probe(**wrong)


def test_expected_failures_have_to_expire():
    assert Expectation("test_x*", "unsupported", "no f64 unit")
    with pytest.raises(RecordError, match="expire"):
        Expectation("test_x*", "xfail", "a bug of ours")


def test_other_records_refuse_nonsense():
    with pytest.raises(RecordError, match="anchors"):
        Extension("mine", {"nowhere": ()}, "1")
    with pytest.raises(RecordError, match="fingerprint"):
        Extension("mine")
    with pytest.raises(RecordError, match="status"):
        Finding("fine", "x")
    with pytest.raises(RecordError, match="run"):
        HealthCheck("x", "y", None)
