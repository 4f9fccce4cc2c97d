"""What the processor has that numba compiles for.

Importing this module imports no numba.
"""

from __future__ import annotations

__all__ = ["compiles_for", "float_lanes"]


def compiles_for(features: set[str]) -> bool:
    """Whether numba compiles, and for this processor, which has all of ``features``.

    They are LLVM's names. LLVM ends the process when it is to compile an instruction for a
    processor without it, so a numba that is told to compile for another one is not trusted.
    """
    from numba.core import config
    from numba.core.codegen import get_host_cpu_features

    if config.DISABLE_JIT or config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return False
    return set(get_host_cpu_features().split(",")) >= features


def float_lanes() -> int:
    """Return how many float32 a register has that numba compiles for: 16, 4, or 0 for other sizes.

    With AVX-512 or NEON there are 32 such registers, and one instruction multiplies and adds.
    """
    if compiles_for({"+avx512f", "+avx512bw"}):
        return 16
    return 4 if compiles_for({"+neon"}) else 0
