"""Resolution of the operands of a call: offsets applied, tensor indirection staged.

An instruction computes on resolved arguments. An operand of tensor indirection becomes a dense copy
of the selected columns; results are moved from such a copy to the selected places afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nkisim.machine.columns import (
    Columns,
    check_same_index,
    scatter,
    staged_operand,
    staged_result,
)
from nkisim.machine.core import Core
from nkisim.machine.operands import resolve_operand
from nkisim.memory import NkiTensor
from nkisim.spec import indirection
from nkisim.spec.call import Call
from nkisim.spec.enums import oob_mode as OobMode
from nkisim.spec.instruction import Instruction

Selected = Mapping[int, Columns]
"""Selected columns of each operand of tensor indirection, by its place in the arguments."""


class Resolution:
    """Resolution for all calls of one signature.

    Attributes:
        replaced: Arguments that are replaced because the given ones break a rule, by their place.
        dynamic: Whether an operand has an offset in a register or a tile.
    """

    __slots__ = ("_group", "_instruction", "_operands", "_pairs", "_skips", "dynamic", "replaced")

    def __init__(self, instruction: Instruction, call: Call) -> None:
        place = instruction.parameters.index
        self._instruction = instruction
        self._group = indirection.group_of(call)
        self._pairs = [(place(a), place(b)) for a, b in indirection.pairs_of(call)]
        self._skips = call.values.get("oob_mode") is OobMode.skip
        self._operands: list[tuple[int, str]] = []
        self.replaced = [(place(name), value) for name, value in call.normalised.items()]
        self.dynamic = False
        for index, name in enumerate(instruction.parameters):
            operand, value = instruction.operands.get(name), call.values[name]
            if operand is None:
                continue
            if isinstance(value, NkiTensor):
                if value.indirection is None and value.trusted:
                    continue
                self.dynamic = self.dynamic or value.indirection is not None
            elif not operand.many:
                continue
            self._operands.append((index, name))

    def __bool__(self) -> bool:
        """Return whether there is anything to resolve."""
        return bool(self.replaced or self._operands)

    def resolve(self, core: Core, values: Sequence[Any]) -> tuple[list[Any], Selected] | None:
        """Return the resolved arguments and the selected columns.

        None if the call is skipped because an offset is out of bounds.
        """
        arguments = list(values)
        selected: dict[int, Columns] = {}
        for index, value in self.replaced:
            arguments[index] = value
        for index, name in self._operands:
            value = values[index]
            if not isinstance(value, NkiTensor):
                found: Any = self._list(core, value, name)
            else:
                found = self._operand(core, value, name)
            if found is None:
                return None
            if type(found) is Columns:
                selected[index] = found
                reads = self._instruction.operands[name].reads
                found = (staged_operand if reads else staged_result)(found, value)
            arguments[index] = found
        for first, second in self._pairs:
            if first in selected and second in selected:
                check_same_index(selected[first], selected[second], self._instruction.name)
        return arguments, selected

    def _operand(self, core: Core, tensor: NkiTensor, name: str) -> Any:
        instruction, skip = self._instruction.name, self._skips
        return resolve_operand(core, tensor, instruction, name, skip=skip, group=self._group)

    def _list(self, core: Core, tensors: Sequence[NkiTensor], name: str) -> list[Any] | None:
        """Return the resolved tensors of a list; None if one is skipped."""
        instruction, skip = self._instruction.name, self._skips
        found = [
            resolve_operand(core, tensor, instruction, f"{name}[{i}]", skip=skip)
            for i, tensor in enumerate(tensors)
        ]
        return None if any(tensor is None for tensor in found) else found


def accessed(arguments: Sequence[Any], selected: Selected) -> Sequence[Any]:
    """Return resolved arguments with the selected columns in place of copies."""
    if not selected:
        return arguments
    return [selected.get(i, argument) for i, argument in enumerate(arguments)]


def scatter_results(
    arguments: Sequence[Any], selected: Selected, written: Iterable[int], sum_at: int | None
) -> None:
    """Move results from copies to the selected places.

    Args:
        arguments: The resolved arguments.
        selected: The selected columns.
        written: Places of the operands that are written.
        sum_at: Place of the operand that the instruction adds to, or None.
    """
    for index in written:
        if index in selected:
            scatter(selected[index], arguments[index], sums=index == sum_at)
