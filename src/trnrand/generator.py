"""Generators: a seed, a position in its stream, and a share of it.

The position counts samples of the whole stream, over all ranks of a partition. A request of n
samples on rank r of P takes samples [position + r n, position + (r + 1) n) and moves the position
by P n, so that the draws of all ranks, put together, are those of one rank.
"""

from __future__ import annotations

import secrets
import struct
import threading
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

import torch
from torch import Tensor

from trnrand._dispatch import stream
from trnrand._words import INDEX_LIMIT, Domain, Source, unsigned
from trnrand.engines import ENGINES, EngineName, engine_named
from trnrand.errors import ParameterError

if TYPE_CHECKING:
    from trnrand.programs import ProgramBuilder

__all__ = ["Generator", "get_default_generator", "manual_seed"]

_BATCH_SIZE = 512
"""Samples per unit of ``position``, ``advance`` and ``advance_to``."""

# Magic, format, engine, seed, position low and high, children, rank, size; then torch's own state.
_STATE = struct.Struct("<4sHHQQQQQQ")
_MAGIC, _FORMAT = b"trnr", 1


class Generator:
    """A reproducible stream of random numbers, the same on every device and backend.

    Args:
        seed: Any integer that fits 64 bits, signed or not; None takes one from the operating
            system, which ``seed`` then tells.
        device: Where samples are made when a function is not told.
        partition_rank: Which share of every request this generator draws.
        partition_size: How many shares there are.
        engine: ``"philox"`` (Philox-4x32-10) or ``"threefry"`` (Threefry-4x32-20).

    Raises:
        ParameterError: An argument that is not as above.

    Example:
        >>> g = Generator(42)
        >>> trnrand.uniform(3, generator=g)
        tensor([0.6130, 0.4686, 0.0732])
    """

    #: What ``new_program`` makes; the module of programs, which is built on generators, sets it.
    _program_builder: ClassVar[type[ProgramBuilder]]

    def __init__(
        self,
        seed: int | None = None,
        device: str | torch.device = "cpu",
        partition_rank: int = 0,
        partition_size: int = 1,
        engine: str = "philox",
    ) -> None:
        _check_partition("Generator", partition_rank, partition_size)
        self._engine = engine_named("Generator", engine)
        self._device = device
        self._partition_rank = index(partition_rank)
        self._partition_size = index(partition_size)
        self._lock = threading.Lock()
        self._torch: torch.Generator | None = None
        self._offset = 0
        self._children = 0
        self._seed = secrets.randbits(64) if seed is None else _checked_seed("Generator", seed)

    def __repr__(self) -> str:
        share = f", rank {self._partition_rank} of {self._partition_size}"
        return (
            f"Generator(seed={self._seed}, engine={self.engine!r}, offset={self._offset}"
            f"{share if self._partition_size > 1 else ''})"
        )

    # -- what it is --------------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        """The last seed given, or the one that the operating system gave."""
        return self._seed

    @property
    def engine(self) -> EngineName:
        """Name of the engine."""
        return self._engine.name

    @property
    def device(self) -> str | torch.device:
        """Where samples are made when a function is not told, as it was given."""
        return self._device

    @property
    def partition_rank(self) -> int:
        """Which share of every request this generator draws."""
        return self._partition_rank

    @property
    def partition_size(self) -> int:
        """How many shares every request has."""
        return self._partition_size

    @property
    def torch_generator(self) -> torch.Generator:
        """A torch generator with the same seed, for torch's own functions; another stream."""
        with self._lock:
            if self._torch is None:
                self._torch = torch.Generator(device=self._device).manual_seed(self._seed)
            return self._torch

    def manual_seed(self, seed: int) -> Generator:
        """Take a new seed and go back to position 0; the partition stays. Returns itself."""
        value = _checked_seed("manual_seed", seed)
        with self._lock:
            self._seed, self._offset, self._children = value, 0, 0
            if self._torch is not None:
                self._torch.manual_seed(value)
        return self

    # -- where it is -------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Position: how many samples of the whole stream lie before the next request."""
        return self._offset

    def seek(self, offset: int) -> None:
        """Move to a position, exactly.

        Raises:
            ParameterError: It is negative, or not below 2**64.
        """
        self._move("seek", "offset", lambda: _checked_count("seek", "offset", offset))

    def skip(self, samples: int) -> None:
        """Move forward by a number of samples, exactly.

        Raises:
            ParameterError: It is negative, or leads to 2**64 or beyond.
        """
        forward = _checked_count("skip", "samples", samples)
        self._move("skip", "samples", lambda: self._offset + forward)

    def position(self) -> int:
        """Return the position, rounded up to a multiple of 512; ``offset`` is the exact one."""
        return self._counter * _BATCH_SIZE

    def advance(self, n_samples: int) -> None:
        """Move forward in units of 512: both position and distance are rounded up to them.

        ``skip`` is the exact form. Zero moves nothing.

        Raises:
            ParameterError: The number is negative, or leads to 2**64 or beyond.
        """
        batches = _batches(_checked_count("advance", "n_samples", n_samples))
        if batches:
            self._move("advance", "n_samples", lambda: (self._counter + batches) * _BATCH_SIZE)

    def advance_to(self, position: int) -> None:
        """Move to a position, rounded down to a multiple of 512; ``seek`` is the exact form.

        Raises:
            ParameterError: It is negative, or not below 2**64.
        """
        target = _checked_count("advance_to", "position", position)
        self._move("advance_to", "position", lambda: target // _BATCH_SIZE * _BATCH_SIZE)

    @property
    def _counter(self) -> int:
        return _batches(self._offset)

    def _chip_counter_offset(self, n_samples: int) -> int:
        return self._partition_rank * _batches(n_samples) + self._counter

    def _advance_by_elements(self, n_samples: int) -> None:
        self.advance(n_samples)

    def _move(self, function: str, name: str, target: Callable[[], int]) -> None:
        with self._lock:
            offset = target()
            if offset >= INDEX_LIMIT:
                raise ParameterError(f"{function}: {name} must lead below 2**64, got {offset}")
            self._offset = offset

    # -- shares and children -----------------------------------------------------------------------

    def partition(self, rank: int, size: int) -> Generator:
        """Return a generator for one share of every request, at this position.

        Raises:
            ParameterError: ``size`` is less than 1 or ``rank`` not one of 0, ..., size - 1.
        """
        _check_partition("partition", rank, size)
        share = Generator(self._seed, self._device, rank, size, self.engine)
        share._offset = self._offset
        return share

    def share(self, total: int) -> tuple[int, int]:
        """Return where this rank's part of ``total`` begins and ends, as numpy.array_split cuts.

        The first ``total % size`` ranks have one more than the rest.
        """
        each, more = divmod(_checked_count("share", "total", total), self._partition_size)
        start = self._partition_rank * each + min(self._partition_rank, more)
        return start, start + each + (self._partition_rank < more)

    def split(self, n: int = 2) -> list[Generator]:
        """Return n generators with streams of their own, which depend on the seed alone.

        Every call returns the same ones, wherever the position is; the first of them are those of
        a smaller n. Device and partition are this generator's.

        Raises:
            ParameterError: ``n`` is negative.
        """
        return self._offspring(Domain.SPLIT, 0, _checked_count("split", "n", n))

    def spawn(self, n: int) -> list[Generator]:
        """Return n generators with streams of their own, other ones with every call.

        Raises:
            ParameterError: ``n`` is negative.
        """
        more = _checked_count("spawn", "n", n)
        with self._lock:
            first, self._children = self._children, self._children + more
        return self._offspring(Domain.SPAWN, first, more)

    def _offspring(self, domain: Domain, first: int, n: int) -> list[Generator]:
        source = Source(self.engine, self._seed % INDEX_LIMIT, first, torch.device("cpu"))
        words = unsigned(source.slots(domain, n)).tolist()
        return [
            Generator(
                low | high << 32,
                self._device,
                self._partition_rank,
                self._partition_size,
                self.engine,
            )
            for low, high, *_ in words
        ]

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
        """Take this rank's part of a request, and return where it is.

        Args:
            function: What error messages name.
            count: Samples of this rank.
            device: Where they are wanted.
            total: Rows of all ranks, of which this rank has its ``share``; None says that every
                rank takes ``count`` samples.
            each: Samples of a row.

        Raises:
            ParameterError: The stream would end before the request does.
        """
        with self._lock:
            if total is None:
                start, whole = self._partition_rank * count, self._partition_size * count
            else:
                start, whole = self.share(total)[0] * each, total * each
            if self._offset + whole > INDEX_LIMIT:
                raise ParameterError(
                    f"{function}: the stream of a seed has 2**64 samples, got a request for "
                    f"{whole} at position {self._offset}"
                )
            source = Source(self.engine, self._seed % INDEX_LIMIT, self._offset + start, device)
            self._offset += whole
        return source

    def new_program(self) -> ProgramBuilder:
        """Return a builder of programs that stream from this seed, partition and position.

        The program has a position of its own: drawing from it does not move this generator.
        """
        return self._program_builder(seed=self._seed, generator=self)

    # -- saving ------------------------------------------------------------------------------------

    def get_state(self) -> Tensor:
        """Return all of the state, one-dimensional uint8.

        It holds the seed, engine, position, number of children, partition, and the state of
        ``torch_generator`` if that was used. It does not hold the device.
        """
        with self._lock:
            header = _STATE.pack(
                _MAGIC,
                _FORMAT,
                self._engine.number,
                self._seed % INDEX_LIMIT,
                self._offset % INDEX_LIMIT,
                self._offset // INDEX_LIMIT,
                self._children,
                self._partition_rank,
                self._partition_size,
            )
            saved = torch.frombuffer(bytearray(header), dtype=torch.uint8)
            return saved if self._torch is None else torch.cat([saved, self._torch.get_state()])

    def set_state(self, state: Tensor) -> None:
        """Return to a state that ``get_state`` gave, of this or another generator.

        Raises:
            ParameterError: It is no such state.
        """
        if not isinstance(state, Tensor) or state.dtype is not torch.uint8 or state.ndim != 1:
            raise ParameterError("set_state: state must be what get_state returned")
        saved = bytes(state[: _STATE.size].tolist())
        if len(saved) < _STATE.size or saved[:4] != _MAGIC:
            raise ParameterError(f"set_state: state is not of a trnrand Generator: {saved[:4]!r}")
        _, form, engine, seed, low, high, children, rank, size = _STATE.unpack(saved)
        known = {e.number: e for e in ENGINES.values()}
        if form != _FORMAT or engine not in known:
            raise ParameterError(f"set_state: state has unknown format {form} or engine {engine}")
        _check_partition("set_state", rank, size)
        rest = state[_STATE.size :].cpu()
        with self._lock:
            self._engine, self._seed, self._offset = known[engine], seed, low | high << 64
            self._children, self._partition_rank, self._partition_size = children, rank, size
            self._torch = None
            if rest.numel():
                self._torch = torch.Generator(device=self._device)
                self._torch.set_state(rest.clone())

    def __getstate__(self) -> dict[str, Any]:
        return {"state": self.get_state(), "device": self._device}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(0, saved["device"])  # type: ignore[misc]
        self.set_state(saved["state"])


_default: Generator | None = None
_default_lock = threading.Lock()


def manual_seed(seed: int) -> Generator:
    """Replace the default generator by a new one with this seed, and return it.

    References to the old one keep their stream.
    """
    global _default
    fresh = Generator(seed)
    with _default_lock:
        _default = fresh
    return fresh


def get_default_generator() -> Generator:
    """Return the generator of calls that name none; until it is seeded, its seed is random."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Generator()
        return _default


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
