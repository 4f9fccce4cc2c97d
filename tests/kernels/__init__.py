"""Kernels that make a mistake, each with its fix, and kernels that must stay clean.

A twin is one function, named for the rule and, where a rule has several faces, for the face. Its
marks say which lines only the bad or only the good form has, and where the finding is expected;
``kernels.forms`` derives both::

    @twin(f32(64, 128), f32(128, 512), targets=GEN3_UP)
    def S028(a, b):
        ...
        nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # bad here
        nisa.nc_matmul(dst=acc, stationary=b_tile, moving=a_tile)  # good

The bad form makes a mistake that a person would make; the good one differs by the fix only. Both
run on the same inputs unless the fix is on the host, in which case ``fixed=`` gives the inputs of
the good one. With ``cores=2`` both run on two cores, with ``ranks=n`` on n ranks; these have the
same inputs, a ``ByRank`` aside. Forms that share too little to be read together, or whose
parameters differ, are two functions, ``bad_S028`` with the declaration and ``good_S028``.

``source_twin`` declares a twin for a rule that is found in the source; what the bad form does is
legal Python, so both run all the same. Marks may stand in other ``parts=`` than the kernel: in a
helper, in a class.

``advised_twin`` declares a twin for a rule of ``nkisim.profile``: it has advice for the bad form.

``host_twin`` declares a twin for a rule that is decided outside a kernel: both are called without
arguments. ``guard`` declares a legal kernel that a stricter reader would wrongly flag; it must have
no finding at all, or warnings of the one rule that it names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import nkisim

from .forms import form_of

Kernel = Callable[..., Any]
Declaration = Callable[[Kernel], Kernel]
ALL = ("gen2", "gen3", "gen4")
GEN2_3 = ("gen2", "gen3")
GEN3_UP = ("gen3", "gen4")
GEN2 = ("gen2",)
GEN4 = ("gen4",)

TWINS: list[Twin] = []
GUARDS: list[Guard] = []


@dataclass(frozen=True)
class Twin:
    """One mistake and its fix.

    Attributes:
        name: Rule id, with the face of the rule where there are several.
        bad: The kernel with the mistake.
        inputs: Arguments of the bad kernel.
        fixed: Arguments of the good kernel.
        targets: Generations on which the mistake is one.
        on_host: True when both are host code without arguments.
        cores: Launch grid, or None for a kernel without one.
        ranks: Number of ranks.
        in_source: True when the mistake is found in the source.
        advised: True when ``nkisim.profile`` has advice, and no check looks for it.
        parts: Functions and classes beside the bad kernel that hold marks.
        options: Options of the run, for limits that only a long kernel would reach, and for an NKI
            version other than the oldest.
    """

    name: str
    bad: Kernel
    inputs: Sequence[Any] = ()
    fixed: Sequence[Any] = ()
    targets: tuple[str, ...] = ALL
    on_host: bool = False
    cores: int | None = None
    ranks: int = 1
    in_source: bool = False
    advised: bool = False
    parts: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rule(self) -> str:
        """Id of the rule that the bad kernel breaks."""
        return self.name.split("_")[0]

    @property
    def good(self) -> Kernel:
        """The kernel with the fix."""
        return self.bad.__globals__[f"good_{self.name}"]

    @property
    def file(self) -> str:
        """File of the bad kernel."""
        return self.bad.__code__.co_filename

    @property
    def module(self) -> Path:
        """File of ``tests/kernels`` that declares the twin."""
        return Path(__file__).parent / f"{self.bad.__module__.rpartition('.')[2]}.py"

    @cached_property
    def marked_lines(self) -> set[int]:
        """Numbers of the lines of the bad kernel and its parts that end in ``# here``."""
        found: set[int] = set()
        for part in (self.bad, *self.parts):
            lines, first = inspect.getsourcelines(part)
            found |= {first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")}
        return found

    def launched(self, kernel: Kernel) -> Any:
        """One of the two kernels, on the twin's grid."""
        return kernel if self.cores is None else nkisim.jit(kernel)[self.cores]

    def arguments(self, inputs: Sequence[Any]) -> list[Any]:
        """Arguments of a call with these inputs: copies, and for several ranks one list of them."""
        if self.ranks == 1:
            return copies(inputs)
        return [[copies(of_rank(inputs, rank)) for rank in range(self.ranks)]]


@dataclass(frozen=True)
class Guard:
    """A legal kernel; ``warns`` is the rule of which it has warnings, if any."""

    name: str
    kernel: Kernel
    inputs: Sequence[Any]
    targets: tuple[str, ...]
    warns: str = ""


def twin(
    *inputs: Any,
    targets: tuple[str, ...] = ALL,
    fixed: Sequence[Any] | None = None,
    cores: int | None = None,
    ranks: int = 1,
    parts: tuple[Any, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Declaration:
    """Declare the decorated kernel as a twin."""
    options = options or {}
    return _declared(
        inputs, fixed, targets=targets, cores=cores, ranks=ranks, parts=parts, options=options
    )


def source_twin(
    *inputs: Any, parts: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
) -> Declaration:
    """Declare the decorated kernel as a twin whose mistake is found in the source."""
    options = options or {}
    return _declared(inputs, targets=("gen3",), in_source=True, parts=parts, options=options)


def advised_twin(
    *inputs: Any, targets: tuple[str, ...] = ALL, cores: int | None = None
) -> Declaration:
    """Declare the decorated kernel as a twin whose bad form is advised by a profile.

    ``cores`` is the grid of the good one.
    """
    return _declared(inputs, targets=targets, cores=cores, advised=True)


def host_twin(function: Kernel) -> Kernel:
    """Declare the decorated host code as a twin."""
    return _declared(on_host=True)(function)


def _declared(
    inputs: Sequence[Any] = (), fixed: Sequence[Any] | None = None, **given: Any
) -> Declaration:
    """Return the decorator that declares a kernel, or a ``bad_<rule>``, as a twin."""

    def declare(kernel: Kernel) -> Kernel:
        name, bad = kernel.__name__, kernel
        if name.startswith("bad_"):
            name = name.removeprefix("bad_")
        else:
            bad, _ = form_of(kernel, "bad"), form_of(kernel, "good")
        if kernel.__module__.startswith(__name__):  # not a copy of its file
            TWINS.append(Twin(name, bad, inputs, inputs if fixed is None else fixed, **given))
        return kernel

    return declare


def guard(*inputs: Any, targets: tuple[str, ...] = ALL, warns: str = "") -> Declaration:
    """Declare the decorated kernel as one without findings, warnings of ``warns`` aside."""

    def declare(kernel: Kernel) -> Kernel:
        GUARDS.append(Guard(kernel.__name__, kernel, inputs, targets, warns))
        return kernel

    return declare


@dataclass(frozen=True)
class ByRank:
    """An input with a value of its own on every rank."""

    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return ", ".join(f"{value} on rank {rank}" for rank, value in enumerate(self.values))


def of_rank(inputs: Sequence[Any], rank: int) -> list[Any]:
    """Return the inputs of one rank."""
    return [value.values[rank] if isinstance(value, ByRank) else value for value in inputs]


def copies(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs with every array copied, since a kernel may write into its arguments."""
    return [value.copy() if isinstance(value, np.ndarray) else value for value in inputs]


# -- inputs ---------------------------------------------------------------------------------------


def f32(*shape: int) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def bf16(*shape: int) -> np.ndarray:
    """Normal bfloat16 numbers."""
    return f32(*shape).astype(ml_dtypes.bfloat16)


def f16(*shape: int) -> np.ndarray:
    """Normal float16 numbers."""
    return f32(*shape).astype(np.float16)


def f8(*shape: int) -> np.ndarray:
    """Normal float8_e4m3 numbers."""
    return f32(*shape).astype(ml_dtypes.float8_e4m3)


def ints(dtype: type, *shape: int, below: int = 8) -> np.ndarray:
    """Integers from 0 to ``below`` (not included) of a NumPy type."""
    return np.random.default_rng(0).integers(0, below, shape).astype(dtype)


def i32(*shape: int, below: int = 8) -> np.ndarray:
    """Small int32 numbers."""
    return ints(np.int32, *shape, below=below)


def u32(*shape: int, below: int = 8) -> np.ndarray:
    """Small uint32 numbers."""
    return ints(np.uint32, *shape, below=below)
