"""Ops that later stages add when they decide where values live and when they move. Programs never
contain them, and they have no text form of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..opdef import REQUIRED, op
from ..types import Tile, Type, i32
from .rules import tile_of, types_of

if TYPE_CHECKING:
    from ..core import Op


@op("convert_layout", traits="pure scheduled")
class ConvertLayout:
    """The same tile, held by other threads and registers. out = x."""

    operands = "x"
    attrs = {"layout": REQUIRED}

    def infer(op: Op) -> list[Type]:
        (t,) = types_of(op)
        return [tile_of(t, "convert_layout")]

    def evaluate(op: Op, x: Any) -> Any:
        return x


@op("async_copy", traits="scheduled", effects="read")
class AsyncCopy:
    """Begin to copy a tile from global memory to one copy of a buffer in shared memory; masked-off
    elements become 0. `slot` says which copy.
    """

    operands = "ptr slot mask?"
    attrs = {"buffer": REQUIRED}

    def infer(op: Op) -> list[Type]:
        return []


@op("block_load", traits="scheduled", effects="read")
class BlockLoad:
    """A block of a tensor as the factor `side` of a product. The tensor has `rows` rows of `width`
    bytes, `pitch` bytes apart; what is outside of it is 0.
    """

    operands = "base width rows pitch column row"
    attrs = {"side": REQUIRED, "layout": REQUIRED, "type": REQUIRED}

    def infer(op: Op) -> list[Type]:
        return [op.attrs["type"]]


@op("async_commit", traits="scheduled", effects="io")
class AsyncCommit:
    """Close the group of all copies begun since the last commit."""

    def infer(op: Op) -> list[Type]:
        return []


@op("async_wait", traits="scheduled", effects="io")
class AsyncWait:
    """Wait until at most `pending` groups of this thread's copies are under way."""

    attrs = {"pending": 0}

    def infer(op: Op) -> list[Type]:
        return []


@op("barrier", traits="scheduled", effects="io")
class Barrier:
    """Wait for all threads of the program."""

    def infer(op: Op) -> list[Type]:
        return []


@op("shared_put", traits="scheduled", effects="io")
class SharedPut:
    """Put a tile into a buffer, for all threads to read once the op is over."""

    operands = "x"
    attrs = {"buffer": REQUIRED}

    def infer(op: Op) -> list[Type]:
        return []


@op("shared_load", traits="pure scheduled")
class SharedLoad:
    """The tile in one copy of a buffer. It has to be there, and to stay while it is used."""

    operands = "slot"
    attrs = {"buffer": REQUIRED}

    def infer(op: Op) -> list[Type]:
        buffer = op.attrs["buffer"]
        return [Tile(buffer.shape, buffer.elem)]


@op("shared_dot", traits="scheduled")
class SharedDot:
    """acc + a @ b by a matrix unit that reads shared memory. Each factor is a tile, or what is in
    the copy `*_slot` of `*_buffer`. With `asynchronous` the product may still be under way after
    the op: only another such product or `dot_wait` may use it.
    """

    operands = "acc a? b? a_slot? b_slot?"
    attrs = {"unit": REQUIRED, "a_buffer": None, "b_buffer": None, "asynchronous": False}

    def infer(op: Op) -> list[Type]:
        return [op.operands[0].type]


@op("dot_wait", traits="pure scheduled")
class DotWait:
    """The accumulator when all products are done but the last `pending`. `of` is the result of one
    that the same unit makes; without it, the accumulator is.
    """

    operands = "acc of?"
    attrs = {"pending": 0}

    def infer(op: Op) -> list[Type]:
        return [op.operands[0].type]


@op("bulk_begin", traits="scheduled", effects="io")
class BulkBegin:
    """Wait for all threads, unless `waits` is False: what is copied from here on may be written
    over what they read. Gives the parities of the `arrivals`, a bit for each.
    """

    attrs = {"arrivals": REQUIRED, "waits": True}

    def infer(op: Op) -> list[Type]:
        return [i32]


@op("bulk_copy", traits="scheduled", effects="read")
class BulkCopy:
    """Where `runs` holds, begin to copy a block of each tensor to the copy `slot` of its buffer.
    `loads` are (map, buffer); `offsets` has those of all blocks, one after the other.
    """

    operands = "slot runs base* offsets*"
    attrs = {"arrivals": REQUIRED, "loads": REQUIRED}

    def infer(op: Op) -> list[Type]:
        return []


@op("bulk_wait", traits="scheduled", effects="io")
class BulkWait:
    """Wait for what was copied to the copy `slot`. Gives the parities for the next wait."""

    operands = "slot parities"
    attrs = {"arrivals": REQUIRED}

    def infer(op: Op) -> list[Type]:
        return [i32]


@op("bulk_end", traits="scheduled", effects="io")
class BulkEnd:
    """Keep the parities for the next `bulk_begin`; all copies have been waited for."""

    operands = "parities"
    attrs = {"arrivals": REQUIRED}

    def infer(op: Op) -> list[Type]:
        return []


@op("bulk_store", traits="scheduled", effects="write")
class BulkStore:
    """Put a tile into a buffer, and begin to copy that to a block of a tensor. Before, wait until
    earlier stores are "read" (their buffers may be written) or "done" (their memory may be).
    """

    operands = "base x offsets*"
    attrs = {"map": REQUIRED, "buffer": REQUIRED, "before": ""}

    def infer(op: Op) -> list[Type]:
        return []
