"""``nki.collectives``: names and signatures; the operations themselves are not simulated yet."""

from __future__ import annotations

from typing import Any, NoReturn

from nkisim.memory import NKIObject

__all__ = [
    "NKIObject",
    "ReplicaGroup",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]


class ReplicaGroup(NKIObject):
    """Groups of ranks that communicate with each other.

    Attributes:
        groups: One list of ranks per group.
    """

    groups: Any = None


def _pending(name: str) -> NoReturn:
    raise NotImplementedError(f"nki.collectives.{name} is not simulated yet")


def all_gather(srcs: Any, dsts: Any, replica_group: Any, collective_dim: int) -> NoReturn:
    """Gather every rank's tensors on all ranks."""
    _pending("all_gather")


def all_reduce(srcs: Any, dsts: Any, replica_group: Any, op: Any) -> NoReturn:
    """Reduce every rank's tensors to all ranks."""
    _pending("all_reduce")


def all_to_all(srcs: Any, dsts: Any, replica_group: Any, collective_dim: int) -> NoReturn:
    """Exchange equal slices between all ranks."""
    _pending("all_to_all")


def all_to_all_v(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
) -> NoReturn:
    """Exchange slices of different lengths between all ranks."""
    _pending("all_to_all_v")


def collective_permute(srcs: Any, dsts: Any, source_target_pairs: Any) -> NoReturn:
    """Send tensors along given pairs of ranks."""
    _pending("collective_permute")


def collective_permute_implicit(
    srcs_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: Any,
    channel_ids: Any = [0],  # noqa: B006
) -> NoReturn:
    """Send tensors along the ring that the group implies."""
    _pending("collective_permute_implicit")


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: Any, channel_id: int = 0
) -> NoReturn:
    """Return whose data this rank processes in an iteration."""
    _pending("collective_permute_implicit_current_processing_rank_id")


def collective_permute_implicit_reduce(
    srcs0_by_channel: Any,
    srcs1_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: Any,
    op: Any,
    channel_ids: Any = [0],  # noqa: B006
) -> NoReturn:
    """Combine two tensors and send the result along the implied ring."""
    _pending("collective_permute_implicit_reduce")


def rank_id() -> NoReturn:
    """Return the rank of this core."""
    _pending("rank_id")


def reduce_scatter(
    srcs: Any, dsts: Any, replica_group: Any, collective_dim: int, op: Any
) -> NoReturn:
    """Reduce every rank's tensors and leave each rank one slice."""
    _pending("reduce_scatter")
