"""Which tests of kernels are slow."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Intel's OpenCL runtime takes up to a minute for attention in 16 bits."""
    for item in items:  # those of other folders too
        if not item.path.is_relative_to(HERE) or "test_attention" not in item.name:
            continue
        given = getattr(getattr(item, "callspec", None), "params", {})
        if given["place"][0] == "xpu" and given.get("dtype") in ("f16", "bf16"):
            item.add_marker(pytest.mark.slow)
