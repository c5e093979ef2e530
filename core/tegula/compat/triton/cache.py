"""`triton.runtime.cache`: the disk cache, as far as programs look at it."""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=1)
def triton_key() -> str:
    """Hash of everything that compiles: differs where compiled code may differ."""
    from tegula.frontend import frontend_fingerprint

    return frontend_fingerprint()


def default_cache_dir() -> str:
    """Where compiled kernels are kept."""
    from tegula.runtime import cache

    return str(cache.default_directory() or "")
