"""Reading metadata gives what the standard library gives, and survives what it does not."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata

import pytest

from tegula.plugin import installed

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not a header\n"


def test_agrees_with_the_standard_library():
    groups = metadata.entry_points().groups
    assert "console_scripts" in groups
    for group in groups:
        theirs = {
            (p.name, p.value, p.dist.name, p.dist.version)
            for p in metadata.entry_points(group=group)
        }
        ours = {(p.name, p.module, p.dist, p.version) for p in installed.entry_points(group)[0]}
        assert ours == {(n, v.partition("[")[0].strip(), d, w) for n, v, d, w in theirs}


def write(folder, dist, version, entry_points):
    info = folder / f"{dist.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA.format(name=dist, version=version))
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def path(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return sys.path


def found(group="tegula.backends"):
    points, problems = installed.entry_points(group)
    assert problems == []
    return [(p.name, p.module, p.dist, p.version) for p in points]


def test_first_on_the_path_counts(path, tmp_path):
    write(tmp_path / "a", "Acme-Tools", "2.0", "[tegula.backends]\nacme = new\n")
    write(tmp_path / "b", "acme_tools", "1.0", "[tegula.backends]\nacme = old\n")
    path += [str(tmp_path / "a"), str(tmp_path / "b")]
    assert found() == [("acme", "new", "Acme-Tools", "2.0")]


def test_first_counts_even_if_it_declares_nothing(path, tmp_path):
    write(tmp_path / "a", "acme", "2.0", "")
    write(tmp_path / "b", "acme", "1.0", "[tegula.backends]\nacme = old\n")
    path += [str(tmp_path / "a"), str(tmp_path / "b")]
    assert found() == []


def test_other_groups_and_comments_are_passed_over(path, tmp_path):
    text = (
        "# tegula.backends\n[other]\nx = y\n\n[tegula.backends]\n; no\na = m : o\nb = n [extra]\n"
    )
    write(tmp_path, "acme", "1.0", text)
    path.append(str(tmp_path))
    assert [row[:2] for row in found()] == [("a", "m:o"), ("b", "n")]


def test_zip_files_are_read(path, tmp_path):
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("acme-1.0.dist-info/METADATA", METADATA.format(name="acme", version="1.0"))
        out.writestr("acme-1.0.dist-info/entry_points.txt", "[tegula.backends]\nacme = m\n")
    path += [str(archive), str(tmp_path / "absent")]
    assert found() == [("acme", "m", "acme", "1.0")]


def test_finders_of_others_are_asked(path, tmp_path):
    write(tmp_path, "acme", "1.0", "[tegula.backends]\nacme = m\n")

    class Finder(metadata.DistributionFinder):
        def find_distributions(self, context):
            return iter([metadata.PathDistribution(tmp_path / "acme-1.0.dist-info")])

    sys.meta_path.append(Finder())
    assert found() == [("acme", "m", "acme", "1.0")]


@pytest.mark.parametrize(
    "text", ["[tegula.backends\nx = y", "[tegula.backends]\nx", "[tegula.backends]\nx = a b"]
)
def test_damage_is_reported_and_hides_nothing_else(path, tmp_path, text):
    write(tmp_path, "acme", "1.0", text)
    write(tmp_path, "good", "1.0", "[tegula.backends]\ngood = m\n")
    path.append(str(tmp_path))
    points, problems = installed.entry_points("tegula.backends")
    assert [p.name for p in points] == ["good"]
    assert len(problems) == 1 and "'acme'" in problems[0] and "bad line" in problems[0]
