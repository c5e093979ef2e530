"""Objects and artifacts that are damaged are told from whole ones."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

import tegula.ir as ir
from tegula.errors import DeviceError
from tegula.plugin import Artifact, check_elf, check_intact, digest
from tegula.plugin.elf import Elf, ElfError
from tegula.plugin.registry import registry

TEXT = """
kernel @seven(%x: ptr<i32>) {
  %c = constant {value = 7} : i32
  store %x, %c
  return
}
"""


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    """Machine code for this host."""
    from tegula.conformance.session import compile_module

    backend = registry.backend("cpu")
    return compile_module(backend, backend.probe().devices[0].target, ir.parse_module(TEXT))


def test_whole_code_is_taken(artifact: Artifact) -> None:
    check_intact(artifact, "cpu", ("elf-object",))
    assert (artifact.entry, True) in check_elf(artifact).symbols()


def test_another_kind_is_named(artifact: Artifact) -> None:
    with pytest.raises(DeviceError, match="the kinds 'a' and 'b', not 'elf-object'"):
        check_intact(artifact, "some", ("a", "b"))


def test_any_other_byte_is_noticed(artifact: Artifact) -> None:
    for at in range(0, len(artifact.data), 61):
        data = bytearray(artifact.data)
        data[at] ^= 1
        with pytest.raises(DeviceError, match="not those that were compiled"):
            check_intact(replace(artifact, data=bytes(data)), "cpu", ("elf-object",))


def test_no_part_of_an_object_is_one(artifact: Artifact) -> None:
    Elf(artifact.data)
    for size in range(0, len(artifact.data), 7):
        with pytest.raises(ElfError):
            Elf(artifact.data[:size])


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(32, "<Q", 1 << 62), (40, "<Q", 1 << 62), (58, "<H", 3), (60, "<H", 60000)],
)
def test_tables_lie_in_the_object(artifact: Artifact, at: int, form: str, value: int) -> None:
    data = bytearray(artifact.data)
    struct.pack_into(form, data, at, value)
    if at == 32:  # where the table of segments is, of which an object has none
        struct.pack_into("<HH", data, 54, 56, 1)
    with pytest.raises(ElfError):
        Elf(bytes(data))


def test_a_driver_takes_damaged_code_for_what_it_is(artifact: Artifact) -> None:
    device = registry.backend("cpu").device(0)
    device.load(artifact)
    cut = artifact.data[: len(artifact.data) // 2]
    for metadata in ({}, {"digest": digest(artifact.data)}):
        bad = Artifact(artifact.kind, cut, artifact.entry, artifact.params, metadata)
        with pytest.raises(DeviceError, match="is damaged"):
            device.load(bad)
