"""Rewriting: tables of rules, and the walk that applies them."""

from .driver import Rewriter, TraceEntry, apply_rules
from .rules import Rule, Rules
from .sweep import Sweep

__all__ = ["Rewriter", "Rule", "Rules", "Sweep", "TraceEntry", "apply_rules"]
