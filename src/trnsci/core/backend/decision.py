"""What decides the path of a call, and the decision."""

from __future__ import annotations

from typing import Literal, NamedTuple

from trnsci.core.backend.environment import Level

Path = Literal["pytorch", "nki", "simulator"]

NO_DEVICE = "backend 'auto' finds no NeuronCore with AWS's NKI"


class Choice(NamedTuple):
    """The settings that decide the path of a call, from one reading.

    Attributes:
        backend: The requested backend.
        required: The level of ``REQUIRE_NKI``.
        path: The path of a call that its kernel accepts.
        reason: Why it is this path; empty in a setting if the device decides, or if a variable has
            a wrong value.
        by_operands: Whether ``path`` is that of operands on the simulated device "neuron" alone;
            others take the torch path.
        widening: Whether operations compute their reference in float64.
        recorded: Whether ``explain`` records the call.
    """

    backend: str
    required: Level
    path: Path
    reason: str
    by_operands: bool = False
    widening: bool = False
    recorded: bool = False


class Decision(NamedTuple):
    """What a call does: the call obeys it, and ``explain`` shows it.

    Attributes:
        path: The path.
        reason: Why it is this path.
        refusal: Why torch computes although a kernel was requested, to be counted, warned about or
            raised; else empty.
    """

    path: Path
    reason: str
    refusal: str = ""
