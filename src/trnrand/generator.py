"""Generators: a seed, a position in its stream, and a rank of a partition.

The position counts samples of the whole stream, over all ranks of a partition. A request of n
samples on rank r of P takes samples [position + r n, position + (r + 1) n) and moves the position
by P n, so the concatenated draws of all ranks equal the draws of one unpartitioned generator.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from operator import index
from typing import Any, ClassVar, Protocol, Self, SupportsIndex

import torch
from torch import Tensor

from trnrand._paths.samples import stream
from trnrand._stream.prefetch import Prefetch, Stretch
from trnrand._stream.state import (
    CHILDREN,
    ENGINE,
    FORKS,
    OFFSET,
    OFFSET_HIGH,
    RANK,
    SEED,
    SEED_NEGATIVE,
    SIZE,
    new_state,
    packed,
    slots_of,
    unpacked,
)
from trnrand._stream.words import INDEX_LIMIT, Domain, Source, unsigned
from trnrand.engines import ENGINES, EngineName, engine_named
from trnrand.errors import ParameterError

__all__ = ["Generator", "Program", "ProgramSteps"]

_BATCH_SIZE = 512
"""Samples per unit of ``position``, ``advance`` and ``advance_to``."""

_ENGINES = {engine.number: engine for engine in ENGINES.values()}

# Held while a position is moved. One lock for all generators, since several may share one state.
_lock = threading.Lock()


class Program(Protocol):
    """A sequence of draws with its own position; ``GeneratorProgram`` implements it."""

    def stream_into(self, buffers: Mapping[str, Tensor]) -> None:
        """Fill the named buffers, step after step; the next call continues the stream."""


class ProgramSteps(Protocol):
    """Builder of a program; every step returns the builder. ``ProgramBuilder`` implements it."""

    def normal(self, n: int, mean: float = 0.0, std: float = 1.0, out: str = "z") -> Self:
        """Add a draw of n normals."""

    def uniform(self, n: int, low: float = 0.0, high: float = 1.0, out: str = "u") -> Self:
        """Add a draw of n uniforms on [low, high)."""

    def exponential(self, n: int, rate: float = 1.0, out: str = "e") -> Self:
        """Add a draw of n exponentials."""

    def build(self) -> Program:
        """Return the program."""


class Generator:
    """A reproducible stream of random numbers, the same on every device and backend.

    Args:
        seed: Any integer that fits 64 bits, signed or not; None takes one from the operating
            system, which the attribute ``seed`` then holds.
        device: Default device of the samples.
        partition_rank: Rank of this generator: the share of every request that it draws.
        partition_size: Number of ranks.
        engine: ``"philox"`` (Philox-4x32-10) or ``"threefry"`` (Threefry-4x32-20).

    Raises:
        ParameterError: An argument is invalid.

    Example:
        >>> g = Generator(42)
        >>> trnrand.uniform(3, generator=g)
        tensor([0.6130, 0.4686, 0.0732])
    """

    #: Makes the builders of ``new_program``; set by ``trnrand.programs``, which is built on this.
    _program_builder: ClassVar[Callable[[int, Generator], ProgramSteps]]

    def __init__(
        self,
        seed: int | None = None,
        device: str | torch.device = "cpu",
        partition_rank: int = 0,
        partition_size: int = 1,
        engine: str = "philox",
    ) -> None:
        _check_partition("Generator", partition_rank, partition_size)
        self._over(new_state(), device)
        self._slots[ENGINE] = engine_named("Generator", engine).number
        self._slots[RANK], self._slots[SIZE] = index(partition_rank), index(partition_size)
        self._put_seed(secrets.randbits(64) if seed is None else _checked_seed("Generator", seed))

    def _over(self, state: Tensor, device: str | torch.device) -> None:
        self._state = state
        self._slots = slots_of(state)
        self._device = device
        self._torch: torch.Generator | None = None
        #: Prefetch buffers for small draws; derived from the state, and not part of it.
        self.prefetch = Prefetch()

    @classmethod
    def over(cls, state: Tensor, device: str | torch.device) -> Generator:
        """Return a generator that reads and writes a given state."""
        made = cls.__new__(cls)
        made._over(state, device)
        return made

    def _put_seed(self, seed: int) -> None:
        self._slots[SEED], self._slots[SEED_NEGATIVE] = seed % INDEX_LIMIT, seed < 0

    def __repr__(self) -> str:
        share = f", rank {self.partition_rank} of {self.partition_size}"
        return (
            f"Generator(seed={self.seed}, engine={self.engine!r}, offset={self.offset}"
            f"{share if self.partition_size > 1 else ''})"
        )

    # -- identity ----------------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        """The last seed that was set, or the one taken from the operating system."""
        slots = self._slots
        return slots[SEED] - INDEX_LIMIT if slots[SEED_NEGATIVE] else slots[SEED]

    @property
    def engine(self) -> EngineName:
        """Name of the engine."""
        return _ENGINES[self._slots[ENGINE]].name

    @property
    def stream(self) -> tuple[int, int]:
        """Identity of the stream: number of the engine and the 64 bits of the seed."""
        return self._slots[ENGINE], self._slots[SEED]

    @property
    def device(self) -> str | torch.device:
        """Default device of the samples, as passed to the constructor."""
        return self._device

    @property
    def partition_rank(self) -> int:
        """Rank of this generator: the share of every request that it draws."""
        return self._slots[RANK]

    @property
    def partition_size(self) -> int:
        """Number of ranks that share every request."""
        return self._slots[SIZE]

    @property
    def torch_generator(self) -> torch.Generator:
        """A torch generator with the same seed, for torch's functions; its stream is different."""
        with _lock:
            if self._torch is None:
                self._torch = torch.Generator(device=self._device).manual_seed(self.seed)
            return self._torch

    def manual_seed(self, seed: int) -> Generator:
        """Set the seed and position 0, keep the partition, and return the generator."""
        value = _checked_seed("manual_seed", seed)
        with _lock:
            self._put_seed(value)
            for slot in (OFFSET, OFFSET_HIGH, CHILDREN, FORKS):
                self._slots[slot] = 0
            if self._torch is not None:
                self._torch.manual_seed(value)
        return self

    # -- position ----------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Position: number of samples of the whole stream before the next request."""
        return self._slots[OFFSET] | self._slots[OFFSET_HIGH] << 64

    def seek(self, offset: int) -> None:
        """Move to an exact position.

        Raises:
            ParameterError: ``offset`` is negative, or not below 2**64.
        """
        self._move("seek", "offset", lambda: _checked_count("seek", "offset", offset))

    def skip(self, samples: int) -> None:
        """Move forward by an exact number of samples.

        Raises:
            ParameterError: ``samples`` is negative, or leads to 2**64 or beyond.
        """
        forward = _checked_count("skip", "samples", samples)
        self._move("skip", "samples", lambda: self.offset + forward)

    def position(self) -> int:
        """Return the position, rounded up to a multiple of 512; ``offset`` is the exact one."""
        return self._counter * _BATCH_SIZE

    def advance(self, n_samples: int) -> None:
        """Move forward in units of 512: both position and distance are rounded up to a multiple.

        ``skip`` does not round. Zero does not move the generator.

        Raises:
            ParameterError: ``n_samples`` is negative, or leads to 2**64 or beyond.
        """
        batches = _batches(_checked_count("advance", "n_samples", n_samples))
        if batches:
            self._move("advance", "n_samples", lambda: (self._counter + batches) * _BATCH_SIZE)

    def advance_to(self, position: int) -> None:
        """Move to a position, rounded down to a multiple of 512; ``seek`` does not round.

        Raises:
            ParameterError: ``position`` is negative, or not below 2**64.
        """
        target = _checked_count("advance_to", "position", position)
        self._move("advance_to", "position", lambda: target // _BATCH_SIZE * _BATCH_SIZE)

    def _move(self, function: str, name: str, target: Callable[[], int]) -> None:
        with _lock:
            offset = target()
            if offset >= INDEX_LIMIT:
                raise ParameterError(f"{function}: {name} must lead below 2**64, got {offset}")
            self._slots[OFFSET], self._slots[OFFSET_HIGH] = offset, 0

    # -- partitions and children -------------------------------------------------------------------

    def partition(self, rank: int, size: int) -> Generator:
        """Return a generator for one rank of a partition, at this position.

        The new generator continues the numbering of spawned children, so that its first child is
        not one that this generator has spawned.

        Raises:
            ParameterError: ``size`` is less than 1 or ``rank`` not one of 0, ..., size - 1.
        """
        _check_partition("partition", rank, size)
        share = Generator(self.seed, self._device, rank, size, self.engine)
        with _lock:
            for slot in (OFFSET, OFFSET_HIGH, CHILDREN):
                share._slots[slot] = self._slots[slot]
        return share

    def share(self, total: int) -> tuple[int, int]:
        """Return (start, stop) of this rank's rows out of ``total``, as numpy.array_split.

        The first ``total % size`` ranks have one row more than the rest.
        """
        each, more = divmod(_checked_count("share", "total", total), self.partition_size)
        rank = self.partition_rank
        start = rank * each + min(rank, more)
        return start, start + each + (rank < more)

    def split(self, n: int = 2) -> list[Generator]:
        """Return n generators with independent streams that depend on the seed alone.

        Every call returns the same generators, at any position; a smaller n returns the first of
        them. Device and partition are copied.

        Raises:
            ParameterError: ``n`` is negative.
        """
        return self._offspring(Domain.SPLIT, 0, _checked_count("split", "n", n))

    def spawn(self, n: int) -> list[Generator]:
        """Return n generators with independent streams, different ones with every call.

        Raises:
            ParameterError: ``n`` is negative.
        """
        more = _checked_count("spawn", "n", n)
        with _lock:
            first = self._slots[CHILDREN]
            self._slots[CHILDREN] = first + more
        return self._offspring(Domain.SPAWN, first, more)

    def renew_after_fork(self, number: int) -> None:
        """Replace the seed by one derived from it and the number of the fork, at position 0."""
        self.manual_seed(*self._derived_seeds(Domain.FORK, number, 1))

    def count_fork(self) -> int:
        """Return the number of forks since the generator was seeded, and increment it."""
        number = self._slots[FORKS]
        self._slots[FORKS] = number + 1
        return number

    def _offspring(self, domain: Domain, first: int, n: int) -> list[Generator]:
        rank, size = self.partition_rank, self.partition_size
        return [
            Generator(seed, self._device, rank, size, self.engine)
            for seed in self._derived_seeds(domain, first, n)
        ]

    def _derived_seeds(self, domain: Domain, first: int, n: int) -> list[int]:
        source = Source(self.engine, self._slots[SEED], first, torch.device("cpu"))
        return [low | high << 32 for low, high, *_ in unsigned(source.slots(domain, n)).tolist()]

    # -- drawing -----------------------------------------------------------------------------------

    def words(self, count: int) -> Tensor:
        """Return the next ``count`` words of 32 bits, int64 values in [0, 2**32)."""
        n = _checked_count("words", "count", count)
        source = self.reserve("words", n, torch.device(self._device))
        return unsigned(stream("words", source, n, torch.int32))

    def reserve(
        self,
        function: str,
        count: int,
        device: torch.device,
        total: int | None = None,
        each: int = 1,
    ) -> Source:
        """Move past a request, and return the source of this rank's samples.

        Args:
            function: Name of the called function, for error messages.
            count: Number of samples of this rank.
            device: Device of the samples.
            total: Number of rows of all ranks; this rank draws its ``share``. None if every rank
                draws ``count`` samples.
            each: Number of samples of a row.

        Raises:
            ParameterError: The request extends past the end of the stream.
        """
        slots = self._slots
        if total is None:
            start, whole = slots[RANK] * count, slots[SIZE] * count
        else:
            start, whole = self.share(total)[0] * each, total * each
        with _lock:
            offset = slots[OFFSET] | slots[OFFSET_HIGH] << 64
            after = offset + whole
            if after > INDEX_LIMIT:
                raise ParameterError(
                    f"{function}: the stream of a seed has 2**64 samples, got a request for "
                    f"{whole} at position {offset}"
                )
            slots[OFFSET], slots[OFFSET_HIGH] = after % INDEX_LIMIT, after // INDEX_LIMIT
        return Source(self.engine, slots[SEED], offset + start, device)

    def take(self, stretch: Stretch, count: int) -> int | None:
        """Move past the next ``count`` samples if a stretch holds them; return their index in it.

        Otherwise, return None and do not move.
        """
        slots = self._slots
        with _lock:
            begin = (slots[OFFSET] | slots[OFFSET_HIGH] << 64) - stretch.first
            if not 0 <= begin <= stretch.length - count or slots[SIZE] != 1:
                return None
            if (slots[ENGINE], slots[SEED]) != stretch.stream:
                return None
            slots[OFFSET] += count
        return begin

    def new_program(self) -> ProgramSteps:
        """Return a ``ProgramBuilder`` with this seed, engine, partition and position.

        A program has its own position: drawing from it does not move this generator.
        """
        return type(self)._program_builder(self.seed, self)

    # -- saving ------------------------------------------------------------------------------------

    def get_state(self) -> Tensor:
        """Return the state as a one-dimensional uint8 tensor.

        It holds the seed, engine, position, numbers of children and of forks, partition, and the
        state of ``torch_generator`` if that was used. It does not hold the device.
        """
        with _lock:
            saved = packed(self._slots)
            return saved if self._torch is None else torch.cat([saved, self._torch.get_state()])

    def set_state(self, state: Tensor) -> None:
        """Restore a state that ``get_state`` of this or another generator returned.

        Raises:
            ParameterError: ``state`` is not such a tensor.
        """
        numbers, rest = unpacked(state)
        offset = numbers[OFFSET] | numbers[OFFSET_HIGH] << 64
        if numbers[ENGINE] not in _ENGINES or offset > INDEX_LIMIT or numbers[SEED_NEGATIVE] > 1:
            raise ParameterError(f"set_state: state has numbers without a meaning: {numbers}")
        _check_partition("set_state", numbers[RANK], numbers[SIZE])
        with _lock:
            for slot, number in enumerate(numbers):
                self._slots[slot] = number
            self._torch = None
            if rest.numel():
                self._torch = torch.Generator(device=self._device)
                self._torch.set_state(rest.clone())

    def clone_state(self) -> Generator:
        """Return an independent generator with the same state."""
        copy = Generator(0, self._device)
        copy.set_state(self.get_state())
        return copy

    # -- names of the published Generator ----------------------------------------------------------

    # New code uses ``partition_rank`` and ``partition_size``.
    _partition_rank, _partition_size = partition_rank, partition_size

    @property
    def _counter(self) -> int:
        """Position in units of 512 samples, rounded up; new code uses ``offset``."""
        return _batches(self.offset)

    def _chip_counter_offset(self, n_samples: int) -> int:
        """Return the first unit of this rank's share of a request; new code uses ``share``."""
        return self.partition_rank * _batches(n_samples) + self._counter

    def _advance_by_elements(self, n_samples: int) -> None:
        """Move forward in units of 512; new code uses ``skip``."""
        self.advance(n_samples)

    # -- pickling ----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {"state": self.get_state(), "device": self._device}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(0, saved["device"])  # type: ignore[misc]
        self.set_state(saved["state"])


def _batches(samples: int) -> int:
    return -(-samples // _BATCH_SIZE)


def _whole(function: str, name: str, value: SupportsIndex) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        raise ParameterError(f"{function}: {name} must be an integer, got {value!r}") from None


def _checked_count(function: str, name: str, value: SupportsIndex) -> int:
    count = _whole(function, name, value)
    if count < 0:
        raise ParameterError(f"{function}: {name} must be non-negative, got {count}")
    return count


def _checked_seed(function: str, seed: SupportsIndex) -> int:
    value = _whole(function, "seed", seed)
    if not -(1 << 63) <= value < INDEX_LIMIT:
        raise ParameterError(f"{function}: seed must fit 64 bits, got {value}")
    return value


def _check_partition(function: str, rank: SupportsIndex, size: SupportsIndex) -> None:
    shares = _whole(function, "partition_size", size)
    if shares < 1:
        raise ParameterError(f"{function}: partition_size must be at least 1, got {shares}")
    which = _whole(function, "partition_rank", rank)
    if not 0 <= which < shares:
        raise ParameterError(f"{function}: partition_rank must be in [0, {shares}), got {which}")
