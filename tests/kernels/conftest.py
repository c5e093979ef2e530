"""Which tests of kernels are slow."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Intel's OpenCL runtime takes up to a minute for attention in 16 bits."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        place, dtype = given.get("place", ("", ""))[0], given.get("dtype")
        if place == "xpu" and dtype in ("f16", "bf16") and "test_attention" in item.name:
            item.add_marker(pytest.mark.slow)
