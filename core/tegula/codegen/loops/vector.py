"""What the loop lowering must know about a processor's vector unit."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class VectorTarget:
    """The vector unit of one processor, in terms of what generated code may use.

    ``features`` holds LLVM's names of subtarget features, without the sign.
    """

    arch: str = "generic"
    vector_bits: int = 128
    features: frozenset[str] = field(default_factory=frozenset)

    def has(self, *names: str) -> bool:
        """Whether every one of the named features is there."""
        return self.features.issuperset(names)

    @property
    def vector_registers(self) -> int:
        """Number of architectural vector registers that code of `vector_bits` can name."""
        if self.arch == "aarch64" or self.has("avx512vl"):
            return 32
        return 32 if self.has("avx512f") and self.vector_bits == 512 else 16

    def lanes(self, bits: int) -> int:
        """Elements of `bits` bits in one full vector (at least one)."""
        return max(1, self.vector_bits // bits)
