"""Native code of our own for the host: LLVM IR text, compiled once per machine and linked into the
process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

OPT_LEVEL = 2

_lock = threading.Lock()
_loaded: list[Library] = []


@dataclass(frozen=True)
class Library:
    """Linked code. It stays loaded: addresses in it stand in tables that keep nothing alive."""

    addresses: Mapping[str, int]
    keep: Any = field(repr=False, default=None)

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


@cache
def _machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        opt=OPT_LEVEL, reloc="pic", codemodel="small"
    )


def object_code(name: str, text: str) -> bytes:
    """Object code of the text, from the disk cache where it is there.

    No passes run over the IR: texts of this kind have nothing that they would make faster.
    """
    import llvmlite
    import llvmlite.binding as llvm

    from tegula.runtime import cache as disk

    machine = _machine()
    parts = (name, llvm.get_process_triple(), llvmlite.__version__, text)
    key = hashlib.sha256("|".join(parts).encode()).hexdigest()
    code = disk.load(key)
    if code is None:
        module = llvm.parse_assembly(text)
        module.verify()
        code = bytes(machine.emit_object(module))
        disk.store(key, code)
    return code


def load(name: str, text: str, exports: Iterable[str], imports: Mapping[str, int]) -> Library:
    """Link the text under a name; `imports` are the addresses of what it declares."""
    import llvmlite.binding as llvm

    with _lock:
        code = object_code(name, text)
        jit = llvm.create_lljit_compiler(_machine())
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        for symbol in (names := tuple(exports)):
            builder.export_symbol(symbol)
        for symbol, address in imports.items():
            builder.import_symbol(symbol, address)
        library = builder.link(jit, name)
        made = Library({symbol: library[symbol] for symbol in names}, (jit, library))
        _loaded.append(made)
    return made


def python_functions(names: Iterable[str]) -> dict[str, int]:
    """Addresses of functions of CPython's C interface."""
    return functions_of(ctypes.pythonapi, names)


def c_functions(names: Iterable[str]) -> dict[str, int]:
    """Addresses of functions of the C library."""
    return functions_of(ctypes.CDLL("ucrtbase" if os.name == "nt" else None), names)


def functions_of(library: Any, names: Iterable[str]) -> dict[str, int]:
    """Addresses of functions of a library that is loaded; AttributeError where it lacks one."""
    return {n: ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0 for n in names}


def with_fields(text: str, records: Mapping[str, type[ctypes.Structure]]) -> str:
    """The text with the fields of records in their places.

    `%x->field` is the address of a field of the record of which `records` knows the fields by the
    name `x`, and `<x>` is the record's size in bytes.
    """
    count = 0

    def statement(match: re.Match[str]) -> str:
        before: list[str] = []

        def address(use: re.Match[str]) -> str:
            nonlocal count
            count += 1
            name, field = use[1], use[2]
            place = f"%{name}.{field}.{count}"
            offset = getattr(records[name], field).offset
            before.append(f"  {place} = getelementptr i8, ptr %{name}, i64 {offset}\n")
            return place

        after = _FIELD.sub(address, match[0])
        return "".join(before) + after

    sized = re.sub(r"<([a-z]\w*)>", lambda m: str(ctypes.sizeof(records[m[1]])), text)
    return _STATEMENT.sub(statement, sized)


_FIELD = re.compile(r"%(\w+)->(\w+)")
_STATEMENT = re.compile(r"^  \S.*\n(?:   .*\n)*", re.MULTILINE)
"""A line of two blanks with those that continue it, which have more."""

ADDRESSES = """\
define internal void @addresses(ptr %first, i64 %step, i64 %count, ptr %to) {
entry:
  br label %each
each:
  %i = phi i64 [0, %entry], [%i.next, %one]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = mul i64 %i, %step
  %place = getelementptr i8, ptr %first, i64 %at
  %to.p = getelementptr ptr, ptr %to, i64 %i
  store ptr %place, ptr %to.p
  %i.next = add i64 %i, 1
  br label %each
done:
  ret void
}
"""
"""LLVM text of a function that lists the addresses of `count` things, `step` bytes apart."""
