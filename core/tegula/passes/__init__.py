"""Passes over tile IR, and pipelines of them."""

from .base import Pass, PassContext, PassTiming
from .pipeline import PASSES, Pipeline, default_pipeline

__all__ = ["PASSES", "Pass", "PassContext", "PassTiming", "Pipeline", "default_pipeline"]
