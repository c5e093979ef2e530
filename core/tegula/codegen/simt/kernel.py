"""Writes one kernel: every tile value is a list of LLVM scalars, one for each register.

The kernel is self-contained, its layouts are chosen and its conversions explicit; see `assign`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tegula.analysis.axisinfo import AxisInfos
from tegula.codegen.loops.lanes import Lanes, Position
from tegula.codegen.loops.text import Val, Writer
from tegula.codegen.simt import bulk, chains
from tegula.codegen.simt.elementwise import (
    RULES,
    constant,
    from_memory,
    memory_type,
    register_type,
    to_memory,
)
from tegula.codegen.simt.hooks import (
    ERROR_PARAMETER,
    GLOBAL,
    SHARED,
    SHARED_SYMBOL,
    Simt,
    packed,
)
from tegula.codegen.simt.layout import Layout, axis_fields, log2
from tegula.codegen.simt.masks import repeated
from tegula.codegen.simt.registry import LOWERINGS, Context, shared_size
from tegula.codegen.simt.rounding import coarse_values, estimated_values
from tegula.codegen.simt.scratch import Plan
from tegula.codegen.simt.transfer import Waiting
from tegula.codegen.simt.whole import CAREFUL
from tegula.ir.core import Block, Function, Op, Value
from tegula.ir.types import Pointer, ScalarType, elem_of, shape_of


class Emitter:
    """State of one lowering, shared by the modules that know the ops."""

    def __init__(self, function: Function, ctx: Context, plan: Plan, debug: bool) -> None:
        self.function = function
        self.ctx = ctx
        self.layouts = ctx.layouts
        self.simt: Simt = ctx.simt
        self.warps = ctx.warps
        self.plan = plan
        self.debug = debug
        self.w = Writer()
        self.l = Lanes(self.w, 1, Position(None, 0, 1, 1))
        self.rules = {**RULES, **self.simt.rules}
        self.env: dict[Value, Val] = {}
        self.tiles: dict[Value, list[Val]] = {}
        self.waiting: dict[Value, Waiting | chains.Link] = {}
        """Tiles that their only user reads from shared memory; see `Plan.later`."""
        self.bulk = plan.bulk
        self.asserts: list[str] = []
        self.axes: AxisInfos
        self.origins: Mapping[Value, Value] = {}
        self.hidden: Val | None = None
        """The number of the lane where compilers may not see which are neighbours; see `whole`."""
        if function.attrs.get(CAREFUL):
            self.hidden = self.simt.hidden_lane(self.w)
        self._memo: dict[Any, Val] = {}

    def origin(self, v: Value) -> Value:
        """The value before layouts were assigned, which `axes` knows."""
        return self.origins.get(v, v)

    @cached_property
    def coarse(self) -> frozenset[Value]:
        """What nobody sees but rounded to 16 bits."""
        return coarse_values(self.function)

    @cached_property
    def estimated(self) -> frozenset[Value]:
        """What has errors of its own."""
        return estimated_values(self.function)

    def run(self) -> str:
        """The text of the kernel's body."""
        for number, arg in enumerate(self.function.body.args):
            name = f"%a{number}"
            e = elem_of(arg.type)
            if isinstance(e, Pointer):
                self.env[arg] = Val(name, GLOBAL, self.w.root)
            else:
                raw = Val(name, memory_type(e), self.w.root)
                self.env[arg] = from_memory(self.w, raw, e)
        self.simt.begin(self.w)
        bulk.begin(self)
        self.block(self.function.body)
        bulk.end(self)
        self.w.scope.block.term = "ret void"
        return self.w.body()

    def params(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The kernel's parameters: LLVM type, name, facts."""
        out = []
        attrs = self.function.arg_attrs
        for number, arg in enumerate(self.function.body.args):
            e = elem_of(arg.type)
            ty = GLOBAL if isinstance(e, Pointer) else memory_type(e)
            out.append((ty, f"%a{number}", attrs[number]))
        if self.simt.bulk_copies is not None:
            out += [(self.simt.bulk_copies.parameter, name, {}) for name in self.bulk.maps.values()]
        if self.asserts:
            out.append((GLOBAL, ERROR_PARAMETER, {}))
        return out

    # -- walking

    def block(self, block: Block) -> list[Value]:
        """Emit all ops of a block; gives the operands of its terminator."""
        n = 0
        while n < len(block.ops):
            op = block.ops[n]
            if op.has("terminator"):
                return list(op.operands)
            if op in self.plan.barriers:
                self.barrier()
            if self.simt.by_register and (run := chains.run_from(self, block.ops, n))[1]:
                before, chained, n = run
                for op in before:
                    self.op(op)
                chains.emit(self, chained)
                continue
            self.op(op)
            n += 1
        return []

    def op(self, op: Op) -> None:
        special = self.simt.tile_rules.get(op.name)
        if special is not None and special(self, op):
            return
        found = LOWERINGS.get(op.name)
        if found is not None:
            found.emit(self, op)
        else:
            self.elementwise(op)

    def elementwise(self, op: Op) -> None:
        """Emit an op by its rule, register by register."""
        rule = self.rules[op.name]
        if not shape_of(op.results[0].type):
            self.env[op.results[0]] = rule(self.l, op, *(self.scalar(v) for v in op.operands))
            return
        columns = [self.regs(v) for v in op.operands]
        again = repeated(self, op) if op.name == "cmp" else 0
        made: list[Val] = []
        for r, xs in enumerate(zip(*columns)):
            made.append(made[r & ~again] if r & again else rule(self.l, op, *xs))
        self.tiles[op.results[0]] = made

    def apply(self, region: Block, args: Sequence[Val]) -> list[Val]:
        """Emit a region of scalars inline, with values for its arguments."""
        for a, x in zip(region.args, args):
            self.env[a] = x
        return [self.scalar(v) for v in self.block(region)]

    # -- values

    def scalar(self, v: Value) -> Val:
        return self.env[v]

    def regs(self, v: Value) -> list[Val]:
        """The registers of a tile; a scalar counts as one."""
        if v in self.waiting:
            tile = self.waiting.pop(v)
            self.tiles[v] = [tile[r] for r in range(len(tile))]
        return self.tiles[v] if shape_of(v.type) else [self.env[v]]

    def some(self, v: Value, numbers: Sequence[int]) -> list[Val]:
        """The named registers of a tile; those of one that waits in memory are read here."""
        source = self.waiting.get(v) or self.regs(v)
        return [source[n] for n in numbers]

    def set(self, v: Value, regs: Sequence[Val]) -> None:
        """Bind a result to its registers."""
        if shape_of(v.type):
            assert len(regs) == self.layouts[v].registers, (v, len(regs), self.layouts[v])
            self.tiles[v] = list(regs)
        else:
            (self.env[v],) = regs

    def layout(self, v: Value) -> Layout:
        """The layout of a tile; a scalar is held by every thread."""
        if not shape_of(v.type):
            return self.scalar_layout
        return self.layouts[v]

    @property
    def scalar_layout(self) -> Layout:
        return Layout((), (), (0,) * log2(self.simt.warp_size), (0,) * log2(self.warps))

    def constant(self, value: Any, e: ScalarType) -> Val:
        return constant(self.w, value, e)

    def i32(self, value: int) -> Val:
        return self.w.const(value, "i32")

    # -- threads and coordinates

    @property
    def thread(self) -> Val:
        """Number of the thread in the program."""
        found = self._memo.get("thread")
        if found is None:
            found = self._memo["thread"] = self.simt.thread_id(self.w)
        return found

    @property
    def lane(self) -> Val:
        if self.hidden is not None:
            return self.hidden
        found = self.simt.lane_id(self.w)
        return self.bits(self.thread, 0, log2(self.simt.warp_size)) if found is None else found

    @property
    def warp(self) -> Val:
        if self.warps == 1:
            return self.i32(0)
        found = self.simt.warp_id(self.w)
        if found is not None:
            return found
        low = log2(self.simt.warp_size)
        return self.w.pure("i32", "lshr i32 {}, {}", self.thread, self.i32(low))

    def bits(self, x: Val, low: int, count: int) -> Val:
        """`count` bits of a number from bit `low` on."""
        w = self.w
        if low:
            x = w.pure("i32", "lshr i32 {}, {}", x, self.i32(low))
        return w.pure("i32", "and i32 {}, {}", x, self.i32((1 << count) - 1))

    def mine(self, bases: Sequence[int]) -> Val:
        """The image of this thread's number under bases for its bits, i32."""
        if self.simt.lane_id(self.w) is None:
            return self.linear(self.thread, bases)
        low = log2(self.simt.warp_size)
        terms = self._terms(self.lane, bases[:low], whole=True)
        return self._sum([*terms, *self._terms(self.warp, bases[low:], whole=True)])

    def linear(self, x: Val, bases: Sequence[int]) -> Val:
        """The image of the number `x` under bases for its bits, i32."""
        return self._sum(self._terms(x, bases))

    def _sum(self, terms: Iterable[tuple[Val, int]]) -> Val:
        """Values added without carry, each with the bits that it may set."""
        w = self.w
        total: Val | None = None
        seen = 0
        for term, mask in terms:
            if total is None:
                total = term
            elif mask & seen:
                total = w.pure("i32", "xor i32 {}, {}", total, term)
            else:
                total = w.pure("i32", f"{self.simt.join_bits} i32 {{}}, {{}}", total, term)
            seen |= mask
        return total if total is not None else self.i32(0)

    def _terms(self, x: Val, bases: Sequence[int], whole: bool = False) -> list[tuple[Val, int]]:
        """Values to add up, with the bits that each may set: one for each run of neighbouring bits
        that move together. `whole`: x has no other bits than those with a basis."""
        w, out, i = self.w, [], 0
        while i < len(bases):
            basis = bases[i]
            if basis == 0:
                i += 1
                continue
            j = i + 1
            if basis & (basis - 1) == 0:
                while j < len(bases) and bases[j] == basis << (j - i):
                    j += 1
                picked, shift = x, log2(basis) - i
                if self.simt.by_register and not (whole and i == 0 and j == len(bases)):
                    # By shifts: one compiler takes x & 3 for x where a loop's value is added.
                    picked = w.pure("i32", "shl i32 {}, {}", x, self.i32(32 - j))
                    picked = w.pure("i32", "lshr i32 {}, {}", picked, self.i32(32 - j + i))
                    shift = log2(basis)
                elif not (whole and i == 0 and j == len(bases)):
                    mask = ((1 << j - i) - 1) << i
                    picked = w.pure("i32", "and i32 {}, {}", x, self.i32(mask))
                if shift:
                    verb = "shl" if shift > 0 else "lshr"
                    picked = w.pure("i32", f"{verb} i32 {{}}, {{}}", picked, self.i32(abs(shift)))
                out.append((picked, ((1 << j - i) - 1) << log2(basis)))
            else:
                bit = self.bits(x, i, 1)
                out.append((w.pure("i32", "mul i32 {}, {}", bit, self.i32(basis)), basis))
            i = j
        return out

    def indices(self, layout: Layout) -> list[Val]:
        """The element's index in the tile for each register, i32."""
        base = self.mine(layout.threads)
        return self._offset(base, _union(layout.threads), layout.offsets)

    def coordinates(self, layout: Layout, axis: int) -> list[Val]:
        """The element's coordinate along an axis for each register, i32."""
        shift, bits = axis_fields(layout.shape)[axis]
        mask = (1 << bits) - 1
        threads = [b >> shift & mask for b in layout.threads]
        base = self.mine(threads)
        return self._offset(base, _union(threads), [o >> shift & mask for o in layout.offsets])

    def _offset(self, base: Val, used: int, offsets: Sequence[int]) -> list[Val]:
        w, out = self.w, []
        for o in offsets:
            if o == 0:
                out.append(base)
            elif base.const == 0:
                out.append(self.i32(o))
            elif o & used:
                out.append(w.pure("i32", "xor i32 {}, {}", base, self.i32(o)))
            else:
                out.append(w.pure("i32", "add nuw nsw i32 {}, {}", base, self.i32(o)))
        return out

    def owner(self, layout: Layout) -> Val | None:
        """Whether this thread is the one of those with the same elements that stands for all; None
        where no two threads hold the same."""
        if not layout.free:
            return None
        w = self.w
        picked = w.pure("i32", "and i32 {}, {}", self.thread, self.i32(layout.free))
        return w.icmp("eq", picked, self.i32(0))

    def both(self, a: Val | None, b: Val | None) -> Val | None:
        """The conjunction of two conditions, None being true."""
        if a is None or b is None:
            return b if a is None else a
        if a.const is not None or b.const is not None:
            known, rest = (a, b) if a.const is not None else (b, a)
            return rest if known.const else known
        return self.w.pure("i1", "and i1 {}, {}", a, b)

    # -- moving between threads

    def barrier(self) -> None:
        self.simt.barrier(self.w)

    def shuffle(self, x: Val, mode: str, by: Val) -> Val:
        """A value of any type from another lane of the warp."""
        w = self.w
        bits = bits_of(x.ty)
        raw = self.raw(x)
        if bits <= 32:
            word = w.resize(raw, "i32", False)
            word = self.simt.shuffle(w, word, mode, by)
            if bits == 1:  # not all of LLVM's targets truncate to booleans rightly
                return w.icmp("ne", word, self.i32(0))
            return self.cooked(w.resize(word, f"i{bits}", False), x.ty)
        low = w.pure("i32", "trunc i64 {} to i32", raw)
        high = w.pure("i32", "trunc i64 {} to i32",
                      w.pure("i64", "lshr i64 {}, {}", raw, w.const(32, "i64")))
        low, high = (self.simt.shuffle(w, part, mode, by) for part in (low, high))
        wide = w.pure("i64", "shl i64 {}, {}", w.resize(high, "i64", False), w.const(32, "i64"))
        return self.cooked(w.pure("i64", "or disjoint i64 {}, {}", wide,
                                  w.resize(low, "i64", False)), x.ty)

    def raw(self, x: Val) -> Val:
        """A value's bits as an integer."""
        if x.ty.startswith("i"):
            return x
        ty = f"i{bits_of(x.ty)}"
        verb = "ptrtoint" if x.ty.startswith("ptr") else "bitcast"
        return self.w.pure(ty, f"{verb} {x.ty} {{}} to {ty}", x)

    def cooked(self, x: Val, ty: str) -> Val:
        """An integer's bits as a value of another type."""
        if ty.startswith("i"):
            return x
        verb = "inttoptr" if ty.startswith("ptr") else "bitcast"
        return self.w.pure(ty, f"{verb} {x.ty} {{}} to {ty}", x)

    # -- shared memory

    def shared(self, nbytes: int) -> Val:
        """A place in the program's shared memory, given in bytes from its start."""
        base = self.w.literal(SHARED_SYMBOL, SHARED)
        if nbytes == 0:
            return base
        return self.w.pure(SHARED, f"getelementptr i8, {SHARED} {{}}, i32 {{}}", base,
                           self.i32(nbytes))

    @property
    def shared_base(self) -> Val:
        """The i32 address at which the program's shared memory begins."""
        base = self.w.literal(SHARED_SYMBOL, SHARED)
        return self.w.pure("i32", f"ptrtoint {SHARED} {{}} to i32", base)

    def scratch(self, op: Op) -> int:
        """Where the op's scratch begins, in bytes from the start of shared memory."""
        return self.plan.scratch[op]

    def shared_at(self, place: int, nbytes: Val) -> Val:
        """A place at a distance of `nbytes` (i32) from a constant one."""
        if nbytes.const is not None:
            return self.shared(place + int(nbytes.const))
        return self.w.pure(SHARED, f"getelementptr i8, {SHARED} {{}}, i32 {{}}",
                           self.shared(place), nbytes)

    def put(self, ptr: Val, values: Sequence[Val], e: ScalarType) -> None:
        """Store neighbouring elements to shared memory; they are aligned as a whole."""
        raws = [to_memory(self.w, x, e) for x in values]
        x = packed(self.w, raws)
        size = shared_size(e) * len(values)
        self.w.do(f"store {x.ty} {x.text}, {SHARED} {ptr.text}, align {size}")

    def get(self, ptr: Val, count: int, e: ScalarType) -> list[Val]:
        """Load neighbouring elements from shared memory."""
        w, ty = self.w, memory_type(e)
        size = shared_size(e) * count
        if count == 1:
            xs = [w.here(ty, f"load {ty}, {SHARED} {ptr.text}, align {size}")]
        else:
            vec = f"<{count} x {ty}>"
            v = w.here(vec, f"load {vec}, {SHARED} {ptr.text}, align {size}")
            xs = [w.pure(ty, f"extractelement {vec} {{}}, i32 {i}", v) for i in range(count)]
        return [from_memory(w, x, e) for x in xs]


def bits_of(ty: str) -> int:
    """Width of an LLVM scalar type."""
    if ty.startswith("ptr"):
        return 64
    return {"half": 16, "float": 32, "double": 64}.get(ty) or int(ty[1:])


def _union(bases: Sequence[int]) -> int:
    out = 0
    for b in bases:
        out |= b
    return out


__all__ = ["Emitter", "bits_of", "register_type"]
