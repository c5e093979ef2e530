"""The records that the thread pool shares with Python, and its text with all numbers filled in.

`pool.ll` holds the pool itself and says how it works.  It names fields as ``<record.field>``, which
`pool_text` replaces by byte offsets, and settings as ``$NAME$``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_RECORDS: dict[str, dict[str, int]] = {
    # what Kernel.handle points to
    "handle": {"entry": 0, "scratch": 8, "flags": 16, "cost": 24},
    # one launch
    "job": {
        "entry": 0, "slots": 8, "scratch": 16, "gx": 24, "gy": 28, "gz": 32, "rc": 36,
        "total": 40, "chunk": 48, "prints": 56, "count": 64, "capacity": 72, "lock": 80,
        "fail_pid": 84, "fail": 96, "next": 128, "size": 192,
    },
    # 64 bytes below %scratch
    "arena": {"job": 0, "bytes": 8, "fail": 16, "fail_pid": 24, "header": 64},
    # one printed element
    "print": {"prefix": 0, "bits": 8, "kind": 16, "pid": 20, "rank": 32, "index": 36, "size": 72},
    # the pool; fields that different threads write lie in different cache lines
    "state": {
        "epoch": 0, "open": 4, "job": 8, "running": 64, "busy": 128, "sleepers": 192,
        "stop": 196, "started": 200, "threads": 204, "key": 208, "on_print": 216, "ids": 224,
        "kept_off": 232, "cpus": 236, "mutex": 256, "condition": 384, "size": 512,
    },
}  # fmt: skip


def offset(record: str, field: str) -> int:
    """Byte offset of a field; a record's `size` (and an arena's `header`) are its lengths."""
    return _RECORDS[record][field]


@dataclass(frozen=True)
class PoolTuning:
    """Numbers of the pool that depend on the system or that were found by measurement."""

    spins: int = 3000
    """Pauses before an idle worker goes to sleep: about 50 microseconds."""
    awake_ns: float = 2500.0
    """Least work, in nanoseconds, for which spinning workers are called."""
    asleep_ns: float = 20000.0
    """Least work for which sleeping workers are woken."""
    chunk_ns: float = 30000.0
    """Work in one chunk, unless that leaves fewer than four chunks a thread.

    Long enough for a thread to read many neighbouring rows in order: with 4 microseconds, rows of
    4 KiB that come from memory took a fifth longer.
    """
    set_mask: int = 2
    """SIG_SETMASK."""
    sigbus: int = 7
    """SIGBUS."""
    clock: int = 1
    """CLOCK_MONOTONIC."""
    apart: bool = False
    """The system is Linux: workers keep off the launcher's processor (`apart.ll`)."""


def pool_text(family: str, tuning: PoolTuning) -> str:
    """The pool for a processor family (``x86-64``, ``aarch64``, or any other)."""
    pause, pause_declare, control, control_declare = _FAMILY.get(family, ("", "", "", ""))
    text = Path(__file__).with_name("pool.ll").read_text(encoding="utf-8")
    apart = Path(__file__).with_name("apart.ll").read_text(encoding="utf-8")
    text += apart if tuning.apart else _NOT_APART
    for name, value in {
        "PAUSE": pause, "PAUSE_DECLARE": pause_declare, "FP_CONTROL": control,
        "FP_DECLARE": control_declare, "SPINS": tuning.spins, "AWAKE": f"{tuning.awake_ns:e}",
        "ASLEEP": f"{tuning.asleep_ns:e}", "CHUNK": f"{tuning.chunk_ns:e}",
        "SET_MASK": tuning.set_mask, "CLOCK": tuning.clock, "SIGBUS": tuning.sigbus,
    }.items():  # fmt: skip
        text = text.replace(f"${name}$", str(value))
    return re.sub(r"<(\w+)\.(\w+)>", lambda m: str(offset(m[1], m[2])), text)


_NOT_APART = """
define internal void @learn_processors() {
  ret void
}
define internal void @keep_apart() {
  ret void
}
"""

_FAMILY = {
    "x86-64": (
        "call void @llvm.x86.sse2.pause()",
        "declare void @llvm.x86.sse2.pause()",
        # A caller that has set flush-to-zero or another rounding must not get other results for
        # the programs that it runs itself than for those of the workers.
        """  %csr = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %csr)
  %csr.old = load i32, ptr %csr
  %csr.mode = and i32 %csr.old, 65472
  %csr.plain = icmp eq i32 %csr.mode, 8064
  br i1 %csr.plain, label %plain, label %special
special:
  store i32 8064, ptr %csr
  call void @llvm.x86.sse.ldmxcsr(ptr %csr)
  %n.special = call i64 @run_chunks(ptr %job, ptr %scratch, i64 %limit)
  store i32 %csr.old, ptr %csr
  call void @llvm.x86.sse.ldmxcsr(ptr %csr)
  ret i64 %n.special
plain:""",
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
    ),
    "aarch64": (
        "call void @llvm.aarch64.hint(i32 1)",
        "declare void @llvm.aarch64.hint(i32)",
        """  %fpcr = call i64 @llvm.aarch64.get.fpcr()
  %fpcr.plain = icmp eq i64 %fpcr, 0
  br i1 %fpcr.plain, label %plain, label %special
special:
  call void @llvm.aarch64.set.fpcr(i64 0)
  %n.special = call i64 @run_chunks(ptr %job, ptr %scratch, i64 %limit)
  call void @llvm.aarch64.set.fpcr(i64 %fpcr)
  ret i64 %n.special
plain:""",
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
    ),
}
