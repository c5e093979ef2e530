"""The declarations of the device library, a module for each family."""

from __future__ import annotations

from . import elementary, exact, integer, special

TABLES = (integer.TABLE, exact.TABLE, elementary.TABLE, special.TABLE)
