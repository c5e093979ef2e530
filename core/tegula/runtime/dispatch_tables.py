"""Memory layout of the launch tables that the native dispatcher walks.

A kernel owns one `Table`: the variants bound so far, in the order in which they are tried. A
`Variant` is one compiled kernel seen through one shape of call (how many positional arguments,
which keywords), with one `Entry` per thing to check or to pack. Python writes the tables, the
dispatcher (`dispatch_code`) only reads them; the field offsets of its code are derived from these
declarations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

MAX_ENTRIES = 192
"""Entries one variant may have; a call with more goes through Python."""
MAX_VARIANTS = 256
"""Variants one kernel may have bound at a time; the oldest go first."""
SHAPES_PER_KERNEL = 8
"""Ways of calling one compiled kernel that are bound at a time."""

FAR_BITS = 30
"""An array of more than 2^30 elements is far: offsets into it may leave int32."""

FROM_ARGUMENTS = -1
FROM_STORED = -2
ITSELF = -1
"""As `Entry.source`, with a tuple or member as parent: that object, not a part of it."""


class Kind(IntEnum):
    """What an entry checks and how its value gets into a slot."""

    NUMPY = 0  # numpy array: type, dtype, flags, alignment -> address
    DLPACK = (
        1  # anything with a DLPack exchange function: type, dtype, device, alignment -> address
    )
    DATA_PTR = 2  # an object's data_ptr() -> address; its extent by is_contiguous() and nbytes
    INT = 3  # Python int in [lo, hi]
    UINT64 = 4  # Python int in [2^63, 2^64)
    FLOAT = 5  # Python float, or a type laid out like one
    BOOL = 6  # True or False
    IS = 7  # this very object
    EQUAL = 8  # same type and equal (int, str)
    SAME_FLOAT = 9  # float with the same bits
    TUPLE = 10  # tuple of this type and length; its members follow
    SCALAR = 11  # numpy scalar: raw bytes behind the object header
    ATTRIBUTE = 12  # getattr(object, name) is or equals this
    GLOBAL = 13  # a name in a dictionary still means this very object
    MEMBER = 14  # an object of this type; stands for what its slot at byte `low` holds


class Flag(IntEnum):
    """Bits of `Entry.flags`."""

    DIVISIBLE = 1  # value or address must be a multiple of 16
    NOT_DIVISIBLE = 2  # ... must not be
    NOT_ONE = 4  # an int other than 1 (1 is compiled as a constant)
    EXTENT = 8  # the alias checks need the bytes this array covers
    UNSIGNED = 16  # a numpy scalar that is zero-extended
    NARROW = 32  # store as float32
    WIDE = 64  # an int that does not fit 32 bits
    NEAR = 128  # an array that is not far
    FAR = 256  # an array that is
    NEGATABLE = 512  # its library has views of memory that holds the negated values


class EntryStruct(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("source", ctypes.c_int32),  # index among the arguments, or of the tuple's member
        ("parent", ctypes.c_int32),  # FROM_ARGUMENTS, FROM_STORED, or the entry of the tuple
        ("slot", ctypes.c_int32),  # -1: nothing is passed to the kernel
        ("type", ctypes.c_void_p),
        ("object", ctypes.c_void_p),
        ("low", ctypes.c_int64),
        ("high", ctypes.c_int64),
        ("pointer", ctypes.c_void_p),  # exchange function, attribute name, or key of a global
        ("flags", ctypes.c_int32),
        ("width", ctypes.c_int32),  # bytes of one element or scalar
    )


class PairStruct(ctypes.Structure):
    _fields_ = (
        ("first", ctypes.c_int32),  # entry that is stored to
        ("second", ctypes.c_int32),  # entry that is loaded from
        ("same_ok", ctypes.c_int32),  # the same address is as good as no overlap
        ("unused", ctypes.c_int32),
    )


class VariantStruct(ctypes.Structure):
    _fields_ = (
        ("generation", ctypes.c_int64),
        ("settings", ctypes.c_void_p),
        ("nargs", ctypes.c_int64),
        ("kwnames", ctypes.c_void_p),
        ("nentries", ctypes.c_int64),
        ("nslots", ctypes.c_int64),
        ("npairs", ctypes.c_int64),
        ("compiled", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("stream_of", ctypes.c_void_p),  # DLPack's current_work_stream, or null
        ("stream_device", ctypes.c_int64),
        ("pairs", ctypes.c_void_p),
        ("entries", ctypes.c_void_p),
    )


class TableStruct(ctypes.Structure):
    _fields_ = (
        ("shared", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("readers", ctypes.c_int64),  # calls that are looking at variants right now
        ("variants", ctypes.c_void_p * MAX_VARIANTS),
    )


class SharedStruct(ctypes.Structure):
    """One per process: what every launch compares itself with."""

    _fields_ = (
        ("generation", ctypes.c_int64),
        ("context_var", ctypes.c_void_p),
        ("name_data_ptr", ctypes.c_void_p),
        ("name_is_contiguous", ctypes.c_void_p),
        ("name_nbytes", ctypes.c_void_p),
        ("name_failed", ctypes.c_void_p),
        ("name_is_neg", ctypes.c_void_p),
        ("name_bound", ctypes.c_void_p),
        ("name_launcher", ctypes.c_void_p),
        ("type_tuple", ctypes.c_void_p),
        ("type_int", ctypes.c_void_p),
    )


class RecordStruct(ctypes.Structure):
    """What a bound launcher carries: its grid and its kernel's table."""

    _fields_ = (
        ("table", ctypes.c_void_p),
        ("x", ctypes.c_int32),
        ("y", ctypes.c_int32),
        ("z", ctypes.c_int32),
        ("unused", ctypes.c_int32),
    )


class DLTensorStruct(ctypes.Structure):
    """DLPack's tensor; the layout is part of its stable ABI."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int64),  # type in the low, index in the high half
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),  # code, bits, lanes
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),  # in elements; null means dense
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass
class Entry:
    """One check, in Python's terms; objects are kept alive by the variant that holds it."""

    kind: Kind
    source: int = 0
    parent: int = FROM_ARGUMENTS
    slot: int = -1
    type: Any = None
    object: Any = None
    has_object: bool = False
    low: int = 0
    high: int = 0
    pointer: Any = None  # an int is an address, anything else an object
    flags: int = 0
    width: int = 0

    def fill(self, out: EntryStruct) -> None:
        out.kind, out.source, out.parent, out.slot = self.kind, self.source, self.parent, self.slot
        known = self.type is not None or self.kind is Kind.GLOBAL  # where None is an object, too
        out.type = id(self.type) if known else None
        out.object = id(self.object) if self.has_object else None
        out.low, out.high = self.low, self.high
        pointer = self.pointer
        out.pointer = pointer if pointer is None or isinstance(pointer, int) else id(pointer)
        out.flags, out.width = self.flags, self.width


@dataclass
class Variant:
    """One compiled kernel bound to one shape of call."""

    nargs: int
    kwnames: tuple[str, ...] | None
    entries: Sequence[Entry]
    nslots: int
    pairs: Sequence[tuple[int, int, bool]]
    compiled: Any
    launch: int
    handle: int
    settings: Any
    generation: int
    stream_of: int = 0
    stream_device: int = 0
    conservative: bool = False
    """Right for every argument of its kind, aliased or not; tried after those that check."""
    struct: VariantStruct = field(default_factory=VariantStruct, repr=False)
    _entries: Any = field(default=None, repr=False)
    _pairs: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._entries = (EntryStruct * max(1, len(self.entries)))()
        for entry, out in zip(self.entries, self._entries):
            entry.fill(out)
        self._pairs = (PairStruct * max(1, len(self.pairs)))(
            *(PairStruct(i, j, int(same_ok), 0) for i, j, same_ok in self.pairs)
        )
        s = self.struct
        s.generation, s.settings = self.generation, id(self.settings)
        s.nargs = self.nargs
        s.kwnames = id(self.kwnames) if self.kwnames else None
        s.nentries, s.nslots, s.npairs = len(self.entries), self.nslots, len(self.pairs)
        s.compiled = id(self.compiled)
        s.launch, s.handle = self.launch, self.handle
        s.stream_of, s.stream_device = self.stream_of or None, self.stream_device
        s.pairs, s.entries = ctypes.addressof(self._pairs), ctypes.addressof(self._entries)

    def checks(self) -> tuple[Any, ...]:
        """What a call has to look like, for comparison."""
        return (
            self.nargs,
            self.kwnames,
            id(self.settings),
            bytes(self._entries),
            bytes(self._pairs),
        )


class Table:
    """The variants of one kernel.

    Changes happen under the GIL, which the dispatcher holds while it reads. The newest variants are
    tried first, those that check for aliases before those that need not.
    """

    def __init__(self, shared: SharedStruct) -> None:
        self._struct = TableStruct()
        self._struct.shared = ctypes.addressof(shared)
        self._shared = shared
        self._variants: tuple[Variant, ...] = ()
        self._retired: list[tuple[Variant, ...]] = []

    @property
    def address(self) -> int:
        return ctypes.addressof(self._struct)

    @property
    def variants(self) -> tuple[Variant, ...]:
        return self._variants

    def add(self, variant: Variant) -> None:
        """Bind one more variant; those bound under settings or globals of the past go."""
        same = [v for v in self._variants if v.compiled is variant.compiled]
        if any(v.generation == variant.generation and v.checks() == variant.checks() for v in same):
            return
        crowded = set(map(id, same[SHAPES_PER_KERNEL - 1 :]))
        kept = [
            v for v in self._variants
            if v.generation == variant.generation and id(v) not in crowded
        ]  # fmt: skip
        fast = [v for v in kept if not v.conservative]
        slow = [v for v in kept if v.conservative]
        (slow if variant.conservative else fast).insert(0, variant)
        self._publish([*fast, *slow][:MAX_VARIANTS])

    def clear(self) -> None:
        """Forget everything that is bound."""
        self._publish([])

    def _publish(self, new: Sequence[Variant]) -> None:
        self._retired.append(self._variants)
        self._struct.count = 0
        for index, variant in enumerate(new):
            self._struct.variants[index] = ctypes.addressof(variant.struct)
        self._variants = tuple(new)
        self._struct.count = len(new)
        if self._struct.readers == 0:  # a check may run Python code and so let other threads in
            self._retired.clear()
