"""Host memory as the interpreter sees it: a table of known buffers, addressed by real pointers.

Pointers are plain 64-bit addresses.  Every access is checked against the table before a byte is
touched, so a wrong kernel ends in a message and never in a segmentation fault.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Buffer:
    """One block of host memory that a kernel may touch."""

    address: int
    nbytes: int
    name: str
    writable: bool = True
    shape: tuple[int, ...] | None = None
    owner: Any = field(default=None, repr=False, compare=False)  # keeps the memory alive

    @property
    def end(self) -> int:
        """First address behind the buffer."""
        return self.address + self.nbytes

    @staticmethod
    def of_array(array: np.ndarray, name: str, writable: bool | None = None) -> Buffer:
        """The bytes that a numpy array (strided or not) spans."""
        low = high = array.ctypes.data
        if array.size:
            for size, stride in zip(array.shape, array.strides):
                low += min(0, (size - 1) * stride)
                high += max(0, (size - 1) * stride)
            high += array.itemsize
        may_write = bool(array.flags.writeable) if writable is None else writable
        return Buffer(low, high - low, name, may_write, tuple(array.shape), array)


class AccessFault(Exception):
    """An access that no buffer allows; the interpreter turns it into an error with a location."""

    def __init__(self, lane: int, address: int, reason: str, buffer: Buffer | None) -> None:
        super().__init__(reason)
        self.lane = lane  # position in the flat list of addresses accessed
        self.address = address
        self.reason = reason  # "bounds" | "readonly" | "unknown"
        self.buffer = buffer


class Segment:
    """A range of addresses with one permission, and its typed numpy views."""

    def __init__(self, start: int, end: int, writable: bool) -> None:
        self.start = start
        self.end = end
        self.writable = writable
        self._views: dict[np.dtype, np.ndarray] = {}

    def view(self, dtype: np.dtype) -> np.ndarray:
        """The segment as an array of ``dtype``; a ragged tail is left out."""
        found = self._views.get(dtype)
        if found is None:
            size = (self.end - self.start) // dtype.itemsize * dtype.itemsize
            raw = (ctypes.c_uint8 * size).from_address(self.start)
            found = self._views[dtype] = np.frombuffer(memoryview(raw), np.uint8).view(dtype)
        return found


class Memory:
    """Loads, stores and atomic updates of checked addresses."""

    def __init__(self, buffers: Iterable[Buffer], allow_unknown: bool = False) -> None:
        self.buffers = tuple(sorted(buffers, key=lambda b: (b.address, -b.nbytes)))
        self.allow_unknown = allow_unknown
        self._segments = _merge(self.buffers)
        self._starts = np.array([s.start for s in self._segments], dtype=np.uint64)
        self._own = {b: Segment(b.address, b.end, b.writable) for b in self.buffers}

    # -- accesses: `addresses` is a flat uint64 array, `root` the buffer it was derived from

    def load(self, addresses: np.ndarray, dtype: np.dtype, root: Buffer | None) -> np.ndarray:
        """Elements at the addresses."""
        if not addresses.size:
            return np.zeros(0, dtype)
        segment = self._single(addresses, dtype.itemsize, False, root)
        if segment is not None:
            return _gather(segment, addresses, dtype)
        out = np.empty(addresses.size, dtype)
        for segment, lanes in self._pieces(addresses, dtype.itemsize, False):
            out[lanes] = _gather(segment, addresses[lanes], dtype)
        return out

    def store(self, addresses: np.ndarray, values: np.ndarray, root: Buffer | None) -> None:
        """Write the values; of several writes to one address the last lane's stays."""
        if not addresses.size:
            return
        segment = self._single(addresses, values.dtype.itemsize, True, root)
        if segment is not None:
            _scatter(segment, addresses, values)
            return
        for segment, lanes in self._pieces(addresses, values.dtype.itemsize, True):
            _scatter(segment, addresses[lanes], values[lanes])

    def check(self, addresses: np.ndarray, itemsize: int, root: Buffer | None) -> None:
        """Raise unless every address may be read and written."""
        if addresses.size and self._single(addresses, itemsize, True, root) is None:
            self._pieces(addresses, itemsize, True)

    # -- finding the segment

    def _single(
        self, addresses: np.ndarray, itemsize: int, write: bool, root: Buffer | None
    ) -> Segment | None:
        """The one segment that holds every address, or None when there are several."""
        low = int(addresses.min())
        high = int(addresses.max()) + itemsize
        if root is not None:
            segment = self._own[root]
            if segment.start <= low and high <= segment.end:
                if write and not segment.writable:
                    raise AccessFault(0, int(addresses[0]), "readonly", root)
                return segment
            if not self.allow_unknown:
                first = int(np.uint64(root.address))
                last = root.end - itemsize
                wrong = (addresses < np.uint64(first)) | (addresses > np.uint64(max(last, 0)))
                if last < first:
                    wrong[:] = True
                lane = int(np.argmax(wrong))
                raise AccessFault(lane, int(addresses[lane]), "bounds", root)
        found = self._segment_at(low)
        if found is not None and high <= found.end:
            if write and not found.writable:
                raise AccessFault(0, int(addresses[0]), "readonly", self._nearest(low))
            return found
        if self.allow_unknown:
            return Segment(low, high, True)
        return None

    def _segment_at(self, address: int) -> Segment | None:
        index = int(np.searchsorted(self._starts, np.uint64(address), side="right")) - 1
        if index < 0 or address >= self._segments[index].end:
            return None
        return self._segments[index]

    def _pieces(
        self, addresses: np.ndarray, itemsize: int, write: bool
    ) -> list[tuple[Segment, np.ndarray]]:
        """Split the lanes by segment; raise for the first lane that lies in none."""
        index = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        ends = np.array([s.end for s in self._segments], dtype=np.uint64)
        inside = index >= 0
        inside[inside] = addresses[inside] + np.uint64(itemsize) <= ends[index[inside]]
        if not inside.all():
            lane = int(np.argmin(inside))
            address = int(addresses[lane])
            nearest = self._nearest(address)
            raise AccessFault(lane, address, "bounds" if nearest else "unknown", nearest)
        pieces = []
        for number in np.unique(index):
            segment = self._segments[int(number)]
            lanes = np.nonzero(index == number)[0]
            if write and not segment.writable:
                lane = int(lanes[0])
                address = int(addresses[lane])
                raise AccessFault(lane, address, "readonly", self._nearest(address))
            pieces.append((segment, lanes))
        return pieces

    def _nearest(self, address: int) -> Buffer | None:
        def distance(buffer: Buffer) -> int:
            return max(buffer.address - address, address - buffer.end + 1, 0)

        return min(self.buffers, key=distance, default=None)


def _merge(buffers: tuple[Buffer, ...]) -> list[Segment]:
    """Overlapping buffers (an array passed twice, a view and its base) become one segment."""
    segments: list[Segment] = []
    for buffer in buffers:
        if not buffer.nbytes:
            continue
        last = segments[-1] if segments else None
        if last is not None and buffer.address < last.end:
            last.end = max(last.end, buffer.end)
            last.writable = last.writable or buffer.writable
        else:
            segments.append(Segment(buffer.address, buffer.end, buffer.writable))
    return segments


def _element_index(segment: Segment, addresses: np.ndarray, itemsize: int) -> np.ndarray | None:
    """Element positions in the segment's view, or None when some address is not aligned to it."""
    offsets = (addresses - np.uint64(segment.start)).astype(np.int64)
    if itemsize == 1:
        return offsets
    if int(np.bitwise_or.reduce(offsets)) & (itemsize - 1):
        return None
    return offsets >> (itemsize.bit_length() - 1)


def _byte_index(segment: Segment, addresses: np.ndarray, itemsize: int) -> np.ndarray:
    offsets = (addresses - np.uint64(segment.start)).astype(np.int64)
    return offsets[:, None] + np.arange(itemsize)


def _gather(segment: Segment, addresses: np.ndarray, dtype: np.dtype) -> np.ndarray:
    index = _element_index(segment, addresses, dtype.itemsize)
    if index is not None:
        return segment.view(dtype)[index]
    raw = segment.view(np.dtype(np.uint8))[_byte_index(segment, addresses, dtype.itemsize)]
    return np.ascontiguousarray(raw).view(dtype).reshape(-1)


def _scatter(segment: Segment, addresses: np.ndarray, values: np.ndarray) -> None:
    index = _element_index(segment, addresses, values.dtype.itemsize)
    if index is not None:
        segment.view(values.dtype)[index] = values
        return
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(values.size, -1)
    where = _byte_index(segment, addresses, values.dtype.itemsize)
    for lane in range(values.size):  # in lane order: unaligned writes may overlap each other
        segment.view(np.dtype(np.uint8))[where[lane]] = raw[lane]
