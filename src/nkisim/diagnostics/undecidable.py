"""Faults of the catalogue without a rule, each with the reason.

Some cannot be decided on a CPU: they depend on an intention, on the compiler's choice, or on other
programs. Some duplicate another fault under a second id.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

UNDECIDABLE: Mapping[str, str] = MappingProxyType(
    {
        "S033": "a kernel does not state which of two square operands is meant to be transposed",
        "S069": "an extent from the wrong operand only fails at other sizes, and a kernel does not "
        "state the sizes it supports",
        "M035": "tiles live until their last use here, so a list that holds them needs no memory",
        "M046": "a short DMA run is slow but correct; profiles report it",
        "M047": "legal: written bytes are tracked one by one, whatever type a view has",
        "D044": "whether a comparison relies on equal bits is an intention",
        "A022": "whether a call relied on arguments that were ignored is not in the call",
        "A023": "whether a call relied on a default of an earlier release is not in the call",
        "A024": "the compiler options of other kernels of a model are unknown",
        "C011": "which engine issues a DMA is the compiler's choice",
        "C031": "a collective has ended on both cores when it returns here",
        "R010": "the order that a region is expected to add is an intention",
        "R019": "a kernel does not state which output a framework aliases to an argument",
        "R021": "no document states that a matmul that begins a sum clears more than it writes, "
        "so two sums in one bank are legal in any order",
        "R022": "a sendrecv has ended when it returns here, so two are never in flight",
        "R023": "the state a framework keeps between calls is unknown; L041 finds the globals",
    }
)
"""Reasons by id."""

SPOKEN_FOR: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "M026": ("M019", "M018", "M022"),
        "M027": ("M019", "M018", "M022"),
        "M034": ("M001",),
        "M045": ("A012", "A014", "C010"),
        "M048": ("M013", "R001"),
        "D041": ("D032",),
        "D048": ("D019", "D020"),
        "A041": (),
        "A047": ("D001",),
        "R005": ("M042",),
        "R016": ("M001",),
        "R020": ("C007", "C008"),
        "W007": ("M029",),
    }
)
"""Rules that report the same fault under another id; none where the call is refused first."""
