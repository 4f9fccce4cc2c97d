"""The two counter-based engines: Philox-4x32-10 and Threefry-4x32-20.

An engine maps a counter of four 32-bit words and a key to four pseudorandom words (Salmon, Moraes,
Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11). It has no state: the words of any
counter can be computed directly, in any order, on any device.

``philox`` and ``threefry`` are generic in the type of a word: int64 tensors, int64 arrays or, with
``number=numpy.uint64``, the scalars of a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnrand._kernels.definitions import (
    MASK,
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    THREEFRY_ROUNDS,
)
from trnrand.errors import DTypeError, FlagError, ShapeError

__all__ = [
    "ENGINES",
    "MASK",
    "PHILOX_M0",
    "PHILOX_M1",
    "PHILOX_ROUNDS",
    "PHILOX_W0",
    "PHILOX_W1",
    "THREEFRY_PARITY",
    "THREEFRY_ROTATIONS",
    "THREEFRY_ROUNDS",
    "Engine",
    "EngineName",
    "block_function",
    "engine_named",
    "philox",
    "philox4x32",
    "threefry",
    "threefry4x32",
]

EngineName = Literal["philox", "threefry"]
Block: TypeAlias = Callable[..., tuple[Any, Any, Any, Any]]
Step: TypeAlias = Callable[..., tuple[Any, ...]]


def _plain(function: Any) -> Any:
    return function


def philox(
    rounds: int = PHILOX_ROUNDS,
    number: Callable[[int], Any] = int,
    compiled: Callable[[Any], Any] = _plain,
) -> Block:
    """Return Philox-4x32 as a function of four counter words and two key words.

    Args:
        rounds: Number of rounds; 10 is the standard engine.
        number: Type of the constants, equal to the type of the words.
        compiled: Decorator of the function, such as ``numba.njit``.
    """
    m0, m1, w0, w1 = number(PHILOX_M0), number(PHILOX_M1), number(PHILOX_W0), number(PHILOX_W1)
    mask, half = number(MASK), number(32)

    def block(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
        for _ in range(rounds):
            # In int64 the products wrap and the shifts extend the sign: the masks remove both.
            # Low halves are masked when they become multiplicands.
            p0 = c0 * m0
            p1 = c2 * m1
            c0 = p1 >> half
            c0 ^= c1
            c0 ^= k0
            c0 &= mask
            c2 = p0 >> half
            c2 ^= c3
            c2 ^= k1
            c2 &= mask
            c1 = p1
            c3 = p0
            k0 = (k0 + w0) & mask
            k1 = (k1 + w1) & mask
        return c0, c1 & mask, c2, c3 & mask

    return compiled(block)


def threefry(
    rounds: int = THREEFRY_ROUNDS,
    number: Callable[[int], Any] = int,
    compiled: Callable[[Any], Any] = _plain,
) -> Block:
    """Return Threefry-4x32 as a function of four counter words and four key words.

    Args:
        rounds: Number of rounds; 20 is the standard engine.
        number: Type of the constants, equal to the type of the words.
        compiled: Decorator of the function of each step, such as ``numba.njit``.
    """
    parity, mask = number(THREEFRY_PARITY), number(MASK)
    turns = [THREEFRY_ROTATIONS[r % 8] for r in range(rounds)]
    whole = rounds - rounds % 4
    # Few long steps: numba takes seconds to inline many short ones.
    steps = [_threefry_group(turns[r : r + 4], r // 4 + 1, number) for r in range(0, whole, 4)]
    steps += [_threefry_round(*turn, number) for turn in turns[whole:]]
    steps = [compiled(step) for step in steps]
    mixed = _in_turn(steps) if compiled is _plain else _nested(steps, compiled)
    exchanged = rounds % 2 == 1

    def block(
        c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, k2: Any, k3: Any
    ) -> tuple[Any, Any, Any, Any]:
        k4 = k0 ^ k1 ^ k2 ^ k3 ^ parity
        a1, a3 = (c1 + k1) & mask, (c3 + k3) & mask
        a0, a1, a2, a3, _, _, _, _, _ = mixed(c0 + k0, a1, c2 + k2, a3, k1, k2, k3, k4, k0)
        a0, a2 = a0 & mask, a2 & mask
        return (a0, a3, a2, a1) if exchanged else (a0, a1, a2, a3)

    return compiled(block)


# The steps of Threefry map four words a and the key, rotated so that k0 is the next word to inject,
# to the same nine values. a0 and a2 are only added to, so they are masked once at the end: 20
# rounds add less than 2**38. a1 and a3 are shifted down, and always below 2**32.


def _threefry_round(left1: int, left3: int, number: Callable[[int], Any]) -> Step:
    mask = number(MASK)
    up1, up3, down1, down3 = (number(n) for n in (left1, left3, 32 - left1, 32 - left3))

    # Even rounds mix (a0, a1) and (a2, a3), odd rounds (a0, a3) and (a2, a1). A single round mixes
    # (a0, a1) and (a2, a3) and returns a1 and a3 swapped; the second round undoes the swap.
    def mixed(
        a0: Any, a1: Any, a2: Any, a3: Any, k0: Any, k1: Any, k2: Any, k3: Any, k4: Any
    ) -> tuple[Any, ...]:
        a0 = a0 + a1
        b1 = a1 << up1
        b1 |= a1 >> down1
        b1 ^= a0
        b1 &= mask
        a2 = a2 + a3
        b3 = a3 << up3
        b3 |= a3 >> down3
        b3 ^= a2
        b3 &= mask
        return a0, b3, a2, b1, k0, k1, k2, k3, k4

    return mixed


def _threefry_group(
    turns: Sequence[tuple[int, int]], times: int, number: Callable[[int], Any]
) -> Step:
    """Return four rounds and the injection of the key after them."""
    mask, times = number(MASK), number(times)
    (u0, v0), (u1, v1), (u2, v2), (u3, v3) = [(number(i), number(j)) for i, j in turns]
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = [(number(32 - i), number(32 - j)) for i, j in turns]

    def group(
        a0: Any, a1: Any, a2: Any, a3: Any, k0: Any, k1: Any, k2: Any, k3: Any, k4: Any
    ) -> tuple[Any, ...]:
        a0 = a0 + a1
        a1 = a1 << u0 | a1 >> x0
        a1 ^= a0
        a1 &= mask
        a2 = a2 + a3
        a3 = a3 << v0 | a3 >> y0
        a3 ^= a2
        a3 &= mask

        a0 = a0 + a3
        a3 = a3 << u1 | a3 >> x1
        a3 ^= a0
        a3 &= mask
        a2 = a2 + a1
        a1 = a1 << v1 | a1 >> y1
        a1 ^= a2
        a1 &= mask

        a0 = a0 + a1
        a1 = a1 << u2 | a1 >> x2
        a1 ^= a0
        a1 &= mask
        a2 = a2 + a3
        a3 = a3 << v2 | a3 >> y2
        a3 ^= a2
        a3 &= mask

        a0 = a0 + a3
        a3 = a3 << u3 | a3 >> x3
        a3 ^= a0
        a3 &= mask
        a2 = a2 + a1
        a1 = a1 << v3 | a1 >> y3
        a1 ^= a2
        a1 &= mask

        a1, a3 = (a1 + k1) & mask, (a3 + k3 + times) & mask
        return a0 + k0, a1, a2 + k2, a3, k1, k2, k3, k4, k0

    return group


def _in_turn(steps: Sequence[Step]) -> Step:
    """Return a function that applies the steps in a loop, so that intermediate arrays are freed."""

    def chain(*state: Any) -> tuple[Any, ...]:
        for step in steps:
            state = step(*state)
        return state

    return chain


def _nested(steps: Sequence[Step], compiled: Callable[[Any], Any]) -> Step:
    """Return a function that applies the steps without a loop, so that a compiler inlines them."""
    chain = steps[-1]
    for step in reversed(steps[:-1]):
        chain = compiled(_then(step, chain))
    return chain


def _then(step: Step, rest: Step) -> Step:
    def both(
        a0: Any, a1: Any, a2: Any, a3: Any, k0: Any, k1: Any, k2: Any, k3: Any, k4: Any
    ) -> tuple[Any, ...]:
        b0, b1, b2, b3, j0, j1, j2, j3, j4 = step(a0, a1, a2, a3, k0, k1, k2, k3, k4)
        return rest(b0, b1, b2, b3, j0, j1, j2, j3, j4)

    return both


@dataclass(frozen=True)
class Engine:
    """A counter-based engine.

    Attributes:
        name: Name of the engine in arguments.
        number: Number of the engine in saved states.
        key_words: Number of words of its key.
        make: Function of ``number`` and ``compiled`` that returns the block function.
    """

    name: EngineName
    number: int
    key_words: int
    make: Callable[..., Block]

    def key(self, seed: int) -> tuple[int, ...]:
        """Return the key of a 64-bit seed: its low word, its high word, then zeros."""
        return (seed & MASK, seed >> 32 & MASK, 0, 0)[: self.key_words]


ENGINES: dict[str, Engine] = {
    "philox": Engine("philox", 1, 2, partial(philox, PHILOX_ROUNDS)),
    "threefry": Engine("threefry", 2, 4, partial(threefry, THREEFRY_ROUNDS)),
}
"""The engines by name."""


@cache
def block_function(engine: EngineName) -> Block:
    """Return the block function of an engine for Python integers or int64 tensors."""
    return ENGINES[engine].make(int)


def block_numbers(engine: EngineName, seed: int, index: int, domain: int) -> tuple[np.uint64, ...]:
    """Return the four words of the counter of a block and the key, padded to four words."""
    numbers = (index & MASK, index >> 32, domain, 0, *ENGINES[engine].key(seed), 0, 0)
    return tuple(map(np.uint64, numbers[:8]))


def engine_named(function: str, name: str) -> Engine:
    """Return an engine by name.

    Raises:
        ParameterError: The name is unknown.
    """
    if not isinstance(name, str) or name not in ENGINES:
        raise FlagError(f"{function}: engine must be one of {', '.join(ENGINES)}, got {name!r}")
    return ENGINES[name]


def philox4x32(counter: Tensor, key: Tensor, rounds: int = PHILOX_ROUNDS) -> Tensor:
    """Return the words of Philox-4x32, int64 values in [0, 2**32).

    Args:
        counter: Integers of shape (..., 4).
        key: Integers of shape (..., 2); leading dimensions broadcast with the counter's.
        rounds: Number of rounds.

    Raises:
        ParameterError: A shape or dtype is not as above.
    """
    return _mapped("philox4x32", philox(rounds), counter, key, 2)


def threefry4x32(counter: Tensor, key: Tensor, rounds: int = THREEFRY_ROUNDS) -> Tensor:
    """Return the words of Threefry-4x32, int64 values in [0, 2**32).

    Args:
        counter: Integers of shape (..., 4).
        key: Integers of shape (..., 4); leading dimensions broadcast with the counter's.
        rounds: Number of rounds.

    Raises:
        ParameterError: A shape or dtype is not as above.
    """
    return _mapped("threefry4x32", threefry(rounds), counter, key, 4)


def _mapped(function: str, block: Block, counter: Tensor, key: Tensor, key_words: int) -> Tensor:
    for name, value, length in (("counter", counter, 4), ("key", key, key_words)):
        if not isinstance(value, Tensor) or value.is_floating_point() or value.is_complex():
            raise DTypeError(f"{function}: {name} must be a tensor of integers, got {value!r}")
        if value.ndim == 0 or value.shape[-1] != length:
            raise ShapeError(
                f"{function}: {name} must have {length} words in its last dimension, "
                f"got shape {tuple(value.shape)}"
            )
    words = [*counter.long().unbind(-1), *key.long().unbind(-1)]
    # Words are broadcast to one shape: torch.stack needs it if only counter or key is a batch.
    zeros = torch.zeros_like(words[0] + words[-1])
    return torch.stack(block(*((w & MASK) + zeros for w in words)), dim=-1)
