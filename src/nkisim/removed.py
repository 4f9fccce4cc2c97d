"""Names that earlier releases of NKI had: what happens when a kernel still asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from nkisim.diagnostics import NkiValidationError, declare, flag

__all__ = ["NkiRemovedError", "missing_name"]

REMOVED_INDEXING = declare(
    "A029",
    "removed-indexing",
    "error",
    "A kernel uses index tensors or block dimensions of Beta 1.",
    "0.3.0 indexes with slices and access patterns only",
    meaningless=True,
)
REMOVED_ENTRY_POINT = declare(
    "A030",
    "removed-entry-point",
    "error",
    "A function of an earlier release is used that 0.3.0 does not have.",
    "the name does not exist any more",
    meaningless=True,
)
REMOVED_ALLOCATOR = declare(
    "A031",
    "removed-allocator",
    "error",
    "Allocation decorators or allocators of nki.compiler are used.",
    "0.3.0 places tensors with address=",
    meaningless=True,
)
DYNAMIC_COPY = declare(
    "A021",
    "dynamic-copy",
    "warning",
    "tensor_copy_dynamic_src or tensor_copy_dynamic_dst is used.",
    "both are deprecated and gone in 0.4.0",
    meaningless=True,
)

_SLICES = "use slices, nl.ds or .ap(...)"
_RULES = {
    "nki.language": {
        "arange": (REMOVED_INDEXING, _SLICES),
        "mgrid": (REMOVED_INDEXING, _SLICES),
        "par_dim": (REMOVED_INDEXING, "the first dimension is the partition dimension"),
        "atomic_rmw": (REMOVED_ENTRY_POINT, "use nisa.dma_compute"),
        "loop_reduce": (REMOVED_ENTRY_POINT, "accumulate with nisa.tensor_tensor in a loop"),
        "spmd_dim": (REMOVED_ENTRY_POINT, "launch with kernel[lnc]"),
        "nc": (REMOVED_ENTRY_POINT, "launch with kernel[lnc]"),
        "min_max": (REMOVED_ENTRY_POINT, "use nl.max and nl.min"),
    },
    "nki.isa": {
        "tensor_copy_dynamic_src": (DYNAMIC_COPY, "nisa.tensor_copy with .ap(scalar_offset=...)"),
        "tensor_copy_dynamic_dst": (DYNAMIC_COPY, "nisa.tensor_copy with .ap(scalar_offset=...)"),
    },
    "nki": {
        "baremetal": (REMOVED_ENTRY_POINT, "use @nki.jit, or nki.simulate without a device"),
        "benchmark": (REMOVED_ENTRY_POINT, "use @nki.jit and the profiler"),
        "profile": (REMOVED_ENTRY_POINT, "use @nki.jit and the profiler"),
        "simulate_kernel": (REMOVED_ENTRY_POINT, "use nki.simulate(kernel)(*arrays)"),
        "trace": (REMOVED_ENTRY_POINT, "use @nki.jit"),
        "compiler": (REMOVED_ALLOCATOR, "use the address= argument of nl.ndarray"),
    },
}


class NkiRemovedError(NkiValidationError, AttributeError):
    """A name that NKI 0.3.0 does not have; ``hasattr`` answers False for it."""


def missing_name(module: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a module of NKI: removed names raise with the remedy."""

    def get(name: str) -> NoReturn:
        known = _RULES[module].get(name)
        if known is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        rule, remedy = known
        flag(
            rule,
            f"{module}.{name} does not exist in NKI 0.3.0",
            operand=name,
            seen=f"{module}.{name}",
            fix=remedy,
            error=NkiRemovedError,
        )
        raise AssertionError("unreachable: the rules of removed names always raise")

    return get
