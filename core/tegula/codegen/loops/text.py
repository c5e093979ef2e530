"""Writes one LLVM function as text.

Pure instructions are placed by themselves: an instruction goes to the innermost scope (loop body
or branch) that any of its operands belongs to, and is written once per scope.  So what does not
vary in a loop is never inside it, and no optimiser has to find that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.codegen.loops.vector import VectorTarget


class Block:
    """A basic block: phis and instructions, and how it ends."""

    __slots__ = ("label", "lines", "phis", "term")

    def __init__(self, label: str) -> None:
        self.label = label
        self.phis: list[str] = []
        self.lines: list[str] = []
        self.term = "unreachable"


class Scope:
    """A region of the function that is entered and left as a whole.

    `block` is where its next instruction goes; `memo` holds what was computed in it.
    """

    __slots__ = ("block", "depth", "memo", "parent")

    def __init__(self, parent: Scope | None, block: Block) -> None:
        self.parent = parent
        self.depth = parent.depth + 1 if parent else 0
        self.block = block
        self.memo: dict[Any, Any] = {}


class Val:
    """An SSA value or constant: its text, its LLVM type, the scope it lives in."""

    __slots__ = ("const", "scope", "text", "ty")

    def __init__(self, text: str, ty: str, scope: Scope, const: int | float | None = None) -> None:
        self.text = text
        self.ty = ty
        self.scope = scope
        self.const = const

    def __repr__(self) -> str:
        return f"{self.ty} {self.text}"


class Loop:
    """A loop under construction; see `Writer.begin_loop`."""

    __slots__ = ("carried", "guarded", "head", "hi", "inits", "iv", "outer", "pre", "scope", "step")

    pre: Block
    head: Block
    scope: Scope
    outer: Scope
    iv: Val
    hi: Val
    step: Val
    inits: list[Val]
    carried: list[Val]
    guarded: bool


class Branch:
    """An `if` under construction; see `Writer.begin_if`."""

    __slots__ = ("ends", "outer", "pre", "then")

    outer: Scope
    pre: Block
    then: Block
    ends: list[Block]


def int_type(bits: int) -> str:
    return f"i{bits}"


class Writer:
    """Builds the body of one function.  `scope` is where instructions with effects go."""

    def __init__(self, target: VectorTarget | None = None) -> None:
        self.target = target or VectorTarget()
        self.counter = 0
        self.blocks: list[Block] = []
        self.declares: dict[str, str] = {}
        self.root = Scope(None, self.new_block("entry"))
        self.scope = self.root
        self.constants: dict[Any, Val] = {}
        self.advanced: dict[str, tuple[Val, str, Val]] = {}
        """For pointers that were advanced: from where, over which elements, by how many."""
        self.prefixes: dict[str, int] = {}
        """Constant masks by their text, with the number of lanes (the first ones) that are set."""

    # -- blocks and names

    def new_block(self, stem: str) -> Block:
        block = Block(f"{stem}{len(self.blocks)}" if self.blocks else stem)
        self.blocks.append(block)
        return block

    def name(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def body(self) -> str:
        """The text of all blocks."""
        out = []
        for block in self.blocks:
            out.append(block.label + ":")
            out += block.phis
            out += block.lines
            out.append("  " + block.term)
        return "\n".join(out)

    def declare(self, name: str, signature: str) -> None:
        """Declare a function used by the body; `signature` is `ret (args)`."""
        if name not in self.declares:
            ret, _, args = signature.partition(" (")
            self.declares[name] = f"declare {ret} @{name}({args}"

    # -- instructions

    def local(self, ty: str, align: int) -> str:
        """Memory of the function's own for a value of a type: its address."""
        name = self.name()
        self.blocks[0].lines.insert(0, f"  {name} = alloca {ty}, align {align}")
        return name

    def const(self, value: int | float, ty: str) -> Val:
        """An integer constant (floats are written by their bits by the caller)."""
        key = (value, ty)
        found = self.constants.get(key)
        if found is None:
            text = ("true" if value else "false") if ty == "i1" else str(value)
            found = self.constants[key] = Val(text, ty, self.root, value)
        return found

    def literal(self, text: str, ty: str, const: Any = None) -> Val:
        """A constant written as it stands."""
        return Val(text, ty, self.root, const)

    def pure(self, ty: str, form: str, *args: Val) -> Val:
        """An instruction without effects; `form` has one `{}` per operand."""
        scope = self.root
        for a in args:
            if a.scope.depth > scope.depth:
                scope = a.scope
        text = form.format(*[a.text for a in args])
        found = scope.memo.get(text)
        if found is None:
            name = self.name()
            scope.block.lines.append(f"  {name} = {text}")
            found = scope.memo[text] = Val(name, ty, scope)
        return found

    def here(self, ty: str, text: str, scope: Scope | None = None) -> Val:
        """An instruction that stays where it is put: in `scope`, by default the current one."""
        scope = scope or self.scope
        name = self.name()
        scope.block.lines.append(f"  {name} = {text}")
        return Val(name, ty, scope)

    def do(self, text: str) -> None:
        """An instruction without result, at the current place."""
        self.scope.block.lines.append("  " + text)

    def call(self, name: str, ty: str, *args: Val) -> Val:
        """A call of an intrinsic without effects."""
        self.declare(name, f"{ty} ({', '.join(a.ty for a in args)})")
        return self.pure(ty, f"call {ty} @{name}({', '.join(a.ty + ' {}' for a in args)})", *args)

    # -- integers, folded where constant

    def add(self, a: Val, b: Val) -> Val:
        if b.const == 0:
            return a
        if a.const == 0:
            return b
        if a.const is not None and b.const is not None:
            return self.const(wrap(a.const + b.const, a.ty), a.ty)
        return self.pure(a.ty, f"add {a.ty} {{}}, {{}}", a, b)

    def sub(self, a: Val, b: Val) -> Val:
        if b.const == 0:
            return a
        if a.const is not None and b.const is not None:
            return self.const(wrap(a.const - b.const, a.ty), a.ty)
        return self.pure(a.ty, f"sub {a.ty} {{}}, {{}}", a, b)

    def mul(self, a: Val, b: Val) -> Val:
        if a.const is not None:
            a, b = b, a
        if b.const == 1:
            return a
        if b.const == 0:
            return b
        if a.const is not None and b.const is not None:
            return self.const(wrap(a.const * b.const, a.ty), a.ty)
        return self.pure(a.ty, f"mul {a.ty} {{}}, {{}}", a, b)

    def icmp(self, pred: str, a: Val, b: Val) -> Val:
        return self.pure("i1", f"icmp {pred} {a.ty} {{}}, {{}}", a, b)

    def both(self, a: Val, b: Val) -> Val:
        """Conjunction of two conditions."""
        if a.const is not None:
            return b if a.const else a
        if b.const is not None:
            return a if b.const else b
        return self.pure("i1", "and i1 {}, {}", a, b)

    def select(self, c: Val, a: Val, b: Val) -> Val:
        if c.const is not None:
            return a if c.const else b
        if a.text == b.text:
            return a
        return self.pure(a.ty, f"select {c.ty} {{}}, {a.ty} {{}}, {a.ty} {{}}", c, a, b)

    def resize(self, x: Val, ty: str, signed: bool) -> Val:
        """An integer in another width."""
        if x.ty == ty:
            return x
        if x.const is not None:
            value = int(x.const)
            if not signed:
                value &= (1 << int(x.ty[1:])) - 1
            return self.const(wrap(value, ty), ty)
        wider = int(ty[1:]) > int(x.ty[1:])
        verb = ("sext" if signed else "zext") if wider else "trunc"
        return self.pure(ty, f"{verb} {x.ty} {{}} to {ty}", x)

    def gep(self, elem: str, base: Val, index: Val) -> Val:
        """`base` advanced by `index` elements."""
        if index.const == 0:
            return base
        return self.pure("ptr", f"getelementptr {elem}, ptr {{}}, {index.ty} {{}}", base, index)

    def clamp(self, x: Val, lo: int, hi: int) -> Val:
        """A signed i64 limited to lo..hi."""
        if x.const is not None:
            return self.const(min(max(int(x.const), lo), hi), x.ty)
        low = self.call("llvm.smax.i64", "i64", x, self.const(lo, "i64"))
        return self.call("llvm.smin.i64", "i64", low, self.const(hi, "i64"))

    def trips(self, lo: Val, hi: Val, step: Val) -> Val:
        """How often a loop runs whose step is not known to be positive; all are i64."""
        zero, one = self.const(0, "i64"), self.const(1, "i64")
        up = self.icmp("sgt", step, zero)
        size = self.call("llvm.smax.i64", "i64", step, self.sub(zero, step))
        span = self.select(up, self.sub(hi, lo), self.sub(lo, hi))
        span = self.call("llvm.smax.i64", "i64", span, zero)
        safe = self.call("llvm.umax.i64", "i64", size, one)
        count = self.pure("i64", "udiv i64 {}, {}", self.add(span, self.sub(safe, one)), safe)
        return self.select(self.icmp("eq", step, zero), zero, count)

    # -- structure

    def enter(self, stem: str) -> Scope:
        """Open a scope that just runs once, so that what is remembered in it ends with it."""
        outer = self.scope
        block = self.new_block(stem)
        outer.block.term = f"br label %{block.label}"
        self.scope = Scope(outer, block)
        return outer

    def leave(self, outer: Scope, stem: str = "after") -> None:
        """Close a scope opened by `enter`."""
        block = self.new_block(stem)
        self.scope.block.term = f"br label %{block.label}"
        outer.block = block
        self.scope = outer

    def begin_loop(
        self,
        lo: Val,
        hi: Val,
        step: Val,
        inits: Sequence[Val] = (),
        guard: bool = True,
        stem: str = "loop",
    ) -> Loop:
        """Open ``for iv in lo..hi by step`` (signed, step > 0) that carries values.

        Without `guard` the body runs at least once.
        """
        loop = Loop()
        loop.outer, loop.pre = self.scope, self.scope.block
        loop.head = self.new_block(stem)
        loop.scope = Scope(self.scope, loop.head)
        loop.iv = Val(self.name(), lo.ty, loop.scope)
        loop.carried = [Val(self.name(), v.ty, loop.scope) for v in inits]
        loop.inits, loop.guarded = list(inits), guard
        loop.hi, loop.step = hi, step
        loop.head.phis = [lo.text]  # completed by end_loop
        if guard:
            loop.pre.term = self.icmp("slt", lo, hi).text  # completed by end_loop
        self.scope = loop.scope
        return loop

    def end_loop(self, loop: Loop, nexts: Sequence[Val] = (), stem: str = "done") -> list[Val]:
        """Close the loop; returns the carried values as they are after it."""
        latch, (lo,) = self.scope.block, loop.head.phis
        ty = loop.iv.ty
        after = self.here(ty, f"add nsw {ty} {loop.iv.text}, {loop.step.text}")
        again = self.here("i1", f"icmp slt {ty} {after.text}, {loop.hi.text}")
        end = self.new_block(stem)
        latch.term = f"br i1 {again.text}, label %{loop.head.label}, label %{end.label}"
        head = f"label %{loop.head.label}"
        if loop.guarded:
            loop.pre.term = f"br i1 {loop.pre.term}, {head}, label %{end.label}"
        else:
            loop.pre.term = f"br {head}"
        pre, back = loop.pre.label, latch.label
        loop.head.phis = [
            f"  {p.text} = phi {p.ty} [ {first}, %{pre} ], [ {n}, %{back} ]"
            for p, first, n in [
                (loop.iv, lo, after.text),
                *((c, i.text, n.text) for c, i, n in zip(loop.carried, loop.inits, nexts)),
            ]
        ]
        loop.outer.block = end
        self.scope = loop.outer
        out = []
        for init, n in zip(loop.inits, nexts):
            if loop.guarded:
                out.append(self._phi(end, n.ty, [(init, loop.pre), (n, latch)]))
            else:
                out.append(Val(n.text, n.ty, self.scope, n.const))
        return out

    def _phi(self, block: Block, ty: str, incoming: Sequence[tuple[Val, Block]]) -> Val:
        name = self.name()
        parts = ", ".join(f"[ {v.text}, %{b.label} ]" for v, b in incoming)
        block.phis.append(f"  {name} = phi {ty} {parts}")
        return Val(name, ty, self.scope)

    def begin_if(self, cond: Val, stem: str = "then") -> Branch:
        """Open the first arm of a branch."""
        b = Branch()
        b.outer, b.pre, b.ends = self.scope, self.scope.block, []
        b.then = self.new_block(stem)
        b.pre.term = cond.text  # completed by end_if
        self.scope = Scope(b.outer, b.then)
        return b

    def begin_else(self, b: Branch, stem: str = "else") -> None:
        """Close the first arm and open the second."""
        b.ends.append(self.scope.block)
        block = self.new_block(stem)
        b.pre.term = f"br i1 {b.pre.term}, label %{b.then.label}, label %{block.label}"
        self.scope = Scope(b.outer, block)

    def end_if(
        self, b: Branch, then: Sequence[Val] = (), other: Sequence[Val] = (), stem: str = "join"
    ) -> list[Val]:
        """Close the branch and merge the values of its arms."""
        join = self.new_block(stem)
        if not b.ends:  # no else arm
            b.ends.append(self.scope.block)
            b.pre.term = f"br i1 {b.pre.term}, label %{b.then.label}, label %{join.label}"
            ends = [b.ends[0], b.pre]
            b.ends[0].term = f"br label %{join.label}"
        else:
            ends = [b.ends[0], self.scope.block]
            for end in ends:
                end.term = f"br label %{join.label}"
        b.outer.block = join
        self.scope = b.outer
        return [
            self._phi(join, x.ty, [(x, ends[0]), (y, ends[1])]) for x, y in zip(then, other)
        ]


def wrap(value: int | float, ty: str) -> int:
    """An integer reduced to the signed range of `iN` (i1 stays 0 or 1)."""
    bits = int(ty[1:])
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if bits > 1 and low >> (bits - 1) else low
