"""Reading tile IR text. Faults raise ParseError with line and column, never anything else."""

from __future__ import annotations

import re
from typing import Any

from .builder import make_op
from .core import Block, Function, Module, Op, Value
from .location import Location
from .opdef import SCHEDULED, IRError, OpDef
from .ops import OPS
from .types import DTYPES, Descriptor, DType, Pointer, Tile, Type

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|;[^\n]*)
    |(?P<newline>\n)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<float>-?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|inf\b)|nan\b(?!\s*=)|inf\b)
    |(?P<int>-?\d+)
    |(?P<value>%[\w.$]+)
    |(?P<symbol>@[\w.$<>][\w.$<>,\-]*)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<punct>->|[@{}()\[\]=:,<>])""",
    re.VERBOSE,
)


class ParseError(Exception):
    """Text that is not tile IR; `line` and `column` are 1-based."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line, self.column = line, column


def parse_module(text: str) -> Module:
    """The module that the text describes; every op is checked as it is read. Raises ParseError."""
    return _Parser(text).module()


def parse_type(text: str) -> Type:
    """A type from its text. Raises ParseError."""
    p = _Parser(text)
    t = p.type()
    p.end()
    return t


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int, int]] = []
        self.at = 0
        self.scopes: list[dict[str, Value]] = []
        self.tokenize(text)

    def tokenize(self, text: str) -> None:
        pos, line, start = 0, 1, 0
        while pos < len(text):
            m = _TOKEN.match(text, pos)
            if m is None:
                raise ParseError(f"unexpected character {text[pos]!r}", line, pos - start + 1)
            kind = m.lastgroup or ""
            if kind == "newline":
                line, start = line + 1, m.end()
            elif kind != "space":
                self.tokens.append((kind, m.group(), line, pos - start + 1))
            pos = m.end()
        self.tokens.append(("end", "", line, pos - start + 1))

    # --- tokens

    def fail(self, message: str, at: int | None = None) -> ParseError:
        _, _, line, column = self.tokens[min(self.at if at is None else at, len(self.tokens) - 1)]
        return ParseError(message, line, column)

    def peek(self, text: str) -> bool:
        kind, got, _, _ = self.tokens[self.at]
        return got == text and kind in ("punct", "word")

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fail(f"expected {text!r}, found {self.tokens[self.at][1] or 'the end'!r}")

    def take(self, kind: str, what: str) -> str:
        got, text, _, _ = self.tokens[self.at]
        if got != kind:
            raise self.fail(f"expected {what}, found {text or 'the end'!r}")
        self.at += 1
        return text

    def end(self) -> None:
        if self.tokens[self.at][0] != "end":
            raise self.fail(f"unexpected {self.tokens[self.at][1]!r}")

    def comma_list(self, close: str, item: Any) -> list[Any]:
        """Items between commas up to and including the closing token."""
        out: list[Any] = []
        while not self.accept(close):
            if out:
                self.expect(",")
            out.append(item())
        return out

    # --- types and attributes

    def type(self) -> Type:
        start = self.at
        word = self.take("word", "a type")
        if word == "desc":
            return self.descriptor(start)
        elem: DType | Pointer
        if word == "ptr":
            self.expect("<")
            const = self.accept("const")
            target = self.dtype()
            space = self.take("word", "an address space") if self.accept(",") else "global"
            self.expect(">")
            elem = Pointer(target, space, const)
        elif word in DTYPES:
            elem = DTYPES[word]
        else:
            raise self.fail(f"unknown type {word!r}", start)
        return Tile(self.sizes(), elem) if self.accept("[") else elem

    def descriptor(self, start: int) -> Descriptor:
        self.expect("<")
        t = self.type()
        self.expect(">")
        if not isinstance(t, Tile) or not isinstance(t.elem, DType):
            raise self.fail("a descriptor holds a block such as f32[64,32]", start)
        return Descriptor(t.elem, t.shape)

    def dtype(self) -> DType:
        word = self.take("word", "a dtype")
        if word not in DTYPES:
            raise self.fail(f"unknown dtype {word!r}", self.at - 1)
        return DTYPES[word]

    def sizes(self) -> tuple[int, ...]:
        out = tuple(self.comma_list("]", lambda: int(self.take("int", "a size"))))
        if not out or min(out) < 0:
            raise self.fail("a tile has at least one dimension, none negative", self.at - 1)
        return out

    def attr(self) -> Any:
        kind, text, _, _ = self.tokens[self.at]
        if kind in ("int", "float", "string"):
            self.at += 1
            return (
                int(text) if kind == "int" else float(text) if kind == "float" else _unescape(text)
            )
        if self.accept("["):
            return tuple(self.comma_list("]", self.attr))
        for word, value in (("true", True), ("false", False), ("none", None)):
            if self.accept(word):
                return value
        return self.type()

    def attr_dict(self) -> dict[str, Any]:
        def item() -> tuple[str, Any]:
            key = self.take("word", "an attribute name")
            self.expect("=")
            return key, self.attr()

        return dict(self.comma_list("}", item)) if self.accept("{") else {}

    # --- module, functions, blocks

    def module(self) -> Module:
        attrs = self.attr_dict() if self.accept("module") else {}
        functions = []
        while self.tokens[self.at][0] != "end":
            functions.append(self.function())
            if functions[-1].name in {f.name for f in functions[:-1]}:
                raise self.fail(f"function @{functions[-1].name} is defined twice")
        return Module(functions, attrs)

    def function(self) -> Function:
        kind = self.take("word", "'kernel' or 'func'")
        if kind not in ("kernel", "func"):
            raise self.fail(f"expected 'kernel' or 'func', found {kind!r}", self.at - 1)
        name = self.take("symbol", "a function name such as @add")[1:]
        self.scopes = [{}]
        self.expect("(")
        params = self.comma_list(")", lambda: (self.param(), self.attr_dict()))
        results = []
        if self.accept("->"):
            results.append(self.type())
            while self.accept(","):
                results.append(self.type())
        attrs = self.attr_dict() if self.is_attr_dict() else {}
        self.expect("{")
        body = self.block_ops([p for p, _ in params])
        return Function(name, body, results, kind, [a for _, a in params], attrs)  # type: ignore[arg-type]

    def is_attr_dict(self) -> bool:
        """A brace opens attributes if `word =` follows, and a body otherwise."""
        if not self.peek("{") or self.at + 2 >= len(self.tokens):
            return False
        return self.tokens[self.at + 1][0] == "word" and self.tokens[self.at + 2][1] == "="

    def param(self) -> Value:
        start = self.at
        name = self.take("value", "a parameter such as %x")
        self.expect(":")
        value = Value(self.type(), _label(name))
        self.define(name, value, start)
        return value

    def define(self, name: str, value: Value, at: int) -> None:
        if any(name in s for s in self.scopes):
            raise self.fail(f"{name} is defined twice", at)
        self.scopes[-1][name] = value

    def block_ops(self, args: list[Value]) -> Block:
        block = Block(args)
        while not self.accept("}"):
            block.ops.append(self.op())
        return block

    # --- operations

    def op(self) -> Op:
        start = self.at
        names = []
        while self.tokens[self.at][0] == "value":
            names.append(self.take("value", ""))
            if not self.accept(","):
                break
        if names:
            self.expect("=")
        at_name = self.at
        word = self.take("word", "an operation")
        d = OPS.get(word) or SCHEDULED.get(word)
        if d is None:
            raise self.fail(f"unknown operation {word!r}", at_name)
        operands = self.operands(d)
        attrs = self.attr_dict() if self.is_attr_dict() else {}
        types = []
        if self.accept(":"):
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
        for key, implied in (("type", types[0] if types else None), ("types", tuple(types))):
            if key in d.attrs:
                attrs[key] = implied
        loc = self.location()
        regions = [self.region(name) for name in d.regions]
        try:
            op = make_op(d, operands, attrs, regions, loc)
        except (IRError, AttributeError, TypeError, ValueError, KeyError) as e:
            raise self.fail(f"{word}: {e}", at_name) from None
        if [r.type for r in op.results] != types:
            given, want = (
                ", ".join(map(str, types)) or "nothing",
                ", ".join(str(r.type) for r in op.results),
            )
            raise self.fail(f"{word} gives {want or 'nothing'}, the text says {given}", at_name)
        if len(names) != len(op.results):
            raise self.fail(f"{word} has {len(op.results)} results, {len(names)} are named", start)
        for name, value in zip(names, op.results):
            value.name = _label(name)
            self.define(name, value, start)
        return op

    def operands(self, d: OpDef) -> list[Any]:
        given: dict[str, Any] = {}
        positional = [o for o in d.operands if o.arity == "one"]
        lone = len(d.operands) == 1 and d.operands[0].arity == "variadic"
        while True:
            kind = self.tokens[self.at][0]
            if lone and self.peek("["):
                self.expect("[")
                given[d.operands[0].name] = self.comma_list("]", self.use)
            elif kind == "value" and positional:
                given[positional.pop(0).name] = self.use()
            elif kind == "word" and self.tokens[self.at + 1][1] == "=":
                name = self.take("word", "")
                self.expect("=")
                if name not in d.operand_index or name in given:
                    raise self.fail(f"{d.name} has no further operand {name!r}", self.at - 2)
                given[name] = self.comma_list("]", self.use) if self.accept("[") else self.use()
            elif given or kind == "value":
                raise self.fail(f"unexpected operand of {d.name}")
            else:
                break
            if not self.accept(","):
                break
        return [given.get(o.name) for o in d.operands]

    def use(self) -> Value:
        name = self.take("value", "a value such as %x")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise self.fail(f"{name} is not defined here", self.at - 1)

    def region(self, name: str) -> Block:
        self.expect(name)
        self.scopes.append({})
        args = self.comma_list(")", self.param) if self.accept("(") else []
        self.expect("{")
        block = self.block_ops(args)
        self.scopes.pop()
        return block

    def location(self) -> Location | None:
        if not self.accept("@"):
            return None
        file = _unescape(self.take("string", "a file name"))
        self.expect(":")
        line = int(self.take("int", "a line"))
        self.expect(":")
        column = int(self.take("int", "a column"))
        return Location(file, line, column, self.location())


def _label(name: str) -> str | None:
    """A value's own name; plain numbers are only the printer's count."""
    return None if name[1:].isdigit() else name[1:]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), text[1:-1])
