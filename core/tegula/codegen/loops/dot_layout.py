"""How the operands of a matrix micro-kernel lie in memory, and which instruction multiplies them.

`choose_scheme` and `choose_blocking` decide; the layouts tell the caller where each element of A, B
and C belongs.  The functions themselves are written by `dot`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tegula.codegen.loops.vector import VectorTarget

_FLOATS = {"f16", "bf16", "f32", "f64", "f8e5", "f8e5b16", "f8e4nv", "f8e4b8", "f8e4b15"}
_EXACT_IN_BF16 = {"bf16", "f8e5", "f8e5b16", "f8e4nv", "f8e4b8", "f8e4b15"}
BITS = {"f64": 64, "f32": 32, "bf16": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "u8": 8}
LLVM = {
    "f64": "double",
    "f32": "float",
    "bf16": "bfloat",
    "i64": "i64",
    "i32": "i32",
    "i16": "i16",
    "i8": "i8",
    "u8": "i8",
}


def round_up(value: int, step: int) -> int:
    """The least multiple of `step` that is not below `value`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class RowLayout:
    """Where element ``(m, k)`` of A lies: at ``m * ld + k``.

    Elements are stored as `elem`, after adding `bias` to each (wrapping).  The elements with ``k``
    from K to `k_padded` must be zero.  With `table` the buffer holds the 64-bit address of every
    row's first element instead, and rows lie where they are.
    """

    rows: int
    elem: str
    ld: int
    group: int
    k_padded: int
    bias: int = 0
    table: bool = False

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        if self.table:
            return self.rows * 8
        return self.rows * self.ld * BITS[self.elem] // 8

    def index(self, m: int, k: int) -> int:
        """Position of element ``(m, k)``, in elements."""
        return m * self.ld + k


@dataclass(frozen=True)
class PanelLayout:
    """Where element ``(k, n)`` of B lies: in panels of `nr` columns, `group` values of K together.

    Elements with ``n >= N`` may hold anything; those with ``k`` from K to `k_padded` must be zero.
    With `row_major` the matrix is plain rows, `ld` elements apart, each readable up to N rounded
    up to a whole vector.
    """

    elem: str
    nr: int
    group: int
    panels: int
    k_padded: int
    row_major: bool = False
    ld: int = 0

    @property
    def panel_stride(self) -> int:
        """Distance of two panels, in elements."""
        return self.nr if self.row_major else self.k_padded * self.nr

    @property
    def step_stride(self) -> int:
        """Distance of two groups of K inside a panel, in elements."""
        return self.ld if self.row_major else self.nr * self.group

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        count = self.k_padded * (self.ld if self.row_major else self.panels * self.nr)
        return count * BITS[self.elem] // 8

    def index(self, k: int, n: int) -> int:
        """Position of element ``(k, n)``, in elements."""
        return (
            n // self.nr * self.panel_stride
            + k // self.group * self.step_stride
            + n % self.nr * self.group
            + k % self.group
        )


@dataclass(frozen=True)
class CLayout:
    """Where element ``(m, n)`` of C lies: at ``m * ld + n``.

    Columns from N to `n_padded` hold junk, before and after.
    """

    rows: int
    elem: str
    ld: int
    n_padded: int

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        return self.rows * self.ld * BITS[self.elem] // 8

    def index(self, m: int, n: int) -> int:
        """Position of element ``(m, n)``, in elements."""
        return m * self.ld + n


@dataclass(frozen=True)
class Scheme:
    """The innermost instruction, and the element types that it wants in the buffers."""

    name: str
    a: str
    b: str
    c: str
    group: int = 1
    bias: int = 0


def choose_scheme(a: str, b: str, acc: str, target: VectorTarget) -> Scheme:
    """The best scheme of `target` for operands of dtypes `a` and `b` and accumulators `acc`."""
    if acc in _FLOATS:
        if acc == "f64":
            return Scheme("fma", "f64", "f64", "f64")
        native = target.has("avx512bf16", "avx512vl") or (
            target.arch == "aarch64" and target.has("bf16")
        )
        if native and a in _EXACT_IN_BF16 and b in _EXACT_IN_BF16:
            return Scheme("bf16", "bf16", "bf16", "f32", group=2)
        return Scheme("fma", "f32", "f32", "f32")
    if acc.endswith("64"):
        return Scheme("imul", "i64", "i64", "i64")
    pair = {a, b}
    if target.arch == "aarch64" and target.has("dotprod") and pair in ({"i8"}, {"u8"}):
        return Scheme("i8", a, b, "i32", group=4)
    if target.arch == "x86-64":
        if b == "i8" and a in ("i8", "u8") and target.has("avx512vnni", "avx512vl"):
            return Scheme("i8", "u8", "i8", "i32", group=4, bias=128 if a == "i8" else 0)
        if pair <= {"i8", "u8", "i16", "i1"}:
            return Scheme("i16", "i16", "i16", "i32", group=2)
    return Scheme("imul", "i32", "i32", "i32")


@dataclass(frozen=True)
class Blocking:
    """Accumulators of the micro-kernel: `rows` by `vectors`, each of `lanes` elements."""

    rows: int
    vectors: int
    lanes: int


def choose_blocking(m: int, n: int, scheme: Scheme, target: VectorTarget) -> Blocking:
    """Registers for a tile of `m` by `n`.

    Half of the registers hold accumulators where there are 32: enough to hide the latency of two
    multiply-adds a cycle, and measured no slower than more.  Blocks are wide rather than tall,
    because a vector of B then serves as many loads of A as possible; a tile of few rows takes
    wider blocks still.
    """
    lanes = target.lanes(BITS[scheme.c])
    while lanes * BITS[scheme.c] > 128 and lanes // 2 >= n:
        lanes //= 2
    registers = target.vector_registers
    accumulators, widest = (16, 4) if registers == 32 else (12, 2)
    if scheme.bias:
        accumulators, widest = accumulators * 3 // 2, 2  # tall: one correction a vector, not a row
    fused = scheme.name == "fma" and (target.arch != "x86-64" or target.has("fma"))
    if scheme.name == "imul" or (registers == 16 and not fused):
        accumulators = accumulators * 2 // 3  # the product needs a register of its own
    if m <= accumulators // (2 * widest):
        widest *= 2
    columns = max(1, -(-n // lanes))
    vectors = -(-columns // -(-columns // widest))
    return Blocking(max(1, min(accumulators // vectors, m)), vectors, lanes)


def split_rows(m: int, limit: int) -> list[tuple[int, int, int]]:
    """Split `m` rows into at most two runs of equal blocks: ``(start, height, count)`` each."""
    if m == 0:
        return []
    blocks = -(-m // limit)
    low, tall = m // blocks, m % blocks
    parts = [(0, low + 1, tall), (tall * (low + 1), low, blocks - tall)]
    return [part for part in parts if part[2]]
