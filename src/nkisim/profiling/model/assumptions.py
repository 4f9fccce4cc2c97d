"""Named assumptions of the model: what is neither documented nor measured, with its alternatives.

A profile computes with the defaults, or with what ``profile(..., assume={...})`` sets. Its range
spans the alternatives, one at a time, of those assumptions that the program touches. A default may
change with the NKI version: the compiler and the runtime that come with it do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from nkisim.versions import VERSIONS, at


class Assumption(NamedTuple):
    """An assumption of the model.

    Attributes:
        name: Its key in ``assume=``.
        first: The value that predictions use in the oldest NKI version.
        alternatives: Other values that the range of a prediction spans.
        meaning: What the values say about the hardware or the compiler.
        why: What is known about it.
        changes: The value from an NKI version on, where another one than ``first`` is used.
    """

    name: str
    first: Any
    alternatives: tuple[Any, ...]
    meaning: str
    why: str
    changes: Mapping[str, Any] = MappingProxyType({})

    @property
    def values(self) -> tuple[Any, ...]:
        """Every accepted value; of a number, those that the range spans."""
        return (self.first, *self.alternatives)


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
            "0.26 fits the published grid of blocked products (NKI 0.3.0), 0 long rows of argmax "
            "(NKI 0.7)",
            {"0.7.0": 0.0},
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
            "fixed",
            ("by rows",),
            "GpSimd makes the descriptors of a transfer in 0.67 us from 32 rows on, else in 0.2 us "
            "and 15 ns per row; or always in 0.2 us and 2 ns per row.",
            "0.67 us for 32 to 128 rows in six operators with NKI 0.7, 0.6 us in older profiles; "
            "0.2 us for one row and 0.45 us for 128 rows in long loops with NKI 0.6.0",
            {"0.6.0": "by rows", "0.7.0": "fixed"},
        ),
        Assumption(
            "fixed_us",
            9.4,
            (11.2,),
            "Start and end of a kernel on the device.",
            "9.4 us in single instructions; 11.2 us in small copies on both cores with NKI 0.7",
            {"0.7.0": 11.2},
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
            "transpose_rate",
            "measured",
            ("documented",),
            "dma_transpose from HBM reaches 0.55 of the rate of a copy, 0.38 with 4-byte elements, "
            "or the documented share.",
            "a transposition of 4096 x 128 takes 5.2 us and 15 us; 0.9 is documented on gen3",
        ),
        Assumption(
            "narrow_vector",
            "short",
            ("as wide",),
            "A Vector instruction on one column takes the issue and not the least interval too, or "
            "both. The next Vector instruction reads its result at once, or after the usual time.",
            "chains of one column in softmax, rmsnorm and layernorm",
        ),
        Assumption(
            "device_loops",
            "in turn",
            ("overlap",),
            "A loop on the device, each of its iterations and what follows it begin when all that "
            "is before has ended on the core, or each engine runs ahead of the others.",
            "10.2 us for each block of keys in attention with a loop on the device",
        ),
        Assumption(
            "loop_iteration_us",
            4.0,
            (0.1, 2.0),
            "Time of the branch of a loop on the device, in each iteration: between iterations if "
            "these are in turn, else on each engine that has instructions in the loop.",
            "10.2 us for each block of keys in attention, of which the model explains 6; a compare "
            "and a branch alone take 0.1 us",
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


def defaults(nki: str = VERSIONS[0]) -> dict[str, Any]:
    """Return the default of every assumption in an NKI version."""
    return {name: at(nki, found.first, found.changes) for name, found in ASSUMPTIONS.items()}


def assumed(given: Mapping[str, Any], nki: str = VERSIONS[0]) -> dict[str, Any]:
    """Return every assumption with the given values in place of an NKI version's defaults.

    Raises:
        ValueError: A name or a value is unknown.
    """
    for name, value in given.items():
        found = ASSUMPTIONS.get(name)
        if found is None:
            raise ValueError(f"assume: got {name!r}, accepted: {', '.join(ASSUMPTIONS)}")
        numeric = isinstance(found.first, (int, float))
        fits = isinstance(value, (int, float)) and value >= 0 if numeric else value in found.values
        if not fits or isinstance(value, bool):
            accepted = "a number of at least 0" if numeric else ", ".join(map(repr, found.values))
            raise ValueError(f"assume[{name!r}]: got {value!r}, accepted: {accepted}")
    return defaults(nki) | dict(given)


def alternatives(current: Assumptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each change of one assumption: its name, and all values with it."""
    for name, assumption in ASSUMPTIONS.items():
        for value in assumption.values:
            if value != current[name]:
                yield name, {**current, name: value}
