"""The declarations of the device library, a module for each family."""

from __future__ import annotations

from . import exact, integer

TABLES = (integer.TABLE, exact.TABLE)
