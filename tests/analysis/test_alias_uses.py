"""Where pointers come from, effects, and uses."""

from __future__ import annotations

from tegula.analysis.alias import effects_of, is_pure, pointer_roots
from tegula.analysis.uses import use_counts, users
from tegula.ir import Function, Value, parse_module


def named(text: str) -> tuple[Function, dict[str, Value]]:
    (kernel,) = parse_module(text).kernels
    values = {a.name: a for a in kernel.body.args}
    for op in kernel.body.walk():
        for v in (*op.results, *(a for r in op.regions for a in r.args)):
            values[v.name] = v
    return kernel, values


POINTERS = """
kernel @k(%p: ptr<f32>, %q: ptr<f32>, %c: i1, %n: i32) {
  %o = arange {start = 0, end = 4} : i32[4]
  %ps = splat %p {shape = [4]} : ptr<f32>[4]
  %at = addptr %ps, %o : ptr<f32>[4]
  %both = select %c, %p, %q : ptr<f32>
  %same = if %c : ptr<f32> then {
    %next = addptr %p, %n : ptr<f32>
    yield [%next]
  } else {
    yield [%p]
  }
  %kept, %swapped, %other = for %n, %n, %n, inits = [%at, %p, %q]
      : ptr<f32>[4], ptr<f32>, ptr<f32>
      body(%i: i32, %a: ptr<f32>[4], %b: ptr<f32>, %d: ptr<f32>) {
    %moved = addptr %a, %o : ptr<f32>[4]
    yield [%moved, %d, %b]
  }
  %number = cast %p {to = i64} : i64
  %made = cast %number {to = ptr<f32>} : ptr<f32>
  return
}
"""


def test_roots_of_pointers() -> None:
    kernel, v = named(POINTERS)
    roots = pointer_roots(kernel)

    assert roots[v["at"]] is v["p"]
    assert roots[v["both"]] is None
    assert roots[v["same"]] is v["p"]
    assert roots[v["kept"]] is v["p"]
    assert roots[v["moved"]] is v["p"]
    assert roots[v["swapped"]] is None
    assert roots[v["other"]] is None
    assert roots[v["made"]] is None


EFFECTS = """
kernel @k(%p: ptr<f32>, %c: i1, %x: f32, %n: i32) {
  if %c then {
    store %p, %x
    yield
  } else {
    %a = load %p : f32
    yield
  }
  %b = for %n, %n, %n, inits = [%x] : f32 body(%i: i32, %d: f32) {
    %e = add %d, %x : f32
    yield [%e]
  }
  while before {
    condition %c, values = []
  } after {
    yield
  }
  return
}
"""


def test_effects_of_regions() -> None:
    kernel, _ = named(EFFECTS)
    branch, loop, wait = kernel.body.ops[:3]

    assert effects_of(branch) == {"read", "write"}
    assert not is_pure(branch)
    assert effects_of(loop) == frozenset()
    assert is_pure(loop)
    assert not is_pure(wait)  # it may never end


def test_uses() -> None:
    kernel, v = named(EFFECTS)

    counts = use_counts(kernel)
    assert counts[v["c"]] == 2
    assert counts[v["n"]] == 3
    assert counts[v["b"]] == 0
    assert [op.name for op in users(kernel)[v["x"]]] == ["store", "for", "add"]
