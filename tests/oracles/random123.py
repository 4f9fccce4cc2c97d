"""The engines of Random123 in Python's integers, block by block, and their published answers.

Slow and without NumPy: ``oracles.random_words`` is the form for long streams, and is judged by the
same answers.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

KNOWN_ANSWERS = Path(__file__).parents[1] / "data" / "random123.csv"

_WORD = 2**32


@dataclass(frozen=True)
class Answer:
    """One published block."""

    engine: str
    rounds: int
    counter: tuple[int, ...]
    key: tuple[int, ...]
    output: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.engine}-{self.rounds}-{self.counter[0]:08x}"


def known_answers() -> list[Answer]:
    """Return the published blocks."""
    with KNOWN_ANSWERS.open() as file:
        return [
            Answer(row["engine"], int(row["rounds"]), *(_words(row[k]) for k in row if k in _HEX))
            for row in csv.DictReader(file)
        ]


_HEX = ("counter", "key", "output")


def _words(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


def philox(counter, key, rounds: int = 10) -> tuple[int, ...]:
    """Return the words of a block of Philox-4x32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        high0, low0 = divmod(c0 * 0xD2511F53, _WORD)
        high1, low1 = divmod(c2 * 0xCD9E8D57, _WORD)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % _WORD, (k1 + 0xBB67AE85) % _WORD
    return c0, c1, c2, c3


def threefry(counter, key, rounds: int = 20) -> tuple[int, ...]:
    """Return the words of a block of Threefry-4x32."""
    turns = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]
    keys = [*key, 0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(c + k) % _WORD for c, k in zip(counter, key, strict=True)]
    for r in range(rounds):
        pairs = ((0, 1), (2, 3)) if r % 2 == 0 else ((0, 3), (2, 1))
        for (a, b), turn in zip(pairs, turns[r % 8], strict=True):
            x[a] = (x[a] + x[b]) % _WORD
            x[b] = (x[b] * 2**turn % _WORD + x[b] // 2 ** (32 - turn)) ^ x[a]
        if r % 4 == 3:
            s = (r + 1) // 4
            x = [(word + keys[(s + i) % 5] + s * (i == 3)) % _WORD for i, word in enumerate(x)]
    return tuple(x)


BLOCKS = {"philox": philox, "threefry": threefry}


def block(engine: str, seed: int, index: int, domain: int = 0, stream: int = 0) -> tuple[int, ...]:
    """Return the block of a stream at a 64-bit index."""
    key = (seed % _WORD, seed // _WORD) + (0, 0) * (engine == "threefry")
    return BLOCKS[engine]((index % _WORD, index // _WORD, domain, stream), key)
