"""The versions that the core states about itself; declared here once, without importing anything.

A backend compares nothing with these: it writes the versions it was made for as literals in its
`BackendSpec`, and the registry does the comparison.
"""

from __future__ import annotations

API: tuple[int, int] = (0, 1)
"""Version of the plugin contract. Minor: something was added. Major: something was removed."""

API_MIN: tuple[int, int] = (0, 1)
"""The oldest contract that the core still serves."""

IR_VERSION: tuple[int, int] = (0, 1)
"""Version of the tile IR that the core hands to compilers."""
