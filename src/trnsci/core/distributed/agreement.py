"""Agreement of ranks on their arguments, before the first collective of a call.

Every rank sends a signature of 512 bytes: a hash and the start of its arguments as text, or of the
error that it found in them. If signatures differ, every rank raises an error that names who
differs, so that no rank waits for a collective that another one will not call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256

import torch
import torch.distributed as dist

from trnsci.core import errors
from trnsci.core.distributed.collectives import all_gather
from trnsci.core.distributed.groups import Ranks
from trnsci.core.errors import RankError, TrnsciError

__all__ = ["SIGNATURE_BYTES", "agreement"]

SIGNATURE_BYTES = 512
"""Bytes that each rank sends to every other one."""
_HASH, _RANK = 32, 4
_TEXT = SIGNATURE_BYTES - _HASH - _RANK
_FAILED = "\1"
"""First character of the text of an error; its class follows, up to a colon."""


@contextmanager
def agreement(
    ranks: Sequence[Ranks],
    device: torch.device | str,
    *,
    check: bool = True,
    error: type[TrnsciError] = RankError,
) -> Iterator[Callable[[str], None]]:
    """Validate arguments in the context; at its end ranks compare what they found.

    The context gives a function that takes the arguments as text::

        with agreement(ranks, A.device, check=check) as describe:
            ...  # checks that may raise
            describe(f"A {tuple(A.shape)} in {A.dtype}")

    An exception in the context is raised on its rank, and on the others as an error of the same
    class, if it is one of the suite's, or ``RankError``, with the rank in its message.

    Args:
        ranks: The ranks along each dimension of a mesh, or those of one group.
        device: Device on which the ranks communicate.
        check: Whether ranks exchange signatures. If not, a rank that differs can make the others
            wait until the time-out of the process group.
        error: Class of the error for arguments that differ.
    """
    told = ""

    def describe(text: str) -> None:
        nonlocal told
        told = text

    try:
        yield describe
    except Exception as own:
        if check:
            _compare(ranks, device, f"{_FAILED}{type(own).__name__}:{own}", error, own)
        raise
    if check:
        _compare(ranks, device, told, error, None)


def _compare(
    ranks: Sequence[Ranks],
    device: torch.device | str,
    told: str,
    error: type[TrnsciError],
    own: Exception | None,
) -> None:
    """Raise, unless every rank gave the same text; a rank that failed raises its own error."""
    found: dict[bytes, list[str]] = {}
    for signature in _signatures(ranks, device, told.encode()):
        rank = int.from_bytes(signature[_HASH : _HASH + _RANK], "little")
        text = signature[:_HASH] + signature[_HASH + _RANK :]
        found.setdefault(text, []).append(str(rank))
    if own is not None or len(found) == 1:
        return
    function = ranks[0].function
    texts = [
        (text[_HASH:].rstrip(b"\0").decode(errors="replace"), f"rank {', '.join(who)}")
        for text, who in found.items()
    ]
    failures = [(text[1:].partition(":"), who) for text, who in texts if text.startswith(_FAILED)]
    if not failures:
        given = "; ".join(f"on {who}: {text}" for text, who in texts)
        raise error(f"{function}: all ranks must give the same arguments, got {given}")
    kinds = {kind for (kind, _, _), _ in failures}
    raised = getattr(errors, kinds.pop(), None) if len(kinds) == 1 else None
    if not (isinstance(raised, type) and issubclass(raised, TrnsciError)):
        raised = RankError
    reasons = "; ".join(
        f"on {who}: {text.removeprefix(f'{function}: ')}" for (_, _, text), who in failures
    )
    raise raised(f"{function}: {reasons}")


def _signatures(ranks: Sequence[Ranks], device: torch.device | str, told: bytes) -> list[bytes]:
    """Return the signatures of all ranks, gathered along one dimension of the mesh after another.

    That takes no process group of the whole mesh, and as many bytes as with one.
    """
    who = dist.get_rank().to_bytes(_RANK, "little")
    packed = sha256(told).digest() + who + told[:_TEXT].ljust(_TEXT, b"\0")
    found = torch.frombuffer(bytearray(packed), dtype=torch.uint8).to(device)[None]
    for each in ranks:
        sizes = [found.shape[0]] * each.size
        found = all_gather(found, each, sizes, gradient="replicated")
    rows = [bytes(row.tolist()) for row in found.cpu()]
    return sorted(rows, key=lambda row: int.from_bytes(row[_HASH : _HASH + _RANK], "little"))
