"""The disk cache of compiled code.

One file per entry, written to a temporary name and renamed, so readers in any number of processes
see a whole entry or none. Every entry carries a checksum; one that does not match is deleted and
made again. The directory is bounded: the entries used longest ago go first. A read-only directory
may lie under the writable one. Where nothing can be written, entries live in memory until the
process ends.

    TEGULA_CACHE_DIR            the directory (default: the user's cache directory)
    TEGULA_CACHE_READONLY_DIR   looked at when the first has no entry; never written
    TEGULA_CACHE_SIZE           bound in MiB
    TEGULA_CACHE=0              neither read nor write
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tegula.config import config
from tegula.errors import CacheWarning

MAGIC = b"TEGULA01"
SUFFIX = ".tgc"
CHECKSUM_BYTES = 16
MEMORY_ENTRIES = 512
STALE_SECONDS = 3600
"""Age at which a temporary file was left by a process that died."""
TOUCH_SECONDS = 300
"""An entry's time of use is not rewritten more often than this."""
KEEP_FRACTION = 0.8
"""What is left, of the bound, after old entries were removed."""


@dataclass
class Counts:
    """What happened in this process."""

    hits: int = 0
    misses: int = 0
    stores: int = 0
    corrupt: int = 0
    evicted: int = 0


counts = Counts()
_memory: OrderedDict[str, bytes] = OrderedDict()
_lock = threading.Lock()
_warned: set[str] = set()
_written_since_trim = 0


def default_directory() -> Path | None:
    """The user's cache directory, or None where there is no home."""
    directory = _directory()
    return None if directory is None else Path(directory)


def _directory() -> str | None:
    explicit = config.cache_dir
    if explicit:
        return os.fspath(explicit)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return os.path.join(base, "tegula", "cache") if base else None
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return os.path.join(base, "tegula")
    home = os.path.expanduser("~")
    if not os.path.isabs(home) or home == "/":
        return None
    return os.path.join(home, ".cache", "tegula")


def readonly_directory() -> Path | None:
    """The shared directory that is never written, if one is configured."""
    return Path(config.cache_readonly_dir) if config.cache_readonly_dir else None


def _path(directory: str | Path, key: str) -> str:
    return os.path.join(directory, key[:2], key[2:] + SUFFIX)


def load(key: str) -> bytes | None:
    """The entry under a key, checked; None if there is none."""
    if not config.cache:
        return None
    directory = _directory()
    if directory is not None:
        found = _read(_path(directory, key), writable=True)
        if found is not None:
            counts.hits += 1
            return found
    readonly = readonly_directory()
    if readonly is not None:
        found = _read(_path(readonly, key), writable=False)
        if found is not None:
            counts.hits += 1
            return found
    with _lock:
        found = _memory.get(key)
        if found is not None:
            _memory.move_to_end(key)
    if found is None:
        counts.misses += 1
    else:
        counts.hits += 1
    return found


def _read(path: str, *, writable: bool) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            raw = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _warn_once(f"read:{path}", f"cache entry {path} cannot be read ({error}); compiling again")
        return None
    start = len(MAGIC) + CHECKSUM_BYTES
    payload = raw[start:]
    if raw[: len(MAGIC)] != MAGIC or raw[len(MAGIC) : start] != _checksum(payload):
        counts.corrupt += 1
        if writable:
            _remove(path)
        return None
    if writable:
        _touch(path)
    return payload


def _checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=CHECKSUM_BYTES).digest()


def _touch(path: str) -> None:
    """Record the use of an entry; its modification time is its place in the queue for removal."""
    try:
        if time.time() - os.stat(path).st_mtime > TOUCH_SECONDS:
            os.utime(path)
    except OSError:
        pass  # the entry was read; when it was is of no great importance


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def store(key: str, payload: bytes) -> None:
    """Keep an entry; never raises for reasons of the file system."""
    if not config.cache:
        return
    counts.stores += 1
    directory = default_directory()
    if directory is None:
        _warn_once("home", "there is no home directory for the cache; set TEGULA_CACHE_DIR to keep "
                   "compiled kernels between processes")  # fmt: skip
    elif _write(directory, key, payload):
        return
    with _lock:
        _memory[key] = payload
        _memory.move_to_end(key)
        while len(_memory) > MEMORY_ENTRIES:
            _memory.popitem(last=False)


def _write(directory: Path, key: str, payload: bytes) -> bool:
    path = _path(directory, key)
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".{os.getpid()}-{secrets.token_hex(6)}.tmp")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(MAGIC + _checksum(payload) + payload)
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        _warn_once(
            f"write:{directory}",
            f"the cache in {directory} cannot be written ({error}); compiled kernels are kept in "
            "memory only. Set TEGULA_CACHE_DIR to a writable directory",
        )
        return False
    _trim_sometimes(directory, len(payload))
    return True


def _warn_once(reason: str, message: str) -> None:
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(message, CacheWarning, stacklevel=4)


# -------------------------------------------------------------------------------------------------
# Bounded size


def _limit() -> int:
    return int(config.cache_size) * (1 << 20)


def _trim_sometimes(directory: Path, written: int) -> None:
    """Look at the whole directory now and then: after a share of the bound was written, or by
    chance.

    The chance serves processes that store little and end; a scan is too dear for every store.
    """
    global _written_since_trim
    _written_since_trim += written
    if _written_since_trim * 16 > _limit() or secrets.randbelow(64) == 0:
        _written_since_trim = 0
        trim(directory, _limit())


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    try:
        folders = [e for e in os.scandir(directory) if len(e.name) == 2 and e.is_dir()]
    except OSError:
        return
    for folder in folders:
        try:
            yield from os.scandir(folder.path)
        except OSError:
            continue


def trim(directory: Path, limit: int) -> None:
    """Remove the entries used longest ago until the rest fits well below the limit."""
    entries: list[tuple[float, int, str]] = []
    now = time.time()
    for entry in _entries(directory):
        try:
            stat = entry.stat()
        except OSError:
            continue  # another process removed it
        if entry.name.endswith(SUFFIX):
            entries.append((stat.st_mtime, stat.st_size, entry.path))
        elif now - stat.st_mtime > STALE_SECONDS:
            _remove(entry.path)
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        if total <= limit * KEEP_FRACTION:
            break
        if _remove(path):
            counts.evicted += 1
        total -= size


# -------------------------------------------------------------------------------------------------
# For the command line


def info() -> dict[str, Any]:
    """Where the cache is, how large it is, and how it served this process."""
    directory = default_directory()
    sizes = []
    if directory is not None:
        for entry in _entries(directory):
            if entry.name.endswith(SUFFIX):
                try:
                    sizes.append(entry.stat().st_size)
                except OSError:
                    continue
    readonly = readonly_directory()
    return {
        "enabled": bool(config.cache),
        "directory": None if directory is None else str(directory),
        "readonly_directory": None if readonly is None else str(readonly),
        "entries": len(sizes),
        "bytes": sum(sizes),
        "limit_bytes": _limit(),
        "memory_entries": len(_memory),
        **asdict(counts),
    }


def clear() -> int:
    """Remove every entry of the writable cache; returns how many there were."""
    with _lock:
        removed = len(_memory)
        _memory.clear()
    directory = default_directory()
    if directory is not None:
        for entry in _entries(directory):
            if _remove(entry.path) and entry.name.endswith(SUFFIX):
                removed += 1
    return removed
