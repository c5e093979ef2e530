"""`triton.tools.tensor_descriptor`."""

from __future__ import annotations

from tegula.runtime.descriptor import TensorDescriptor

__all__ = ["TensorDescriptor"]
