"""Named assumptions of the model: what is neither documented nor measured, with its alternatives.

A profile computes with the defaults, or with what ``profile(..., assume={...})`` sets. Its range
spans the alternatives, one at a time, of those assumptions that the program touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Assumption(NamedTuple):
    """An assumption of the model.

    Attributes:
        name: Its key in ``assume=``.
        default: The value that predictions use.
        alternatives: Other values that the range of a prediction spans.
        meaning: What the values say about the hardware or the compiler.
        why: What is known about it.
    """

    name: str
    default: Any
    alternatives: tuple[Any, ...]
    meaning: str
    why: str

    @property
    def values(self) -> tuple[Any, ...]:
        """Every accepted value."""
        return (self.default, *self.alternatives)


Assumptions = Mapping[str, Any]
"""The value of each assumption by its name."""

ASSUMPTIONS = {
    assumption.name: assumption
    for assumption in (
        Assumption(
            "exposed_latency",
            0.25,
            (0.0, 0.5),
            "Share of the time of transfers that computation waits for, where transfers do not "
            "bound the kernel: 0 if the compiler loads everything ahead of its use, 1 if each ring "
            "has one transfer under way.",
            "0.26 fits the published grid of blocked products",
        ),
        Assumption(
            "transfers_in_flight",
            8,
            (4, 16),
            "Transfers of one ring that are under way at the same time. A ring belongs to the "
            "engine that triggers, the origin of descriptors and the direction.",
            "one-row loads follow each other every 0.2 us although one alone takes 1.5 us",
        ),
        Assumption(
            "software_descriptors",
            "by rows",
            ("fixed",),
            "GpSimd makes the descriptors of a transfer in 0.2 us and 2 ns per row, or in 0.6 us.",
            "0.2 us for one row and 0.45 us for 128 rows in long loops; 0.6 us in older profiles",
        ),
        Assumption(
            "row_tiles",
            "overlap",
            ("in turn",),
            "Products in different parts of the systolic array overlap completely, or not at all.",
            "documented without a figure",
        ),
        Assumption(
            "shared_port",
            "exclusive",
            ("free",),
            "From gen3 on, the fast modes of Vector and GpSimd exclude each other on SBUF, or not.",
            "hardware arbitrates; the share of each engine is not documented",
        ),
        Assumption(
            "gpsimd_stride",
            "half rate",
            ("full rate",),
            "GpSimd reads elements more than 16 bytes apart at half its rate, or at its full rate.",
            "documented for the other engines",
        ),
        Assumption(
            "transpose_float32",
            "full rate",
            ("half rate",),
            "dma_transpose moves 4-byte elements at the rate of 2-byte ones, or at half of it.",
            "the documented rate does not name a type",
        ),
        Assumption(
            "loop_iteration_us",
            0.1,
            (0.0, 0.5),
            "Time of the branch of a loop on the device, in each iteration and on each engine that "
            "has instructions in the loop.",
            "a compare and a branch, documented without a figure; two instructions take 0.1 us",
        ),
        Assumption(
            "collective_hop_us",
            1.5,
            (1.0, 2.0),
            "Time of one step of a collective between neighbours in a node.",
            "documented as 1 to 2 us",
        ),
    )
}


def defaults() -> dict[str, Any]:
    """Return the default of every assumption."""
    return {name: assumption.default for name, assumption in ASSUMPTIONS.items()}


def assumed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every assumption with the given values in place of defaults.

    Raises:
        ValueError: A name or a value is unknown.
    """
    for name, value in given.items():
        found = ASSUMPTIONS.get(name)
        if found is None:
            raise ValueError(f"assume: got {name!r}, accepted: {', '.join(ASSUMPTIONS)}")
        numeric = isinstance(found.default, (int, float))
        fits = isinstance(value, (int, float)) and value >= 0 if numeric else value in found.values
        if not fits or isinstance(value, bool):
            accepted = "a number of at least 0" if numeric else ", ".join(map(repr, found.values))
            raise ValueError(f"assume[{name!r}]: got {value!r}, accepted: {accepted}")
    return defaults() | dict(given)


def alternatives(current: Assumptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each change of one assumption: its name, and all values with it."""
    for name, assumption in ASSUMPTIONS.items():
        for value in assumption.values:
            if value != current[name]:
                yield name, {**current, name: value}
