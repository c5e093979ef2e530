"""The conformance suite: what a backend really does, found out by running it.

    tegula conformance cpu              # levels 0 to 2, quick
    tegula conformance cpu --full       # everything; what a claim needs

Levels, each implying the ones before: 0 plugin, 1 compile, 2 core, 3 full, 4 stress. Profiles are
sets of features beside them. See `docs/conformance.md`.
"""

from __future__ import annotations

SUITE_VERSION = "2026.11"
"""Version of the suite itself: year and month. Tests that are new enter as candidates."""

REPORT_SCHEMA = 1

LEVELS = ("plugin", "compile", "core", "full", "stress")
