"""Operands of one call that share bytes: legal only in the same access pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nkisim.diagnostics import flag
from nkisim.machine.calls.operands import Rows
from nkisim.machine.calls.transfer import overlaps
from nkisim.memory import NkiTensor
from nkisim.spec import rules
from nkisim.spec.instruction import Instruction

Named = Sequence[tuple[int, str]]
"""Arguments: the place and the name of each."""


def check_overlaps(
    instruction: Instruction, writes: Named, reads: Named, lists: Sequence[int], tensors: Any
) -> None:
    """Flag a destination that shares bytes with another, or with a source in another pattern.

    Args:
        instruction: The instruction.
        writes: The arguments that are written.
        reads: The arguments that are read while results are written.
        lists: The arguments that are lists of tensors to read.
        tensors: The arguments, operands as views or rows.
    """
    if len(writes) > 1:
        first, second = (tensors[index] for index, _ in writes[:2])
        if first._storage is second._storage and overlaps(first, second):
            flag(
                rules.RESULTS_OVERLAP,
                f"{instruction.name}: {writes[1][1]} overlaps {writes[0][1]}",
                instruction=instruction.name,
                operand=writes[1][1],
                seen=f"both in `{first.name}`",
                fix="give each result a tile of its own",
            )
    for index, name in writes:
        written = tensors[index]
        if type(written) is Rows:
            continue
        storage = written._storage
        for other, source_name in reads:
            source = tensors[other]
            if source is not written and type(source) is not Rows and source._storage is storage:
                _check_pair(instruction, name, written, source_name, source)
        for listed in lists:
            for i, source in enumerate(tensors[listed]):
                if type(source) is not Rows and source._storage is storage:
                    _check_pair(instruction, name, written, f"srcs[{i}]", source)


def _check_pair(
    instruction: Instruction, name: str, written: NkiTensor, source_name: str, source: NkiTensor
) -> None:
    """Flag a source in the memory of a destination that shares bytes in another pattern."""
    if source.region == written.region:
        return
    if instruction.reads_first and _same_columns(source, written):
        return
    if written.indirection is None and source.indirection is None and overlaps(written, source):
        by_address = written.life is not source.life
        flag(
            rules.OVERLAP,
            f"{instruction.name} {name} overlaps {source_name} with a different access pattern",
            instruction=instruction.name,
            operand=name,
            seen=f"{name} {written.get_pattern()} at {written.offset}, "
            f"{source_name} {source.get_pattern()} at {source.offset}",
            allowed="disjoint, or the identical pattern",
            fix="give the tensors disjoint addresses"
            if by_address
            else "write into a temporary tile",
            data={"by_address": by_address},
        )


def _same_columns(a: NkiTensor, b: NkiTensor) -> bool:
    """Return whether two tiles cover the same columns, on any partitions."""
    first, second = ((t.free_byte_offset, t.shape[1:], t.form.strides[1:]) for t in (a, b))
    return first == second
