"""Agreement of ranks on their arguments, before the first collective of a call.

Every rank sends a signature of 512 bytes: a hash and the start of its arguments as text, or of the
error that it found in them. If signatures differ, every rank raises an error that names who
differs, so that no rank waits for a collective that another one will not call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from trnsci.core import errors
from trnsci.core.distributed.collectives import all_gather
from trnsci.core.distributed.groups import Ranks, comparing_ranks
from trnsci.core.distributed.layout import is_dtensor, mesh_among
from trnsci.core.errors import DerivativeError, RankError, TrnsciError
from trnsci.core.interop import forward_level, transform_level
from trnsci.core.numbers.conversions import read_only_array_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

SIGNATURE_BYTES = 512
"""Bytes that each rank sends to every other one."""
_HASH, _RANK = 32, 4
_TEXT = SIGNATURE_BYTES - _HASH - _RANK
_FAILED = "\1"
"""First character of the text of an error; its class follows, up to a colon."""


@contextmanager
def agreement(
    function: str,
    *operands: Any,
    mesh: DeviceMesh | None = None,
    group: ProcessGroup | None = None,
    check: bool = True,
) -> Iterator[Callable[[str], None]]:
    """Validate arguments in the context; at its end ranks compare what they found.

    The context gives a function that takes the arguments as text::

        with agreement("f", A, B, check=check) as describe:
            mesh = mesh_of("f", A=A, B=B)
            ...  # checks that may raise
            describe(f"A {tuple(A.shape)} in {A.dtype}, {gradients(A, B)}")

    An exception in the context is raised on its rank, and on the others as an error of the same
    class, if it is one of the suite's, or ``RankError``, with the rank in its message.

    Ranks compare in the group of their mesh. A mesh of all ranks, and a rank without a mesh, use
    the default group. So a rank that was given no DTensor is reported if the mesh of the others has
    all ranks. If their mesh is smaller, they wait for this rank until its process ends, or until
    the time-out of the process group.

    Args:
        function: Name of the function, for messages.
        *operands: Operands, of which the first DTensor has the mesh of the call.
        mesh: The mesh of the call, if it is not that of an operand.
        group: The group of a call without a mesh; None for the default one.
        check: Whether ranks exchange signatures. If not, a rank that differs can make the others
            wait until the time-out of the process group.
    """
    mesh = mesh_among(operands) if mesh is None else mesh
    ranks = comparing_ranks(function, mesh, group) if check else ()
    ranks = tuple(each for each in ranks if each.others)  # one rank agrees with itself
    told = ""

    def describe(text: str) -> None:
        nonlocal told
        told = text

    try:
        _check_derivatives(function, operands)
        yield describe
    except Exception as own:
        if ranks:
            with suppress(RankError):  # the own error says more than that others did not answer
                _compare(ranks, f"{_FAILED}{type(own).__name__}:{own}", own)
        raise
    if ranks:
        if mesh is not None:
            told += f", mesh {mesh.mesh.tolist()}"
        _compare(ranks, told, None)


def _check_derivatives(function: str, operands: Sequence[Any]) -> None:
    """Raise in transforms and in forward mode, which collectives and DTensors do not support."""
    if transform_level() is not None or any(map(is_dual, operands)):
        raise DerivativeError(
            f"{function}: gradients must be those of backward or torch.autograd.grad, got a call "
            f"in forward mode or in a transform of torch.func"
        )


def is_dual(x: Any) -> bool:
    """Return whether a value is a tensor with a tangent; torch makes no DTensor of such a one."""
    if forward_level() < 0 or not isinstance(x, Tensor) or is_dtensor(x):
        return False
    return forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


def checksum(*operands: Any) -> str:
    """Return, as text, sums over the bytes of plain tensors, which all ranks must share."""
    sums = [
        f"{crc32(read_only_array_of(x).reshape(-1).view(np.uint8).data):08x}"
        for x in operands
        if isinstance(x, Tensor) and not is_dtensor(x) and not x.is_meta
    ]
    return f"values {sums}"


def gradients(*operands: Any) -> str:
    """Return, as text, which operands have a gradient: the backward of a call is collective."""
    tracked = [
        torch.is_grad_enabled() and x.requires_grad for x in operands if isinstance(x, Tensor)
    ]
    return f"gradients {tracked}"


def _compare(ranks: Sequence[Ranks], told: str, own: Exception | None) -> None:
    """Raise, unless every rank gave the same text; a rank that failed raises its own error."""
    found: dict[bytes, list[str]] = {}
    for signature in _signatures(ranks, told.encode()):
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
        raise RankError(f"{function}: all ranks must give the same arguments, got {given}")
    kinds = {kind for (kind, _, _), _ in failures}
    raised = getattr(errors, kinds.pop(), None) if len(kinds) == 1 else None
    if not (isinstance(raised, type) and issubclass(raised, TrnsciError)):
        raised = RankError
    reasons = "; ".join(
        f"on {who}: {text.removeprefix(f'{function}: ')}" for (_, _, text), who in failures
    )
    raise raised(f"{function}: {reasons}")


def _signatures(ranks: Sequence[Ranks], told: bytes) -> list[bytes]:
    """Return the signatures of all ranks, gathered in one group after another."""
    first = ranks[0]
    who = first.transport.members[first.rank].to_bytes(_RANK, "little")
    packed = sha256(told).digest() + who + told[:_TEXT].ljust(_TEXT, b"\0")
    found = torch.frombuffer(bytearray(packed), dtype=torch.uint8)[None]
    for each in ranks:
        found = found.to(each.transport.device)
        sizes = [found.shape[0]] * each.size
        found = all_gather(found, each, sizes, gradient="replicated")
    rows = [bytes(row.tolist()) for row in found.cpu()]
    return sorted(rows, key=lambda row: int.from_bytes(row[_HASH : _HASH + _RANK], "little"))
