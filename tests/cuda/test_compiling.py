"""Targets, options and LLVM text to PTX and machine code; no device is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tegula.config import config
from tegula.errors import CompilationError, DeviceError, OptionError, OutOfResources

pytest.importorskip("tegula_cuda")

from cuda_hand import KERNELS, artifact_of, text_of

from tegula.plugin import Artifact
from tegula_cuda import ptxas
from tegula_cuda.compiler import CudaCompiler, to_ptx
from tegula_cuda.kernel import check_code
from tegula_cuda.options import CudaOptions
from tegula_cuda.target import ARCHITECTURES, features_of, known_targets, of_device, resolve

PAIRS = [
    (name, arch)
    for name in KERNELS
    for arch, facts in ARCHITECTURES.items()
    if name != "clusters" or facts.capability >= 90
]

needs_ptxas = pytest.mark.skipif(ptxas.find() is None, reason="ptxas is not installed")


@pytest.mark.parametrize(("name", "arch"), PAIRS)
def test_llvm_makes_ptx_for_every_target(name: str, arch: str) -> None:
    target = resolve(arch)
    ptx = to_ptx(text_of(name), target)
    assert f".target {arch}" in ptx
    assert f".version {target['ptx'] // 10}.{target['ptx'] % 10}" in ptx
    assert f".visible .entry {name}(" in ptx


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_ptxas_assembles_for_every_target(arch: str) -> None:
    made = artifact_of("add", resolve(arch))
    assert made.kind == "cubin" and made.data.startswith(b"\x7fELF")
    assert 4 <= made.metadata["registers"] <= 32
    assert made.metadata["spills"] == 0


def test_the_driver_can_be_left_to_assemble() -> None:
    with config.scope(ptxas="driver"):
        made = artifact_of("add", resolve("sm_90a"), CudaOptions(num_warps=8))
    assert made.kind == "ptx" and b".target sm_90a" in made.data
    assert made.metadata["num_warps"] == 8
    assert "registers" not in made.metadata


def test_launch_attributes_travel_in_the_metadata() -> None:
    options = CudaOptions(cluster_dims=(2,), launch_cooperative_grid=True, launch_pdl=True)
    with config.scope(ptxas="driver"):
        made = artifact_of("clusters", resolve("sm_90"), options)
    assert made.metadata["cluster_dims"] == [2, 1, 1]
    assert made.metadata["launch_cooperative_grid"] and made.metadata["launch_pdl"]


def test_a_ptxas_that_is_not_there_is_named() -> None:
    with config.scope(ptxas="/nowhere/ptxas"), pytest.raises(DeviceError, match="/nowhere/ptxas"):
        ptxas.find()


@pytest.mark.parametrize(
    ("given", "seen"), [(None, "hugetlb=1"), ("glibc.pthread.rseq=0", "rseq=0")]
)
def test_ptxas_has_large_pages_unless_somebody_set_up_the_c_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, seen: str
) -> None:
    fake = tmp_path / "ptxas"
    fake.write_text('#!/bin/sh\necho "error: $GLIBC_TUNABLES" >&2\nexit 1\n')
    fake.chmod(0o755)
    if given is None:
        monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    else:
        monkeypatch.setenv("GLIBC_TUNABLES", given)
    with pytest.raises(CompilationError, match=seen):
        ptxas.assemble(str(fake), "", "sm_80", "any")


@needs_ptxas
def test_what_ptxas_refuses_is_reported_with_the_kernel() -> None:
    path = ptxas.find()
    assert path is not None
    with pytest.raises(CompilationError, match=r"kernel `broken` for sm_80.*error"):
        ptxas.assemble(path, ".version 7.8\n.target sm_80\nnonsense\n", "sm_80", "broken")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("echo \"ptxas fatal : Value '$2' is not defined for option 'gpu-name'\" >&2; exit 1",
         r"`any` for sm_80: ptxas fatal.*gpu-name(?s:.*)newer ptxas"),
        ("kill -9 $$", r"`any` for sm_80: it ended with -9"),
    ],
)  # fmt: skip
def test_how_ptxas_may_fail(tmp_path: Path, program: str, message: str) -> None:
    fake = tmp_path / "ptxas"
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\n{program}\n')
    fake.chmod(0o755)
    with pytest.raises(CompilationError, match=message):
        ptxas.assemble(str(fake), "", "sm_80", "any")


def test_a_ptxas_that_is_no_program(tmp_path: Path) -> None:
    fake = tmp_path / "ptxas"
    fake.write_bytes(b"\x7fELF for something else")
    fake.chmod(0o755)
    with pytest.raises(DeviceError, match="cannot be run.*TEGULA_PTXAS"):
        ptxas.assemble(str(fake), "", "sm_80", "any")


def test_too_much_shared_memory_says_how_much_and_where() -> None:
    target = resolve("sm_75")
    with pytest.raises(OutOfResources, match=r"shared memory \(kernel `huge`, cuda:sm_75\)") as e:
        from tegula_cuda.compiler import check_shared

        check_shared("huge", 70_000, target)
    assert (e.value.required, e.value.limit) == (70_000, 65536)


def test_devices_get_the_best_code_there_is_for_them() -> None:
    def arch(*capability: int) -> str | None:
        target = of_device(*capability)
        return None if target is None else target.arch

    assert arch(7, 0) is None
    assert arch(7, 5) == "sm_75"
    assert arch(8, 7) == "sm_86"  # code of its own generation
    assert arch(9, 0) == "sm_90a"
    assert arch(10, 0) == "sm_100a"
    assert arch(10, 1) == "sm_90"  # code with an `a` runs on no other chip
    assert arch(12, 0) == "sm_120a"
    assert arch(13, 0) == "sm_90"


def test_targets_differ_in_what_they_have() -> None:
    assert "wgmma" in features_of(resolve("sm_90a"))
    assert "wgmma" not in features_of(resolve("sm_90"))
    assert "wgmma" not in features_of(resolve("sm_100a"))
    assert "cp_async" not in features_of(resolve("sm_75"))
    assert [t.arch for t in known_targets()][:3] == ["sm_90a", "sm_100a", "sm_80"]
    assert len(known_targets()) == len(ARCHITECTURES)


def test_an_unknown_target_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(OptionError, match="did you mean 'sm_90'"):
        resolve("sm90")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_warps": 3}, "power of 2"),
        ({"num_warps": 64}, "power of 2"),
        ({"maxnreg": 0}, "maxnreg"),
        ({"num_stages": 0}, "num_stages"),
        ({"cluster_dims": (4, 4)}, "cluster_dims"),
        ({"cluster_dims": (0, 1, 1)}, "cluster_dims"),
        ({"cluster_dims": (1, 1, 1, 1)}, "cluster_dims"),
        ({"launch_pdl": 1}, "launch_pdl"),
        ({"waves_per_eu": 2}, "waves_per_eu"),
    ],
)
def test_options_are_checked(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        CudaCompiler().options(resolve("sm_90a"), given)


@pytest.mark.parametrize("given", [{"cluster_dims": (2, 1, 1)}, {"launch_pdl": True}])
def test_options_that_need_newer_hardware_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="sm_90 or later"):
        CudaCompiler().options(resolve("sm_89"), given)


def test_num_ctas_causes_no_second_compilation() -> None:
    assert CudaOptions(num_ctas=2).key() == CudaOptions().key()
    assert CudaOptions(num_warps=8).key() != CudaOptions().key()


# -- code that is damaged


@needs_ptxas
@pytest.mark.parametrize("noted", [True, False], ids=["with a digest", "without"])
def test_machine_code_that_is_cut_off_is_not_handed_to_the_driver(noted: bool) -> None:
    made = artifact_of("add", resolve("sm_90a"))
    check_code(made)
    metadata = {k: v for k, v in made.metadata.items() if noted or k != "digest"}
    for size in (0, 3, 20, 64, len(made.data) // 3, len(made.data) - 1):
        cut = replace(made, data=made.data[:size], metadata=metadata)
        with pytest.raises(DeviceError, match=r"kernel 'add' \(cubin\) is damaged"):
            check_code(cut)


@needs_ptxas
def test_machine_code_of_something_else_is_not_handed_to_the_driver() -> None:
    made = artifact_of("add", resolve("sm_90a"))
    with pytest.raises(DeviceError, match="it does not define 'another'"):
        check_code(Artifact("cubin", made.data, "another"))
    host = made.data[:18] + (62).to_bytes(2, "little") + made.data[20:]
    with pytest.raises(DeviceError, match="made for ELF machine 62, not 190"):
        check_code(Artifact("cubin", host, "add"))
    with pytest.raises(DeviceError, match="'cubin' and 'ptx', not 'elf-object'"):
        check_code(Artifact("elf-object", made.data, "add"))


def test_text_that_is_cut_off_is_not_handed_to_the_driver() -> None:
    with config.scope(ptxas="driver"):
        made = artifact_of("add", resolve("sm_90a"))
    check_code(made)
    for data in (made.data[:200], b"", made.data + b"\0nonsense"):
        with pytest.raises(DeviceError, match=r"kernel 'add' \(ptx\) is damaged"):
            check_code(replace(made, data=data))
    with pytest.raises(DeviceError, match="no text of a PTX module"):
        check_code(Artifact("ptx", b"\x7fELF", "add"))
