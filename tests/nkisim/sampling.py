"""Calls of an instruction as data, and one way to run them.

A ``Sample`` is a call: its tiles with their contents, and the other arguments. ``run`` makes the
tiles, calls the instruction and returns what it wrote. How a tile becomes an operand is a parameter
of ``run``, so that a test about views, offsets, aliases or placement is one function for all
instructions::

    def second_half(name, tile, source):
        wide = nl.ndarray((tile.shape[0], 2 * tile.shape[1]), dtype=tile.dtype, buffer=tile.region)
        half = wide[:, tile.shape[1] :]
        fill(half, source)
        return half

    run(sample, second_half).outputs
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import copies
from nkisim import Finding, NkiFindingWarning
from nkisim.spec.instruction import INSTRUCTIONS, Instruction
from releases import VERSIONS

REGIONS = {"sbuf": nl.sbuf, "psum": nl.psum, "hbm": nl.shared_hbm}


@dataclass(frozen=True)
class Tile:
    """One tensor operand.

    Attributes:
        shape: Its shape.
        dtype: Its type.
        values: What it holds before the call; None for a destination that nothing has written.
        buffer: ``"sbuf"``, ``"psum"`` or ``"hbm"``.
    """

    shape: tuple[int, ...]
    dtype: Any
    values: np.ndarray | None = None
    buffer: str = "sbuf"

    @property
    def region(self) -> Any:
        """The buffer as ``nl.ndarray`` takes it."""
        return REGIONS[self.buffer]


@dataclass(frozen=True)
class Sample:
    """A legal call.

    Attributes:
        instruction: Name of the instruction.
        case: What tells it from other samples of the instruction; empty for the first.
        tiles: The tensor operands by parameter name; ``srcs[0]`` is the first of a list ``srcs``.
        settings: The other arguments.
        targets: Generations on which the call is legal.
        grid: Cores that make the call; ``settings`` that are functions are called with the core.
        before: Runs first, inside the kernel.
        observe: Runs last, inside the kernel: returns tensors that show what the call changed
            besides its operands.
        nki: The first NKI version in which the call is legal.
    """

    instruction: str
    tiles: Mapping[str, Tile]
    settings: Mapping[str, Any] = field(default_factory=dict)
    case: str = ""
    targets: tuple[str, ...] = ("gen2", "gen3", "gen4")
    grid: int = 1
    before: Callable[[], None] | None = None
    observe: Callable[[], Mapping[str, Any]] | None = None
    nki: str = VERSIONS[0]

    @property
    def name(self) -> str:
        """Name of the sample, for test ids."""
        return f"{self.instruction}-{self.case}" if self.case else self.instruction

    @property
    def declaration(self) -> Instruction:
        """The declared instruction, as it holds in the version of the call."""
        return INSTRUCTIONS[self.instruction].at(self.nki)

    @property
    def writes(self) -> tuple[str, ...]:
        """Tiles that the call writes."""
        operands = self.declaration.operands
        return tuple(n for n in self.tiles if n in operands and operands[n].writes)

    @property
    def reads(self) -> tuple[str, ...]:
        """Tiles that the call reads."""
        operands = self.declaration.operands
        return tuple(n for n in self.tiles if n not in operands or operands[n].reads)


@dataclass(frozen=True)
class Outcome:
    """What a call wrote, by operand, and what was found; ``outputs`` is empty without values."""

    outputs: dict[str, np.ndarray]
    findings: tuple[Finding, ...]

    @property
    def codes(self) -> set[str]:
        """Rules of the findings."""
        return {finding.rule.id for finding in self.findings}


#: Makes the operand of a tile from its HBM contents, which are None for an unwritten destination.
#: Returns the operand, or the operand and the static tensor in which its elements are found later.
Place = Callable[[str, Tile, Any], Any]


def fill(target: Any, source: Any) -> None:
    """Put HBM contents, if there are any, into a tensor, through SBUF where it is in PSUM."""
    if source is None:
        return
    if target.buffer == nl.psum:
        staged = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged, src=source)
        nisa.tensor_copy(dst=target, src=staged)
    else:
        nisa.dma_copy(dst=target, src=source)


def whole(name: str, tile: Tile, source: Any) -> Any:
    """Place a tile as a tensor of its own; contents in HBM are there already."""
    if tile.buffer == "hbm" and source is not None:
        return source
    tensor = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=tile.region)
    fill(tensor, source)
    return tensor


def run(
    sample: Sample,
    place: Place = whole,
    *,
    entry: Any = nkisim.check,
    target: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Outcome:
    """Make the call on operands that ``place`` makes; on the last generation unless told.

    Args:
        sample: The call.
        place: Makes each operand.
        entry: ``nkisim.check`` or ``nkisim.simulate``; only the second takes shortcuts.
        target: The generation.
        settings: Arguments that replace or add to those of the sample.
        options: Options of ``entry``.
    """
    given = {name: tile.values for name, tile in sample.tiles.items() if tile.values is not None}
    names: list[str] = []

    def kernel(sources, present):  # without annotations, which each run would evaluate
        contents = dict(zip(given, sources, strict=True))
        core = nl.program_id(0) if sample.grid > 1 else 0
        operands, results = {}, {}
        for name, tile in sample.tiles.items():
            placed = place(name, tile, contents.get(name))
            pair = placed if isinstance(placed, tuple) else (placed, placed)
            operands[name], results[name] = pair
        if sample.before is not None:
            sample.before()
        arguments = _arguments(operands, {**sample.settings, **(settings or {})}, core)
        getattr(nisa, sample.instruction)(**arguments)
        shown = {name: results[name] for name in sample.writes}
        if sample.observe is not None:
            shown |= sample.observe()
        names[:] = shown
        return tuple(_stored(tensor, core, sample.grid) for tensor in shown.values())

    # A kernel has at least one tensor among its arguments, also where the call needs none.
    present = None if given else np.zeros((1, 1), np.float32)
    arguments = tuple(copies(given.values())), present
    launched = nkisim.jit(kernel)[sample.grid] if sample.grid > 1 else kernel
    chosen = {"nki": sample.nki, "target": target or sample.targets[-1], **options}
    entered = entry(launched, **chosen)
    if entry is nkisim.check:
        report = entered(*arguments)
        outputs = report.outputs
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NkiFindingWarning)
            outputs = entered(*arguments)
        report = entered.report
    # The kernel is a closure, which the compiler would refuse, and may not use what it is given.
    findings = tuple(f for f in report.findings if f.rule.id[0] not in "LW")
    return Outcome({} if outputs is None else dict(zip(names, outputs, strict=True)), findings)


def _arguments(operands: Mapping[str, Any], settings: Mapping[str, Any], core: int) -> Any:
    """The arguments of the call; operands named ``x[i]`` are the elements of a list ``x``."""
    arguments: dict[str, Any] = {}
    for name, operand in operands.items():
        if name.endswith("]"):
            arguments.setdefault(name.split("[")[0], []).append(operand)
        else:
            arguments[name] = operand
    for name, value in settings.items():
        # Operators of nki.language are callable too, so only functions written here count.
        arguments[name] = value(core) if isinstance(value, type(lambda: 0)) else value
    return arguments


def _stored(tensor: Any, core: int, cores: int) -> Any:
    """An output with the contents of a tensor; of several cores, one row of it each."""
    if tensor.buffer == nl.psum:
        evicted = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=evicted, src=tensor)
        tensor = evicted
    if cores == 1:
        out = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tensor)
    else:
        out = nl.ndarray((cores, *tensor.shape), dtype=tensor.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[core], src=tensor)
    return out
