"""Rewrites before lowering: descriptors become pointers, carried pointer tiles become offsets."""

from __future__ import annotations

from tegula.ir.core import Function, Module


def prepare(module: Module, function: Function) -> Function:
    return function
