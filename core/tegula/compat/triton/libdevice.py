"""Names of the device libraries that the language has under another name or not at all."""

from __future__ import annotations
