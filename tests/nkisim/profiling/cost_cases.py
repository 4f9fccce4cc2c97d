"""Cases of costs: the clocks and overheads of the hardware documents, tiles, and the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.arch import resolve_target
from nkisim.profiling.model.program import Capture

ALL = ("trn1", "trn2", "trn3")
LATER = ("trn2", "trn3")

GHZ = {
    "tensor": dict(zip(ALL, (2.8, 2.4, 2.4), strict=True)),
    "vector": dict(zip(ALL, (1.12, 0.96, 1.2), strict=True)),
    "scalar": dict(zip(ALL, (1.4, 1.2, 1.2), strict=True)),
    "gpsimd": dict(zip(ALL, (1.4, 1.2, 1.2), strict=True)),
}
ISSUE = {"trn1": 0, "trn2": 100, "trn3": 100}
"""Cycles that Vector and Scalar add to each instruction."""

VECTOR_TAIL = {"trn1": 300, "trn2": 156, "trn3": 125}
"""From the end of a stream until its result can be read, in ns."""


def sbuf(*shape, dtype=nl.float32):
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0)
    return tile


def psum(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def filled_psum(*shape, dtype=nl.float32):
    tile = psum(*shape, dtype=dtype)
    nisa.memset(dst=tile, value=0)
    return tile


def spread(tile, step, count=512):
    """Return every ``step``-th column of a tile."""
    return tile[:, 0 : step * count : step]


def one_tile(instruction, dtype=nl.float32, names=("dst", "data"), count=512, out=None, **options):
    """Return a call of an instruction with one tile in and one out."""

    def call():
        src = sbuf(128, count, dtype=dtype)
        columns, kind = out or (count, dtype)
        tiles = dict(zip(names, (sbuf(128, columns, dtype=kind), src), strict=True))
        getattr(nisa, instruction)(**tiles, **options)

    return call


def moved_by_register(instruction, count=128, **options):
    """Return a call that reads a tile at an offset that a register holds."""

    def call():
        tile = sbuf(128, 4096)
        view = tile.ap([[4096, 128], [1, count]], scalar_offset=nisa.register_alloc(0))
        operand = "src" if instruction == "tensor_copy" else "data"
        getattr(nisa, instruction)(dst=sbuf(128, count), **{operand: view}, **options)

    return call


@dataclass
class Case:
    """An instruction and its cost; figures may be functions of the target.

    Attributes:
        name: What it shows.
        targets: Generations for which it holds.
        engine: Its engine.
        cycles: Occupancy.
        call: Makes the call, after what it needs.
        tail: From then until the result can be read, in ns; None for any.
        nki: Version of NKI, if it is not the first one.
        fields: Other fields of the cost.
    """

    name: str
    targets: tuple[str, ...]
    engine: str
    cycles: Any
    call: Callable[[], None]
    tail: Any = None
    nki: str = ""
    fields: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def check_cost(case: Case) -> None:
    """Compare the cost of a call on each generation with its figures."""

    def kernel():
        case.call()

    for target in case.targets:

        def of(value, target=target):
            return value(target) if callable(value) else value

        capture = Capture(resolve_target(target))
        options = {"nki": case.nki} if case.nki else {}
        options = {"ignore": ("M050", "M053"), **options}  # only the cost matters
        nkisim.simulate(kernel, target=target, values=False, watchers=(capture,), **options)()
        work = capture.program.operations[-1].work
        assert work.engine.name == case.engine, target
        assert work.busy * GHZ[case.engine][target] == pytest.approx(of(case.cycles)), target
        if case.tail is not None:
            assert work.tail == pytest.approx(of(case.tail)), target
        wanted = {name: of(value) for name, value in case.fields.items()}
        assert {name: getattr(work, name) for name in wanted} == pytest.approx(wanted), target
