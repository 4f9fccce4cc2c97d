"""Sobol' points, plain or scrambled.

Scrambling has the variances of Owen's nested uniform scrambling. If two points agree in the first k
binary digits of a coordinate and differ in the next one, they do so after scrambling too, and their
later digits are independent and uniform; this determines every variance (A. B. Owen, "Variance with
alternative scramblings of digital nets", ACM TOMACS 13, 2003). The first LEVELS digits are
scrambled by nested uniform permutations: a tree with a random bit at every node. The digits below
are multiplied by one random triangular matrix per dimension, then shifted at random per leaf. A
coordinate is thus a table lookup and an exclusive or; nested permutations of all digits would need
a hash for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from trnrand._library import no_kernel
from trnrand._stream import numba_loops
from trnrand.errors import FlagError
from trnrand.qmc._arguments import floating, given_once
from trnrand.qmc._directions import (
    BITS,
    WORD,
    gray_block,
    gray_point,
    joe_kuo,
    linearly_scrambled,
    word_bits,
)
from trnrand.qmc._engine import PointEngine
from trnrand.qmc._seeding import checked_seed, random_numbers, seed_from

if TYPE_CHECKING:
    from trnrand.generator import Generator

Scramble = bool | Literal["owen", "linear"]

#: Number of leading binary digits that the tree permutes.
LEVELS = 10

# Columns are computed in groups with trees (4 KiB each) that fit in the level-2 cache, and rows in
# blocks of as many words, which also fit and amortise a dozen NumPy calls each.
_GROUP = 256
_BLOCK = 1 << 16
# The overhead of shorter inner loops exceeds their work.
_ROW = 512
# Smaller draws do not amortise half a second of compilation.
_COMPILED_SIZE = 1 << 19

# ``purpose`` in random_numbers().
_TREE, _MATRIX, _SHIFT = 1, 2, 3


class _Columns:
    """A group of neighbouring dimensions of a sequence, with their scrambling."""

    def __init__(self, directions: np.ndarray, dims: np.ndarray, method: str, seed: int) -> None:
        self.directions = directions
        self.tree: np.ndarray | None = None
        self.shift = np.zeros_like(directions[0])
        if method == "none":
            return
        word = word_bits(directions)
        # The triangular matrix of the nested method starts below the tree.
        first = LEVELS if method == "owen" else 0
        # The leading digits of a random number, so that words of 32 bits begin like words of 64
        # bits.
        matrix = random_numbers(seed, _MATRIX, dims, word - first) >> (64 - word)
        self.directions = linearly_scrambled(directions, matrix.astype(directions.dtype), first)
        if method == "owen":
            self.tree = _tree(random_numbers(seed, _TREE, dims, 1 << LEVELS), word)
        else:
            shift = random_numbers(seed, _SHIFT, dims, 1)[:, 0] >> (64 - word)
            self.shift = shift.astype(directions.dtype)

    def fill(self, out: np.ndarray, start: int, digits: int) -> None:
        """Write the points from ``start`` on into rows of floats, truncated to ``digits`` bits."""
        count, width = out.shape
        bits = _block_bits(count, width)
        rows = 1 << bits
        first, last = start >> bits, (start + count - 1) >> bits
        points = gray_block(self.directions, bits)
        corner = gray_point(self.directions, first << bits) ^ self.shift
        word = word_bits(points)
        cut = word - min(digits, word)
        block: _Block | _CompiledBlock
        compiled = word == WORD and numba_loops.compiled_wanted(out.size, _COMPILED_SIZE)
        if self.tree is not None and compiled:
            block = _CompiledBlock(points, corner, self.directions, self.tree, cut)
        else:
            block = _Block(points, corner, self.directions, self.tree, cut)
        for number in range(first, last + 1):
            begin = max(start - (number << bits), 0)
            end = min(start + count - (number << bits), rows)
            at = (number << bits) + begin - start
            block.write(out[at : at + end - begin], begin)
            if number < last:
                # The next block differs in one bit of its Gray code, and in the bit below it.
                after = number + 1
                block.move(bits + (after & -after).bit_length() - 1, bits - 1)


class _Block:
    """The points of an aligned block: the points of the first block, xored with a corner.

    Args:
        points: Words of the first block, a point in each row.
        corner: The first point of the block.
        directions: Directions of the columns.
        tree: Tree of nested scrambling, or None.
        cut: Number of bits to drop at the end of a word.
    """

    def __init__(
        self,
        points: np.ndarray,
        corner: np.ndarray,
        directions: np.ndarray,
        tree: np.ndarray | None,
        cut: int,
    ) -> None:
        # Several points form one row, so that broadcast operations have long inner loops.
        rows, width = points.shape
        together = min(rows, max(1, 1 << (_ROW // width).bit_length()))
        points = points.reshape(-1, together * width)
        corner, directions = np.tile(corner, together), np.tile(directions, together)
        word = word_bits(points)
        low = word - LEVELS
        mask = (1 << (low if tree is not None else word)) - 1
        self.width, self.scale = width, 2.0 ** (cut - word)
        self.tree = None if tree is None else _cut(tree, cut)
        self.points, self.corner, self.directions = (
            _cut(words & mask, cut) for words in (points, corner, directions)
        )
        self.plain = not self.points.any()
        self.result = np.empty_like(self.points)
        if tree is not None:
            self.leaves, self.corner_leaf, self.direction_leaves = (
                (words >> low).astype(np.intp) for words in (points, corner, directions)
            )
            self.leaves |= np.tile(np.arange(width) << LEVELS, together)
            self.at = np.empty_like(self.leaves)

    def write(self, out: np.ndarray, begin: int) -> None:
        """Write points of the block from row ``begin`` on, as many as ``out`` has rows."""
        if self.tree is None:
            np.bitwise_xor(self.points, self.corner, out=self.result)
        else:
            np.bitwise_xor(self.leaves, self.corner_leaf, out=self.at)
            # This mode avoids a copy; no index is out of range.
            self.tree.take(self.at, out=self.result, mode="wrap")
            if not self.plain:
                self.result ^= self.points
            self.result ^= self.corner
        words = self.result.reshape(-1, self.width)[begin : begin + len(out)]
        scale = out.dtype.type(self.scale)
        np.multiply(words, scale, out=out, dtype=out.dtype, casting="unsafe")

    def move(self, *steps: int) -> None:
        """Go to the corner that differs by some directions."""
        for step in steps:
            self.corner ^= self.directions[step]
            if self.tree is not None:
                self.corner_leaf ^= self.direction_leaves[step]


class _CompiledBlock:
    """A block with nested scrambling that writes the same points in one pass."""

    def __init__(
        self,
        points: np.ndarray,
        corner: np.ndarray,
        directions: np.ndarray,
        tree: np.ndarray,
        cut: int,
    ) -> None:
        from trnrand.qmc._compiled import nested_loop

        self.points, self.corner, self.directions = points, corner, directions
        self.tree, self.cut, self.loop = tree, np.uint32(cut), nested_loop(LEVELS)

    def write(self, out: np.ndarray, begin: int) -> None:
        """Write points of the block from row ``begin`` on, as many as ``out`` has rows."""
        rows = self.points[begin : begin + len(out)]
        self.loop(rows, self.corner, self.tree, self.cut, out)

    def move(self, *steps: int) -> None:
        """Go to the corner that differs by some directions."""
        for step in steps:
            self.corner ^= self.directions[step]


def _cut(words: np.ndarray, bits: int) -> np.ndarray:
    """Return words without their last bits."""
    # Signed if the top bit is free, since signed integers convert to floats faster.
    signed = np.int32 if words.dtype == np.uint32 else np.int64
    return (words >> bits).view(signed) if bits else words


def _block_bits(count: int, width: int) -> int:
    """Return the binary logarithm of the number of rows in a block, at least 1."""
    most = (_BLOCK // width).bit_length() - 1
    return max(1, min(most, (count - 1).bit_length()))


def _tree(random: np.ndarray, word: int) -> np.ndarray:
    """Return the words that replace the top digits, for all dimensions in order.

    Args:
        random: (dims, 2**LEVELS) of uint64. The top bit of number 2**k + p is the bit of the node
            after the k digits of p. The shift below leaf p consists of the lowest bits of number p,
            and with words of 64 bits continues with the 32 above them.
        word: Number of bits of a word.
    """
    nodes = random >> 63
    flips = np.zeros((len(random), 1), np.uint64)
    for level in range(LEVELS):
        size = 1 << level
        flips = np.repeat(flips << 1 | nodes[:, size : 2 * size], 2, axis=1)
    top = np.arange(1 << LEVELS, dtype=np.uint64) ^ flips
    low = WORD - LEVELS
    words = top << low | (random & ((1 << low) - 1))
    if word > WORD:
        words = words << WORD | (random >> low & ((1 << WORD) - 1))
    return words.astype(np.uint32 if word == WORD else np.uint64).reshape(-1)


class SobolEngine(PointEngine):
    """A Sobol' sequence of 2**30 or 2**64 points, drawn in order.

    Args:
        n_dims: Number of dimensions, from 1 to 21201.
        scramble: True or "owen" for nested scrambling; "linear" for a random triangular matrix and
            digital shift per dimension; False for the plain sequence, with 0 as its first point.
        seed: From 0 to 2**64 - 1; None draws one from the default generator. Stored as ``seed``
            when scrambling.
        start_index: Index of the first point.
        generator: A torch.Generator or a trnrand.Generator that draws the seed instead.
        bits: 32, or 64 for all digits of float64 and 2**64 points. The first 2**30 points have the
            same first 32 digits.

    Raises:
        ParameterError: An argument is out of range.

    Example:
        >>> engine = SobolEngine(2, scramble=False)
        >>> engine.skip(2).draw(2).tolist()
        [[0.75, 0.25], [0.25, 0.75]]
    """

    _function = "sobol"

    def __init__(
        self,
        n_dims: SupportsIndex,
        scramble: Scramble = True,
        seed: SupportsIndex | None = None,
        *,
        start_index: SupportsIndex = 0,
        generator: torch.Generator | Generator | None = None,
        bits: Literal[32, 64] = 32,
    ) -> None:
        super().__init__(n_dims, start_index)
        if isinstance(bits, bool) or bits not in (32, 64):
            raise FlagError(f"sobol: bits must be 32 or 64, got {bits!r}")
        self.bits = bits
        self._length = 1 << (BITS if bits == WORD else bits)
        methods = {False: "none", True: "owen", "owen": "owen", "linear": "linear"}
        if not isinstance(scramble, (bool, str)) or scramble not in methods:
            raise FlagError(
                f"sobol: scramble must be True, False, 'owen' or 'linear', got {scramble!r}"
            )
        self.scramble = scramble
        self._method = methods[scramble]
        plain = self._method == "none"
        if plain and seed is not None:
            checked_seed("sobol", seed)
        self.seed = None if plain else seed_from("sobol", seed, generator)
        self._groups: dict[int, _Columns] = {}

    def _columns(self, left: int) -> _Columns:
        if left not in self._groups:
            dims = np.arange(left, min(left + _GROUP, self.n_dims))
            directions = joe_kuo(self.n_dims, self.bits)[:, left : left + _GROUP]
            self._groups[left] = _Columns(directions, dims, self._method, self.seed or 0)
        return self._groups[left]

    def _points(self, start: int, count: int, dtype: torch.dtype) -> Tensor:
        digits = floating(self._function, dtype)
        # NumPy allocates large pages, which are twice as fast to write as torch's new memory.
        exact = np.float64 if dtype is torch.float64 else np.float32
        points = np.empty((count, self.n_dims), exact)
        for left in range(0, self.n_dims if count else 0, _GROUP):
            self._columns(left).fill(points[:, left : left + _GROUP], start, digits)
        return torch.from_numpy(points).to(dtype)


def sobol(
    n_points: SupportsIndex | None = None,
    n_dims: SupportsIndex | None = None,
    seed: SupportsIndex | None = None,
    scramble: Scramble = True,
    dtype: torch.dtype = torch.float32,
    *,
    start_index: SupportsIndex = 0,
    generator: torch.Generator | Generator | None = None,
    device: torch.device | str | None = None,
    n: SupportsIndex | None = None,
    d: SupportsIndex | None = None,
    bits: Literal[32, 64] = 32,
) -> Tensor:
    """Return Sobol' points in [0, 1) as an (n_points, n_dims) tensor.

    The first 2**m points, scrambled or not, are a digital net: every elementary interval that the
    quality parameter of the sequence allows contains its exact share. Coordinates have 32 binary
    digits (30 when not scrambled) or 64, truncated to the digits of the dtype.

    Args:
        n_points: Number of points.
        n_dims: Number of dimensions, from 1 to 21201.
        seed: Seed of the scrambling, from 0 to 2**64 - 1; None draws one from the default
            generator.
        scramble: True or "owen", "linear", or False: see ``SobolEngine``.
        dtype: float64, float32, float16 or bfloat16.
        start_index: Index of the first point; the points are the tail of a longer draw.
        generator: A torch.Generator or a trnrand.Generator that draws the seed instead.
        device: Device of the result.
        n: Alias of n_points.
        d: Alias of n_dims.
        bits: 32 or 64, see ``SobolEngine``.

    Raises:
        ParameterError: An argument is out of range, or start_index + n_points exceeds 2**30, with
            64 bits 2**64.

    Example:
        >>> sobol(4, 2, scramble=False).tolist()
        [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    """
    no_kernel("sobol")
    count = given_once("sobol", "n_points", n_points, "n", n)
    dims = given_once("sobol", "n_dims", n_dims, "d", d)
    engine = SobolEngine(
        dims, scramble, seed, start_index=start_index, generator=generator, bits=bits
    )
    return engine.draw(count, dtype, device)
