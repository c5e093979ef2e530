"""Tile IR: types, operations, functions, their text, and the verifier."""

from . import patterns
from .builder import Builder, make_op
from .core import Block, Cloner, Function, Module, Op, Value
from .location import Location
from .opdef import REQUIRED, IRError, OpDef, OperandDef, op
from .ops import OPS
from .parser import ParseError, parse_module, parse_type
from .printer import format_attr, print_function, print_module
from .types import (
    DTYPES, Descriptor, DType, Pointer, Tile, Type, bf16, broadcast_shapes, elem_of, f8e4b8, f8e4b15, f8e4nv,
    f8e5, f8e5b16, f16, f32, f64, i1, i8, i16, i32, i64, is_pointer, numpy_dtype, shape_of, u8, u16, u32, u64,
    with_elem, with_shape,
)  # fmt: skip
from .verify import VerifyError, verify

IR_VERSION = (0, 1)

__all__ = [
    "Block", "Builder", "Cloner", "DType", "DTYPES", "Descriptor", "Function", "IRError", "IR_VERSION", "Location",
    "Module", "OPS", "Op", "OpDef", "OperandDef", "ParseError", "Pointer", "REQUIRED", "Tile", "Type", "Value",
    "VerifyError", "bf16", "broadcast_shapes", "elem_of", "f16", "f32", "f64", "f8e4b15", "f8e4b8", "f8e4nv",
    "f8e5", "f8e5b16", "format_attr", "i1", "i16", "i32", "i64", "i8", "is_pointer", "make_op", "numpy_dtype",
    "op", "parse_module", "parse_type", "patterns", "print_function", "print_module", "shape_of", "u16", "u32",
    "u64", "u8", "verify", "with_elem", "with_shape",
]  # fmt: skip
