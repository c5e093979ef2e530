"""The disk cache: whole entries only, checked, bounded, layered, shared by many processes, and
never in the way.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tegula.config import config
from tegula.errors import CacheWarning
from tegula.runtime import cache

KEY = "ab" + "0" * 62


def entries(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*" + cache.SUFFIX))


def test_round_trip_and_layout(cache_dir: Path) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, b"payload")
    assert cache.load(KEY) == b"payload"
    assert entries(cache_dir) == [cache_dir / "ab" / ("0" * 62 + cache.SUFFIX)]
    assert [p for p in cache_dir.rglob("*") if p.name.endswith(".tmp")] == []
    cache.store(KEY, b"another")
    assert cache.load(KEY) == b"another"
    cache.store(KEY, b"")
    assert cache.load(KEY) == b""


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "garbage", "header"])
def test_corrupt_entries_are_removed_and_replaced(damage: str, cache_dir: Path) -> None:
    cache.store(KEY, bytes(range(256)))
    (path,) = entries(cache_dir)
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        raw[100] ^= 1
    elif damage == "header":
        raw[0] ^= 1
    else:
        raw = {"truncate": raw[:-1], "empty": bytearray(), "garbage": bytearray(b"x" * 300)}[damage]
    path.write_bytes(raw)
    corrupt = cache.counts.corrupt
    assert cache.load(KEY) is None
    assert cache.counts.corrupt == corrupt + 1
    assert not path.exists()
    cache.store(KEY, b"again")
    assert cache.load(KEY) == b"again"


def test_corrupt_artifact_is_compiled_again(cache_dir: Path) -> None:
    import numpy as np

    import tegula
    import tegula.language as tl

    @tegula.jit
    def five(x_ptr):
        tl.store(x_ptr, 5.0)

    for payload in (None, b"", b"\xff\xff\xff\xff", b"\x05\x00\x00\x00{}{}{}"):
        for path in entries(cache_dir):
            if payload is None:
                path.write_bytes(path.read_bytes()[:-3])
            else:  # a valid entry whose content means nothing
                cache.store(path.parent.name + path.stem, payload)
        five.forget()
        x = np.zeros(1, np.float32)
        five[(1,)](x, device="interpreter")
        assert x[0] == 5


def test_old_entries_go_first(cache_dir: Path) -> None:
    size = 100_000
    keys = [f"{i:02x}" + "1" * 62 for i in range(10)]
    for age, key in enumerate(keys):
        cache.store(key, bytes(size))
        (path,) = [p for p in entries(cache_dir) if p.parent.name == key[:2]]
        stamp = time.time() - 10_000 + age
        os.utime(path, (stamp, stamp))
    assert cache.load(keys[0]) is not None  # used just now
    cache.trim(cache_dir, 6 * size)
    kept = {p.parent.name for p in entries(cache_dir)}
    assert sum(p.stat().st_size for p in entries(cache_dir)) <= 6 * size * cache.KEEP_FRACTION
    assert keys[0][:2] in kept
    assert kept - {keys[0][:2]} == {k[:2] for k in keys[-len(kept) + 1 :]}


def test_size_stays_bounded(cache_dir: Path) -> None:
    with config.scope(cache_dir=str(cache_dir), cache_size=1):
        for i in range(60):
            cache.store(f"{i:02x}" + "2" * 62, bytes(50_000))
    total = sum(p.stat().st_size for p in entries(cache_dir))
    assert total <= (1 << 20) * 1.1


def test_stale_temporary_files_are_removed(cache_dir: Path) -> None:
    cache.store(KEY, b"x")
    old, new = cache_dir / "ab" / ".1-a.tmp", cache_dir / "ab" / ".1-b.tmp"
    for path, age in ((old, 2 * cache.STALE_SECONDS), (new, 0)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    cache.trim(cache_dir, 1 << 30)
    assert not old.exists()
    assert new.exists()


def test_readonly_layer(cache_dir: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    with config.scope(cache_dir=str(shared)):
        cache.store(KEY, b"shared")
    (path,) = entries(shared)
    before = path.stat().st_mtime_ns
    path.chmod(0o444)
    with config.scope(cache_readonly_dir=str(shared)):
        assert cache.load(KEY) == b"shared"
        cache.store(KEY, b"own")
        assert cache.load(KEY) == b"own"
        (entries(cache_dir)[0]).unlink()
        assert cache.load(KEY) == b"shared"
        path.chmod(0o644)
        path.write_bytes(b"damaged")
        assert cache.load(KEY) is None
        assert path.exists()  # never written, not even to remove
    assert before


def test_unwritable_directory_falls_back_to_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with config.scope(cache_dir=str(blocked / "cache")):
        with pytest.warns(CacheWarning, match=r"cannot be written .*memory only.*TEGULA_CACHE_DIR"):
            cache.store(KEY, b"kept")
        assert cache.load(KEY) == b"kept"
        cache.store(KEY, b"kept twice")  # warned once is enough
        assert cache.load(KEY) == b"kept twice"


def test_without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with config.scope(cache_dir=None):
        assert cache.default_directory() is None
        with pytest.warns(CacheWarning, match="no home directory"):
            cache.store(KEY, b"kept")
        assert cache.load(KEY) == b"kept"
        assert cache.info()["directory"] is None


def test_switched_off(cache_dir: Path) -> None:
    with config.scope(cache=False, cache_dir=str(cache_dir)):
        cache.store(KEY, b"x")
        assert cache.load(KEY) is None
    assert entries(cache_dir) == []


def test_info_and_clear(cache_dir: Path) -> None:
    for i in range(3):
        cache.store(f"{i:02x}" + "3" * 62, bytes(100))
    info = cache.info()
    assert info["entries"] == 3
    assert info["bytes"] == 3 * (100 + len(cache.MAGIC) + cache.CHECKSUM_BYTES)
    assert info["directory"] == str(cache_dir)
    assert cache.clear() == 3
    assert cache.info()["entries"] == 0
    assert cache.clear() == 0


WORKER = textwrap.dedent(
    """
    import random, sys
    from tegula.config import config
    from tegula.runtime import cache
    config.set(cache_dir=sys.argv[1], cache_size=1)
    rng = random.Random(int(sys.argv[2]))
    def payload(i, version):
        return bytes([i]) * (2000 + 500 * version)
    for step in range(300):
        i = rng.randrange(40)
        key = f"{i:02x}" + "4" * 62
        found = cache.load(key)
        if found is not None:
            assert len(set(found)) == 1 and found[0] == i, (i, len(found))
        if found is None or rng.random() < 0.3:
            cache.store(key, payload(i, rng.randrange(8)))
    assert cache.counts.corrupt == 0, cache.counts
    print(cache.counts.hits)
    """
)


def test_sixteen_processes_share_a_directory(cache_dir: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(cache_dir), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(16)
    ]
    hits = 0
    for worker in workers:
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
        hits += int(out)
    assert hits > 1000
    assert list(cache_dir.rglob("*.tmp")) == []


KERNEL = textwrap.dedent(
    """
    import sys
    import numpy as np, tegula, tegula.language as tl
    from tegula.runtime import cache
    @tegula.jit
    def add_one(x_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1, mask=offs < n)
    for block in (16, 32, 64):
        x = np.arange(100.0, dtype=np.float32)
        add_one[(tegula.cdiv(100, block),)](x, 100, BLOCK=block, device="interpreter")
        assert (x == np.arange(1.0, 101.0)).all()
    print(cache.counts.corrupt)
    """
)


def test_sixteen_processes_compile_the_same_kernels(tmp_path: Path, cache_dir: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KERNEL)
    env = {**os.environ, "TEGULA_CACHE_DIR": str(cache_dir)}
    workers = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(16)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=300)
        assert worker.returncode == 0, err
        assert int(out) == 0
    assert len(entries(cache_dir)) >= 3
