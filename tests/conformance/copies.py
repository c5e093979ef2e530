"""Copies of the CPU backend, each with one fault planted in its text.

A copy is a package of its own: the backend's modules and those of the loop lowering, with a few
lines changed. The suite has to find every fault, the fuzzer those that give wrong values.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import tegula.codegen.loops as loops

WRONG = frozenset({"fail", "error"})

Change = tuple[str, str, str]
"""A file of the copy, a text that it has once, and what stands there instead."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a copy, and what has to notice."""

    doc: str
    changes: tuple[Change, ...]
    hint: str
    """Words of test ids of which at least one has to fail."""
    outcomes: frozenset[str] = WRONG
    values: bool = True
    """Results are wrong, so that the fuzzer has to find it too."""


FAULTS: dict[str, Fault] = {
    "off_by_one_mask": Fault(
        "the mask at the end of a row that is no whole number of vectors has a lane too many",
        (("loops/nest.py", "icmp slt {lanes.ty}", "icmp sle {lanes.ty}"),),
        "memory.ends",
    ),
    "off_by_one_bound": Fault(
        "the part of a row in which a mask holds is an element too long",
        (("loops/masks.py", 'if pred == "le":', 'if pred in ("lt", "le"):'),),
        "memory.ends",
        values=False,  # only where the part ends with a vector
    ),
    "swapped": Fault(
        "b - a in place of a - b, for floats",
        (("loops/elementwise.py", 'binary(l, "f" + name, x, y)', 'binary(l, "f" + name, y, x)'),),
        "arith.sub.f32",
    ),
    "wrong_rounding": Fault(
        "f32 to bf16 cuts instead of rounding",
        (("loops/convert.py", 'if rounding == "rtz":\n        rounded = high',
          "if True:\n        rounded = high"),),
        "cast.f32.bf16",
    ),
    "double_rounding": Fault(
        "f64 to f16 by way of f32, rounded twice",
        (("loops/convert.py", "from_f32(l, _f64_to_odd_f32(l, x), to, rounding)",
          'from_f32(l, unary(l, "fptrunc", x, "float"), to, rounding)'),),
        "cast.f64.f16",
        values=False,  # one number of some thousand lies between
    ),
    "lost_last_store": Fault(
        "the last element of a row is not stored where it is not the last of a vector",
        (("loops/nest.py", "prefix_mask(extent - p)", "prefix_mask(extent - p - 1)"),),
        "memory.copy shape.splat",
    ),
    "nan_rule": Fault(
        "min and max propagate NaN where they have to ignore it",
        (("loops/elementwise.py", 'verb = (name + "imum") if propagate else (name + "num")',
          'verb = name + "imum"'),),
        "arith.min arith.max",
    ),
    "stale_cache": Fault(
        "loaded kernels are kept by their name alone",
        (("backend/driver.py", "        return CpuKernel(artifact)\n",
          "        return _KEPT.setdefault(artifact.entry, CpuKernel(artifact))\n"),
         ("backend/driver.py", "class CpuKernel(", "_KEPT = {}\n\n\nclass CpuKernel(")),
        "device.same_name compile.distinct",
        WRONG | {"crash"},
    ),
    "non_atomic_add": Fault(
        "an atomic addition that is a load, an addition and a store",
        (("loops/atomics.py", "        verb = kind if kind in _INT_KINDS",
          '        if kind == "add":\n'
          '            old = l.w.here(ty, f"load volatile {ty}, ptr {p.text}")\n'
          '            new = l.w.here(ty, f"add {ty} {old.text}, {x.text}")\n'
          '            l.w.do(f"store volatile {ty} {new.text}, ptr {p.text}")\n'
          "            return old\n"
          "        verb = kind if kind in _INT_KINDS"),),
        "stress.contention atomic.histogram atomic.add stress",
        values=False,  # only where threads meet
    ),
    "old_value_of_atomics": Fault(
        "an atomic addition gives the new value instead of the old one",
        (("loops/atomics.py", '        return l.w.here(ty, f"atomicrmw {verb}',
          '        if kind == "add":\n'
          '            verb = f"add ptr {p.text}, {ty} {x.text} {order}, align {e.itemsize}"\n'
          '            old = l.w.here(ty, f"atomicrmw {verb}")\n'
          '            return l.w.here(ty, f"add {ty} {old.text}, {x.text}")\n'
          '        return l.w.here(ty, f"atomicrmw {verb}'),),
        "atomic.add",
    ),
    "leak": Fault(
        "memory that is freed stays allocated",
        (("backend/driver.py", "        self._libc.free(address)\n", ""),),
        "device.leak_memory",
        values=False,
    ),
    "leak_of_kernels": Fault(
        "every loaded kernel leaves a mebibyte behind",
        (("backend/driver.py", "        return CpuKernel(artifact)\n",
          "        _LEFT.append(b'x' * (1 << 20))\n        return CpuKernel(artifact)\n"),
         ("backend/driver.py", "class CpuKernel(", "_LEFT = []\n\n\nclass CpuKernel(")),
        "device.leak_load",
        values=False,
    ),
    "lying_capability": Fault(
        "mulhi is declared and there is no rule for it",
        (("loops/elementwise.py", '@rule("mulhi")', '@rule("no_mulhi")'),
         ("loops/capabilities.py", '"sort histogram map load', '"sort histogram mulhi map load')),
        "compile.op.mulhi arith.mulhi",
    ),
    "hang": Fault(
        "the loop around a compare-and-swap goes on when it has succeeded",
        (("loops/atomics.py", "label %{end.label}, label %{head.label}",
          "label %{head.label}, label %{end.label}"),),
        "atomic.max.f32",
        frozenset({"timeout"}),
    ),
    "crash": Fault(
        "a product of matrices writes to address 0",
        (("loops/matrix.py", "        k = self.k\n        a, b, acc = op.operands\n",
          '        self.w.do("store volatile i32 0, ptr null")\n'
          "        k = self.k\n        a, b, acc = op.operands\n"),),
        "dot.f32 dot.i32",
        frozenset({"crash"}),
    ),
    "trusted_indices": Fault(
        "an index that wraps around within a row is extended as if it did not",
        (("loops/lanes.py", "if x.exact or x.key in self.steady:", "if True:"),),
        "memory.wrapped",
    ),
    "backward_reductions": Fault(
        "a reduction without a neutral element runs backwards beside a scan that does",
        (("loops/plan.py", "if fold_kind(op) is None else None", "if False else None"),),
        "reduce.beside",
    ),
}  # fmt: skip


def name_of(fault: str) -> str:
    """The backend that is made of a fault."""
    return f"copy_{fault}"


def make_copy(folder: Path, name: str, changes: tuple[Change, ...] = ()) -> str:
    """Write the package of a copy; gives the value of TEGULA_PLUGIN_PATH that installs it."""
    import tegula_cpu

    package = folder / name
    sources = {"backend": tegula_cpu.__file__, "loops": loops.__file__}
    for part, init in sources.items():
        shutil.copytree(Path(str(init)).parent, package / part,
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    (package / "__init__.py").write_text("")
    for path in package.rglob("*.py"):
        text = path.read_text()
        text = text.replace("tegula.codegen.loops", f"{name}.loops")
        text = re.sub(r"\b(from|import) tegula_cpu\b", rf"\1 {name}.backend", text)
        path.write_text(text)
    plugin = package / "backend" / "plugin.py"
    text = plugin.read_text().replace('"tegula_cpu.', f'"{name}.backend.')
    plugin.write_text(text.replace('name="cpu"', f'name="{name}"'))
    for file, old, new in changes:
        path = package / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
        path.write_text(text.replace(old, new))
    return f"{name}={name}.backend.plugin"
