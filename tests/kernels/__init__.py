"""Kernels that make a mistake, each beside its repaired twin, and kernels that must stay clean.

A twin is a pair of module-level functions named for the rule and, where a rule has several faces,
for the face::

    @twin(f32(64, 128), f32(128, 512), targets=GEN3_UP)
    def bad_S028(a, b):
        ...
        nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here

    def good_S028(a, b):
        ...

The bad one makes a mistake that a person would make and marks the line (or lines) where it must
be found with ``# here``; the good one differs by the fix only. Both run on the same inputs unless
the fix is on the host, in which case ``fixed=`` gives the good twin's inputs. With ``cores=2``
both run on two cores, with ``ranks=n`` on n ranks; these have the same inputs, a ``ByRank`` aside.

``source_twin`` declares a pair for a rule that is found in the source; what the bad one does is
legal Python, so both run all the same. Marks may stand in other ``parts=`` than the kernel: in a
helper, in a class.

``advised_twin`` declares a pair for a rule of ``nkisim.profile``: it has advice for the bad one.

``host_twin`` declares a pair for a rule that is decided outside a kernel: both are called without
arguments. ``guard`` declares a legal kernel that a stricter reader would wrongly flag; it must have
no finding at all, or warnings of the one rule that it names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

import nkisim

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
    bad: Callable[..., Any]
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
    def good(self) -> Callable[..., Any]:
        """The repaired kernel: the function of the matching name in the same module."""
        return self.bad.__globals__[f"good_{self.name}"]

    @property
    def file(self) -> str:
        """File that holds both."""
        return self.bad.__code__.co_filename

    @cached_property
    def marked_lines(self) -> set[int]:
        """Numbers of the lines of the bad kernel and its parts that end in ``# here``."""
        found: set[int] = set()
        for part in (self.bad, *self.parts):
            lines, first = inspect.getsourcelines(part)
            found |= {first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")}
        return found

    def launched(self, kernel: Callable[..., Any]) -> Any:
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
    kernel: Callable[..., Any]
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
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated ``bad_<rule>`` and the ``good_<rule>`` of its module as a twin."""

    def declare(bad: Callable[..., Any]) -> Callable[..., Any]:
        good_inputs = inputs if fixed is None else fixed
        found = Twin(
            bad.__name__.removeprefix("bad_"),
            bad,
            inputs,
            good_inputs,
            targets,
            cores=cores,
            ranks=ranks,
            parts=parts,
            options=options or {},
        )
        TWINS.append(found)
        return bad

    return declare


def source_twin(
    *inputs: Any, parts: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated ``bad_<rule>`` and its ``good_<rule>`` as found in the source."""

    def declare(bad: Callable[..., Any]) -> Callable[..., Any]:
        name = bad.__name__.removeprefix("bad_")
        made = Twin(
            name,
            bad,
            inputs,
            inputs,
            ("gen3",),
            in_source=True,
            parts=parts,
            options=options or {},
        )
        TWINS.append(made)
        return bad

    return declare


def advised_twin(
    *inputs: Any, targets: tuple[str, ...] = ALL, cores: int | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated ``bad_<rule>`` and its ``good_<rule>`` as found by a profile.

    ``cores`` is the grid of the good one.
    """

    def declare(bad: Callable[..., Any]) -> Callable[..., Any]:
        name = bad.__name__.removeprefix("bad_")
        TWINS.append(Twin(name, bad, inputs, inputs, targets, cores=cores, advised=True))
        return bad

    return declare


def host_twin(bad: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the decorated ``bad_<rule>`` and its ``good_<rule>`` as host code."""
    TWINS.append(Twin(bad.__name__.removeprefix("bad_"), bad, on_host=True))
    return bad


def guard(
    *inputs: Any, targets: tuple[str, ...] = ALL, warns: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated kernel as one without findings, warnings of ``warns`` aside."""

    def declare(kernel: Callable[..., Any]) -> Callable[..., Any]:
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
