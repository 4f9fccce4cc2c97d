"""Options of a run, and the environment variables that set them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nkisim.arch import TARGET_VARIABLE, Generation, resolve_target
from nkisim.versions import chosen, resolve

if TYPE_CHECKING:
    from nkisim.diagnostics import Strictness
    from nkisim.machine import Event

__all__ = [
    "IGNORE_VARIABLE",
    "LNC_VARIABLE",
    "PRECISE_VARIABLE",
    "SOURCE_VARIABLE",
    "STRICT_VARIABLE",
    "TARGET_VARIABLE",
    "SimOptions",
]

PRECISE_VARIABLE = "NKI_PRECISE_FP"
LNC_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"
SOURCE_VARIABLE = "NKISIM_SOURCE_RULES"
STRICT_VARIABLE = "NKISIM_STRICT"
IGNORE_VARIABLE = "NKISIM_IGNORE"

_LEVELS = ("simulate", "strict", "check")


@dataclass(frozen=True, kw_only=True, slots=True)
class SimOptions:
    """Options of a simulation.

    Attributes:
        strictness: ``"simulate"`` stops only where no natural result exists and records
            everything else; ``"strict"`` stops at every finding of error severity; ``"check"`` is
            what ``nkisim.check`` uses. None reads NKISIM_STRICT at each call, where ``1`` is
            strict, and falls back to ``"simulate"``.
        target: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name such as ``"trn2"``; None
            reads NKISIM_TARGET, then NEURON_PLATFORM_TARGET_OVERRIDE at each call and falls back
            to gen3, the generation of trn2.
        precise_fp: False keeps bfloat16 and float8 tensors as float32; None reads
            NKI_PRECISE_FP at each call, where only ``0`` disables precision.
        watchers: Called with an ``Event`` after every instruction.
        lnc: Physical cores of a logical core on the chip where the kernel is meant to run, 1 or 2.
            What the compiler refuses depends on it; the grid of a launch is ``kernel[2]``. None
            reads NEURON_LOGICAL_NC_CONFIG at each call, then takes 2 on gen3 and gen4. gen2 has 1.
        values: False computes no numbers: shapes, addresses, initialisation, capacity and
            synchronisation are checked, at a fraction of the time; there are no outputs.
        trip_count: Value of every register that is loaded from memory in a run without values, such
            as the number of iterations of a loop; None refuses such a run.
        ranks: Number of ranks; with more than one, a call takes a list with the arguments of each
            rank and returns the list of their results.
        errors: Ids of rules whose findings are errors in this run, such as ``("D020",)`` where an
            overflow to infinity is never wanted.
        ignore: Ids of rules whose findings are neither recorded nor raised, unless nothing could
            be computed; None reads NKISIM_IGNORE at each call, ids separated by commas.
        nki: NKI version that defines what a kernel may do and what its instructions mean:
            ``"0.3"``, ``"0.4"``, ``"0.5"`` or ``"0.6"``, also with a last ``.0``. None reads
            NKISIM_NKI at each call, then takes the version of an installed ``nki``, then 0.3.0.
            Names that a kernel's module imports, and their signatures, are those of NKISIM_NKI at
            the import; names read as ``nl.name`` or ``nisa.name`` in the kernel are those of this
            version.
        source: Whether ``check`` also checks the source of a kernel; None reads
            NKISIM_SOURCE_RULES at each call, where only ``0`` disables it. A simulation does not.
        detect: Names of the detectors that follow the run: ``"arguments"``, ``"lostwork"``,
            ``"races"`` and ``"size"``; None runs all of them in ``check`` and none elsewhere.
        most_instructions: Unrolled instructions per engine from which on ``"size"`` warns.
        schedule_seed: Seed of a random order of the cores' instructions, the same in every run with
            this seed; None lets the cores advance at equal pace, one instruction each.
    """

    strictness: Strictness | None = None
    target: str | None = None
    lnc: int | None = None
    precise_fp: bool | None = None
    watchers: tuple[Callable[[Event], None], ...] = ()
    values: bool = True
    trip_count: int | None = None
    ranks: int = 1
    schedule_seed: int | None = None
    errors: tuple[str, ...] = ()
    ignore: tuple[str, ...] | None = None
    nki: str | None = None
    source: bool | None = None
    detect: tuple[str, ...] | None = None
    most_instructions: int = 250_000

    def __post_init__(self) -> None:
        if self.strictness is not None and self.strictness not in _LEVELS:
            accepted = ", ".join(map(repr, _LEVELS))
            raise ValueError(f"strictness: got {self.strictness!r}, accepted: {accepted}")
        if self.target is not None:
            resolve_target(self.target)
        if self.lnc not in (None, 1, 2):
            raise ValueError(f"lnc: got {self.lnc!r}, accepted: 1 or 2")
        if not isinstance(self.ranks, int) or self.ranks < 1:
            raise ValueError(f"ranks: got {self.ranks!r}, accepted: a positive integer")
        for rule in self.errors:
            from nkisim.diagnostics import CHECKED

            if rule not in CHECKED:
                raise ValueError(f"errors: got {rule!r}, accepted: ids of rules, such as 'D020'")
        for name in self.detect or ():
            from nkisim.checks.detectors import DETECTORS

            if name not in DETECTORS:
                raise ValueError(f"detect: got {name!r}, accepted: {', '.join(DETECTORS)}")
        if self.nki is not None:
            resolve(self.nki)

    def detectors(self) -> tuple[str, ...]:
        """Return the names of the detectors that follow a run."""
        if self.detect is not None:
            return self.detect
        from nkisim.checks.detectors import DETECTORS

        return DETECTORS if self.strictness == "check" else ()

    def generation(self) -> Generation:
        """Return the target of a call made now."""
        return resolve_target(self.target)

    def logical_cores(self) -> int:
        """Return the physical cores of a logical core for a call made now."""
        asked = os.environ.get(LNC_VARIABLE, "") if self.lnc is None else str(self.lnc)
        if asked not in ("", "1", "2"):
            raise ValueError(f"{LNC_VARIABLE}: got {asked!r}, accepted: '1' or '2'")
        most = self.generation().lnc_max
        return min(int(asked), most) if asked else most

    def version(self) -> str:
        """Return the NKI version of a call made now."""
        return chosen(self.nki)

    def level(self) -> Strictness:
        """Return the strictness of a call made now."""
        if self.strictness is not None:
            return self.strictness
        asked = os.environ.get(STRICT_VARIABLE, "")
        if asked not in ("", "0", "1"):
            raise ValueError(f"{STRICT_VARIABLE}: got {asked!r}, accepted: '0' or '1'")
        return "strict" if asked == "1" else "simulate"

    def ignored(self) -> tuple[str, ...]:
        """Return the ids of rules that a call made now ignores."""
        if self.ignore is not None:
            return self.ignore
        return tuple(filter(None, os.environ.get(IGNORE_VARIABLE, "").split(",")))

    def reads_source(self) -> bool:
        """Return whether a check made now includes the source of the kernel."""
        if self.source is not None:
            return self.source
        return os.environ.get(SOURCE_VARIABLE, "1") != "0"

    def precise(self) -> bool:
        """Return whether a call made now stores low-precision types in their real width."""
        if self.precise_fp is not None:
            return self.precise_fp
        return os.environ.get(PRECISE_VARIABLE, "1") != "0"


@contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Set an environment variable, for this process and those that it starts, and restore it."""
    earlier = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if earlier is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = earlier
