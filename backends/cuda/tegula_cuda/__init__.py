"""The CUDA backend of Tegula. Importing it declares its settings."""

from tegula.config import Knob, declare, flag

declare(
    Knob(
        "ptxas",
        lambda text: text or None,
        None,
        "NVIDIA's assembler: a path, or `driver` to have the driver assemble PTX when it loads it",
        affects_code=True,
    )
)
declare(
    Knob("graph_launch", flag, True, "launch kernels as CUDA graphs of their own; 0: plainly")
)
