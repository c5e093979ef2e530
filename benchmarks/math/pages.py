"""The pages docs/math.md and docs/libdevice.md, from the declarations and what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tegula import ir
from tegula.codegen.math.functions import FUNCTIONS
from tegula.codegen.math.library import LibraryFunction, Signature, library
from tegula.codegen.math.measure import operation_counts
from tegula.codegen.math.references import SAME, has_reference, is_exhaustive

DOCS = Path(__file__).parents[2] / "docs"
PASSES = 256

MATH = """# Math functions

Every math function is written once, in tile IR (`core/tegula/codegen/math`), and expanded by the
pass `expand-math`; no library is called. So results are the same on every backend, but for
functions that a backend declares as native. Denormal numbers, infinities, NaN and signed zeros are
handled as IEEE 754 and C have them, over the whole range of arguments: angles of any size, results
that overflow or become denormal.

These are the ops of the language itself; [the device library](libdevice.md) has all others. Errors
are in units in the last place of the exact result. The bound is what tests assert; what was
measured is the largest error found, and how many arguments were tried for it: for f32 all of them
or evenly spread ones, for f64 random bits, the ends of all binades, and the ranges where a function
does its work. Operations count what one element costs in vector code; a second number counts what
is computed only where an element needs it: for angles above 65536 (f32) or 2²⁸ (f64), and for
logarithms of anything but positive normal numbers.

| function | f32 bound | measured | at | tried | f64 bound | measured | at | tried | f32 ops | f64 |
|---|---|---|---|---|---|---|---|---|---|---|
{rows}

`sqrt`, `floor`, `ceil`, `trunc` and `rint` are exact: every machine has them.

Measured on {machine} on the backend `cpu`; repeat it with
`python benchmarks/math/accuracy.py`, which goes on where it was stopped, and write this page with
`python benchmarks/math/accuracy.py --write`. The polynomials come from
`benchmarks/math/coefficients.py`, which states what each one approximates;
`benchmarks/math/speed.py` times all functions beside numpy and torch.

To add a function: declare its op (`core/tegula/ir/ops/arith.py`), write the formula with an
`Emitter`, and enter it with its bounds into `FUNCTIONS` (`core/tegula/codegen/math/functions.py`).
The tests and this page take it from there.
"""

LIBDEVICE = """# The device library

`tegula.language.extra.libdevice` has {count} functions of numbers beyond the language's own, under
the names that Triton programs know:

```python
from tegula.language.extra import libdevice

@tegula.jit
def kernel(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, libdevice.log1p(tl.load(x + i)))
```

They are written once, as formulas in tile IR (`core/tegula/codegen/math`), and serve every backend;
nothing is linked. Arguments are scalars or tiles of the types of a signature; integers may differ
in signedness, other mixtures are promoted as operators do it, and Python numbers take the type of
what is beside them. Denormal numbers, infinities, NaN and signed zeros are handled as IEEE 754 and
C have them.

## Measured functions

Errors are in units in the last place of the exact result; 0.5 is correctly rounded. The bound is
what the tests assert. Measured is the largest error found, and how many arguments were tried for
it: functions of one f32 were tried on all 2³² of them ("all") or on that part of them, evenly
spread; the others on samples (random bits, the ends of all binades, and the ranges where a function
does its work). The exact values come from numpy and scipy in f64 for f32, and from numpy's long
double or mpmath for f64. Where a bound names a size, results below that size are measured in its
unit: close to their zeros such functions have fewer digits. "f64" marks functions that compute in
f64 also for f32 (`lgamma` only below 0). For a device without f64 they are computed in f32:
`rsqrt_rn` is still correctly rounded, `lgamma` keeps its bound, and the Bessel functions are off by
at most 4e-7 (of higher orders 5e-6), or by that part of a value above 1.

| function | | type | bound | measured | at | tried |
|---|---|---|---|---|---|---|
{measured}

## Exact functions

Exact, or rounded once in the named direction: rn to nearest even, rz toward 0, rd down, ru up. They
are tested against integers and fractions of Python.

| function | | types |
|---|---|---|
{exact}

Conversions to unsigned integers give their bits in the signed type of that width, as Triton
declares them. NaN becomes 0, and what does not fit the nearest value that does.

## Repeating and adding

`python benchmarks/math/accuracy.py` measures, one pass over all functions after the other, and goes
on where it was stopped; `--write` writes this page. `pytest -m slow tests/math` tries every f32
against the bounds. Polynomials come from `benchmarks/math/library_coefficients.py`, which states
what each one approximates.

To add a function: write its formula with `Number` and `Pair`
(`core/tegula/codegen/math/number.py`, `double.py`), declare it in a table under
`core/tegula/codegen/math/tables`, and, unless it is exact, name a reference in `references.py`.
Library, tests and this page take it from there. Measured on {machine}, on the backend `cpu`.
"""


def _tried(entry: dict[str, Any], signature: Signature) -> str:
    if is_exhaustive(signature):
        done = entry["passes"]
        return "all" if done == PASSES else f"{100 * done / PASSES:.2g} %" if done else ""
    count = entry["tried"]
    return f"{count / 1e6:.1f} million" if count >= 1e5 else f"{count}"


def _cells(results: dict[str, Any], f: LibraryFunction, s: Signature) -> list[str]:
    """Measured error, where it is, and the arguments that were tried."""
    entry = results[f"{SAME.get(f.name, f.name)}: {s}"]
    at = ", ".join(_short(v, s) for v in entry["at"])
    return [f"{entry['error']:.3f}", at, _tried(entry, s)]


def _short(value: str, signature: Signature) -> str:
    if signature.float_type is ir.f32 and "." in value:
        return f"{float(value):.9g}"
    return value


def _bound(f: LibraryFunction, t: ir.DType) -> str:
    bound = f.bound(t)
    return f"{bound.ulp}" + (f" from {bound.unit_at:.2g}" if bound.unit_at else "")


def _math_row(results: dict[str, Any], name: str) -> str:
    f = library()[name]
    cells = [f"`{name}`"]
    for s in f.signatures:
        cells += [str(FUNCTIONS[name].bound(s.result)), *_cells(results, f, s)]
    for t in (ir.f32, ir.f64):
        usual, whole = operation_counts(name, t)
        cells.append(str(usual) if usual == whole else f"{usual}, {whole}")
    return f"| {' | '.join(cells)} |"


def _measured_rows(results: dict[str, Any], f: LibraryFunction) -> list[str]:
    doc = (f.doc + (f" For {f.domain}." if f.domain else "")).replace("|", "\\|")
    rows = []
    for i, s in enumerate(f.signatures):
        types = str(s).replace(" -> ", " → ")
        if f.f64_inside and s.float_type is ir.f32:
            types += " (f64)"
        head = [f"`{f.name}`", doc] if i == 0 else ["", ""]
        cells = [*head, types, _bound(f, s.float_type), *_cells(results, f, s)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _exact_rows() -> list[str]:
    """Rows of exact functions; those that differ in their rounding only share one."""
    found: dict[tuple[str, str], list[str]] = {}
    for f in library().values():
        if has_reference(f.name):
            continue
        base, _, mode = f.name.rpartition("_")
        family = base if mode in ("rn", "rz", "rd", "ru") and f.name != "rsqrt_rn" else ""
        doc = f.doc.replace("|", "\\|")
        if family:
            words = ("to nearest even", "toward zero", "down", "up")
            for word in words:
                doc = doc.replace(f", rounded {word}", "")
        types = "; ".join(str(s).replace(" -> ", " → ") for s in f.signatures)
        types += " (f64)" if f.f64_inside else ""
        found.setdefault((family or f.name, f"{doc} | {types}"), []).append(f.name)
    return [f"| {', '.join(f'`{n}`' for n in names)} | {rest} |"
            for (_, rest), names in found.items()]  # fmt: skip


def render(results: dict[str, Any]) -> dict[Path, str]:
    """The pages' texts."""
    machine = results["machine"]
    measured = [r for f in library().values() if has_reference(f.name)
                for r in _measured_rows(results, f)]  # fmt: skip
    return {
        DOCS / "math.md": MATH.format(
            rows="\n".join(_math_row(results, name) for name in FUNCTIONS), machine=machine
        ),
        DOCS / "libdevice.md": LIBDEVICE.format(
            count=len(library()),
            measured="\n".join(measured),
            exact="\n".join(_exact_rows()),
            machine=machine,
        ),
    }
