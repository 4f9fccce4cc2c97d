"""Plans: a call checked once for all calls of the same signature.

Legality depends on shapes, dtypes, buffers and the generation, not on values. The first call of a
signature is checked and compiled to a plan: the reads, the computation, the writes and the findings
of every such call.

Results are computed by the first available of four paths, with identical bits: a shortcut of the
instruction on stored elements, blocks of rows, its function that writes into the destination, and
its body. Only the body returns results before rounding, so it is used whenever values are checked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nkisim.diagnostics import user_place
from nkisim.machine.accesses import (
    note_written,
    note_written_somewhere,
    prepare_read,
    trace_read,
)
from nkisim.machine.accumulation import begin_sum, note_sum
from nkisim.machine.blocks import Blocks, make_blocks
from nkisim.machine.columns import (
    Columns,
    check_same_index,
    scatter,
    staged_operand,
    staged_result,
    staged_sum,
)
from nkisim.machine.core import Core, Event
from nkisim.machine.direct import Direct, make_direct
from nkisim.machine.effects import added_operands, step_of
from nkisim.machine.finite import check_finite, note_mask_fill
from nkisim.machine.legality import check_call
from nkisim.machine.operands import Rows, resolve_operand
from nkisim.machine.overlaps import check_overlaps
from nkisim.machine.taint import Target, propagate_taint
from nkisim.machine.tracking import Step
from nkisim.machine.transfer import Loader, Storer, make_loader, make_storer
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import indirection, rules
from nkisim.spec.call import Call, Violation
from nkisim.spec.enums import oob_mode as OobMode
from nkisim.spec.instruction import Arithmetic, Instruction, Shortcut
from nkisim.spec.operands import Operand

__all__ = ["Plan", "make_plan"]


Note = Callable[[Any], object]
"""Records the effect of a call on one operand."""


def _note_read(
    tensor: NkiTensor,
    instruction: str,
    operand: str,
    part: np.ndarray | None = None,
    *,
    decides: bool = False,
) -> None:
    """Record a read of an operand, unless its offset is unknown."""
    if tensor.indirection is None:
        trace_read(tensor, instruction, operand, part, decides=decides)


class Plan:
    """Execution plan for all calls of one signature."""

    __slots__ = (
        "adds_to",
        "admits",
        "blocks",
        "body",
        "direct",
        "dynamic",
        "engine",
        "follow",
        "group",
        "inexact",
        "instruction",
        "lists",
        "loads",
        "may_overlap",
        "mended",
        "moves",
        "notes",
        "numbers",
        "pairs",
        "parts",
        "reads",
        "shared",
        "shortcut",
        "skips",
        "stores",
        "streams",
        "sums",
        "synchronises",
        "violations",
        "watch",
        "widened",
        "writes",
    )

    def __init__(self, instruction: Instruction, call: Call) -> None:
        self.instruction = instruction
        self.engine = call.engine
        self.group = indirection.group_of(call)
        number_of = instruction.parameters.index
        self.pairs = [(number_of(a), number_of(b)) for a, b in indirection.pairs_of(call)]
        self.violations: tuple[Violation, ...] = tuple(call.violations)
        self.body = instruction.body
        self.synchronises = instruction.synchronises
        self.shared = any(_is_shared(value) for value in call.values.values())
        self.follow = None if instruction.follow is None else instruction.follow(call)
        self.mended = [(number_of(name), value) for name, value in call.mended.items()]
        self.numbers: list[tuple[int, Callable[[Any], Any]]] = []
        self.adds_to = added_operands(call.values)
        self.skips = call.values.get("oob_mode") is OobMode.skip
        self.admits: list[tuple[int, str]] = []
        self.reads: list[tuple[int, str]] = []
        self.writes: list[tuple[int, str]] = []
        self.streams: list[tuple[int, str]] = []
        self.lists: list[int] = []
        self.sums: tuple[int, int] | None = None
        self.dynamic = False
        self.notes: list[tuple[int, str, np.ndarray | None, bool]] = []
        self.loads: list[tuple[int, Loader]] = []
        self.stores: list[tuple[int, Storer, Note]] = []
        self.parts: dict[str, np.ndarray] = {}
        self.watch = None if instruction.watch_values is None else instruction.watch_values(call)
        moves = instruction.moves
        self.moves = moves(call) if callable(moves) else moves
        self.inexact = instruction.inexact or (
            rules.INEXACT_MOVE if self.moves else rules.INEXACT_INTEGER
        )
        arithmetic = instruction.arithmetic(call)
        viewed = any(operand.as_view for operand in instruction.operands.values())
        self.widened = arithmetic == "fp32" and not viewed
        self.shortcut = None if instruction.shortcut is None else instruction.shortcut(call)
        for index, name in enumerate(instruction.parameters):
            operand = instruction.operands.get(name)
            value = call.values[name]
            if operand is None:
                continue
            if isinstance(value, NkiTensor):
                self._add_tensor(call, index, name, operand, arithmetic)
            elif operand.many:
                self._add_list(index, name, operand, value, arithmetic)
            elif arithmetic != "copy" and isinstance(value, (int, float, np.number)):
                convert: Callable[[Any], Any] = _as_bits if arithmetic == "bits" else np.float32
                self.numbers.append((index, convert))
        written = {call[name].buffer for _, name in self.writes}
        self.may_overlap = (
            len(self.writes) > 1
            or bool(self.lists)
            or any(call[name].buffer in written for _, name in self.streams)
        )
        self.blocks: Blocks | None = None
        if self.widened and self.watch is None:
            reads = [name for _, name in self.reads]
            self.blocks = make_blocks(instruction, call, reads, self.inexact)
        self.direct = self._make_direct(call, arithmetic)

    def _make_direct(self, call: Call, arithmetic: Arithmetic) -> Direct | None:
        """Return the instruction's function for a call, if it has one result and one function."""
        if arithmetic != "fp32" or self.blocks is not None or self.watch is not None:
            return None
        if len(self.writes) != 1 or self.dynamic or self.lists:
            return None
        direct = make_direct(self.instruction, call, self.writes[0][1], inexact=self.inexact)
        if direct is not None and direct.converts_nothing:
            # A shortcut is faster than a conversion, but not faster than NumPy in float32.
            self.shortcut = None
        return direct

    def _add_tensor(
        self, call: Call, index: int, name: str, operand: Operand, arithmetic: Arithmetic
    ) -> None:
        instruction, tensor = self.instruction, call[name]
        if tensor.indirection is not None or not tensor.trusted:
            self.admits.append((index, name))
            self.dynamic = self.dynamic or tensor.indirection is not None
        part = None if operand.part is None else operand.part(call)
        made: Any = {"inexact": self.inexact, "part": part}
        if operand.reads:
            self.reads.append((index, name))
            if not operand.column:
                self.streams.append((index, name))
            self.loads.append(
                (index, make_loader(tensor, operand, name, instruction.name, arithmetic, **made))
            )
            self.notes.append((index, name, part, operand.decides))
        if operand.writes:
            self.writes.append((index, name))
            if part is not None:
                self.parts[name] = part
            if name in instruction.raw_results:
                arithmetic = "copy"
            note: Note = (
                note_written if part is None else functools.partial(note_written, where=part)
            )
            if operand.role == "sum":
                self.sums = (index, instruction.parameters.index("accumulate"))
                note = note_sum
            store = make_storer(tensor, operand, name, instruction.name, arithmetic, **made)
            self.stores.append((index, store, note))

    def _add_list(
        self, index: int, name: str, operand: Operand, tensors: Any, arithmetic: Arithmetic
    ) -> None:
        """Add an operand that is a list of tensors; each is read."""
        self.lists.append(index)
        self.admits.append((index, name))
        names = [f"{name}[{i}]" for i in range(len(tensors))]
        loads = [
            make_loader(t, operand, n, self.instruction.name, arithmetic, inexact=self.inexact)
            for t, n in zip(tensors, names, strict=True)
        ]
        self.loads.append((index, lambda ts: [f(t) for f, t in zip(loads, ts, strict=True)]))

    def run(self, core: Core, values: tuple[Any, ...]) -> None:
        """Execute a call of this signature."""
        core.clock = clock = core.clock + 1
        if core.tick is not None:
            core.tick(self.shared)
        if self.violations:
            for violation in self.violations:
                violation.flag()
        arguments: Sequence[Any] = values
        selected: dict[int, Columns] = {}
        if self.mended or self.admits:
            resolved = self._resolved(core, values, selected)
            if resolved is None:  # out of bounds: skipped
                return
            arguments = resolved
        for index, _ in self.reads:
            life = values[index].life
            life.last_use = clock
            if life.placed:
                life.reach(values[index])
        for index in self.lists:
            for tensor in values[index]:
                tensor.life.last_use = clock
                if tensor.life.placed:
                    tensor.life.reach(tensor)
        for index, _ in self.writes:
            written = values[index]
            if written.storage.borrowed:
                written.storage.own()
            life = written.life
            life.last_use = clock
            if life.first_use < 0:
                life.first_use = clock
            if life.placed:
                life.reach(written)
        tracker, step = core.tracker, None
        if tracker is not None:
            step = self._step(core, _accessed(arguments, selected))
            tracker.before(step)
        if self.may_overlap and self._share_memory(values):
            check_overlaps(self.instruction, self.writes, self.streams, self.lists, arguments)
        if self.follow is not None:
            self.follow(core, arguments)
        result = None
        if not (core.values or self.synchronises):
            self._note(core, arguments)
        elif core.recorder.watches_values or selected or not self._compute_faster(core, arguments):
            result = self._compute(core, arguments, selected)
        if core.garbage:
            targets = [Target(arguments[i], self.parts.get(n)) for i, n in self.writes]
            propagate_taint(core, self.instruction, targets, result)
        for index, _ in self.writes:
            if index in selected:
                sums = self.sums is not None and self.sums[0] == index
                scatter(selected[index], arguments[index], sums=sums)
        if tracker is not None and step is not None:
            tracker.after(step)
        if core.watchers:
            self._emit(core, values, _accessed(arguments, selected))

    def _share_memory(self, values: tuple[Any, ...]) -> bool:
        """Return whether two operands may be views of one storage, of which one is written."""
        if len(self.writes) > 1 or self.lists:
            return True
        written = values[self.writes[0][0]]
        for index, _ in self.streams:
            read = values[index]
            if read.storage is written.storage and read is not written:
                return True
        return False

    def _resolved(
        self, core: Core, values: tuple[Any, ...], selected: dict[int, Columns]
    ) -> list[Any] | None:
        """Return the arguments with operands resolved, or None if the call is skipped.

        Operands of tensor indirection become dense copies; ``selected`` gets their columns.
        """
        arguments = list(values)
        for index, value in self.mended:
            arguments[index] = value
        instruction, skip = self.instruction.name, self.skips
        for index, name in self.admits:
            value = values[index]
            if index in self.lists:
                arguments[index] = [
                    resolve_operand(core, tensor, instruction, f"{name}[{i}]", skip=skip)
                    for i, tensor in enumerate(value)
                ]
                if any(found is None for found in arguments[index]):
                    return None
                continue
            found = resolve_operand(core, value, instruction, name, skip=skip, group=self.group)
            if found is None:
                return None
            if type(found) is Columns:
                selected[index] = found
                reads = self.instruction.operands[name].reads
                found = (staged_operand if reads else staged_result)(found, value)
            arguments[index] = found
        for first, second in self.pairs:
            if first in selected and second in selected:
                check_same_index(selected[first], selected[second], instruction)
        return arguments

    def _note(self, core: Core, arguments: Sequence[Any]) -> None:
        """Record reads and writes without computing values."""
        name = self.instruction.name
        for index, operand, part, decides in self.notes:
            tensor = arguments[index]
            storage = tensor.storage
            # Most tiles need no bookkeeping and have no findings.
            if not storage.complete or storage.psum is not None or storage.shared is not None:
                _note_read(tensor, name, operand, part, decides=decides)
        for index in self.lists:
            for i, tensor in enumerate(arguments[index]):
                _note_read(tensor, name, f"srcs[{i}]")
        if self.sums is not None:
            index, accumulate = self.sums
            if arguments[index].indirection is None:
                begin_sum(core, arguments[index], arguments[accumulate], name)
        for index, _, note in self.stores:
            known = arguments[index].indirection is None
            (note if known else note_written_somewhere)(arguments[index])

    def _compute(self, core: Core, tensors: Sequence[Any], selected: Mapping[int, Columns]) -> Any:
        """Compute and write the results; return those of the body."""
        arguments = list(tensors)
        for index, convert in self.numbers:
            arguments[index] = convert(arguments[index])
        for index, load in self.loads:
            arguments[index] = load(tensors[index])
        if self.watch is not None:
            self.watch(arguments)
        if self.sums is not None:
            index, accumulate = self.sums
            given, name = arguments[accumulate], self.instruction.name
            if index in selected:
                adds = staged_sum(core, selected[index], tensors[index], given, name)
            else:
                adds = begin_sum(core, tensors[index], given, name)
            arguments[accumulate] = adds
        result = self.body(core, *arguments) if self.instruction.stateful else self.body(*arguments)
        if core.recorder.watches_values and not core.garbage:
            self._watch(core, arguments, result, tensors)
        if self.stores:
            self._store(tensors, result if type(result) is tuple else (result,))
        return result

    def _store(self, tensors: Sequence[Any], results: tuple[Any, ...]) -> None:
        """Write results; a result that is None is already in memory and is only recorded."""
        for number, (index, store, note) in enumerate(self.stores):
            part = results[number]
            if part is None:
                note(tensors[index])
            else:
                store(tensors[index], part)

    def _watch(self, core: Core, arguments: list[Any], result: Any, tensors: Sequence[Any]) -> None:
        """Check the values of a result before it is rounded into its destination."""
        if self.widened:
            check_finite(self.instruction.name, arguments, result)
        if self.writes:
            dst = tensors[self.writes[0][0]]
            if type(dst) is not Rows:
                first = result[0] if type(result) is tuple else result
                note_mask_fill(core, arguments, first, dst)

    def _compute_faster(self, core: Core, tensors: Sequence[Any]) -> bool:
        """Compute a result by a fast path; return False if only the body can."""
        if self.shortcut is not None and self._apart(tensors):
            self._take_shortcut(self.shortcut, core, tensors)
        elif self.blocks is not None and self._apart(tensors):
            self._compute_blocks(self.blocks, tensors)
        elif self.direct is not None:
            self._compute_directly(self.direct, core, tensors)
        else:
            return False
        return True

    def _compute_directly(self, direct: Direct, core: Core, tensors: Sequence[Any]) -> None:
        """Compute by the instruction's function."""
        function, given, into, _ = direct
        instruction = self.instruction.name
        operands = []
        for index, name, convert in given:
            operand = tensors[index]
            if name is not None:
                operand = prepare_read(operand, instruction, name)
                if convert is not None:
                    operand = convert(operand)
            operands.append(operand)
        if self.sums is not None:
            index, accumulate = self.sums
            operands.append(begin_sum(core, tensors[index], tensors[accumulate], instruction))
        index, store, note = self.stores[0]
        target = tensors[index]
        if into:  # NumPy buffers a result that overlaps an operand
            function(*operands, out=target.array)
            note(target)
        else:
            store(target, function(*operands, out=None))

    def _take_shortcut(self, shortcut: Shortcut, core: Core, tensors: Sequence[Any]) -> None:
        """Compute on stored elements."""
        name, arguments = self.instruction.name, list(tensors)
        for index, convert in self.numbers:
            arguments[index] = convert(arguments[index])
        for index, operand in self.reads:
            arguments[index] = prepare_read(tensors[index], name, operand)
        for index, _ in self.writes:
            arguments[index] = tensors[index].array
        self._store(tensors, shortcut(core, arguments))

    def _apart(self, tensors: Sequence[Any]) -> bool:
        """Return whether the result may be written while inputs are still being read."""
        written = tensors[self.writes[0][0]]
        storage = written.storage
        for index, _ in self.reads:
            read = tensors[index]
            if read.storage is storage and read.region != written.region:
                return False
        return True

    def _compute_blocks(self, blocks: Blocks, tensors: Sequence[Any]) -> None:
        """Compute a large tile in blocks of rows that fit the processor's cache."""
        name, arguments = self.instruction.name, list(tensors)
        written = tensors[self.writes[0][0]]
        target = written.array
        for index, convert in self.numbers:
            arguments[index] = convert(arguments[index])
        inputs = [
            (index, widen, prepare_read(tensors[index], name, operand))
            for (index, operand), widen in zip(self.reads, blocks.widen, strict=True)
        ]
        for rows in blocks.rows:
            for index, widen, stored in inputs:
                arguments[index] = widen(stored[rows])
            target[rows] = blocks.narrow(self.body(*arguments))
        note_written(written)

    def _step(self, core: Core, arguments: Sequence[Any]) -> Step:
        """Return the description of the call for trackers."""
        reads = [(name, arguments[index], part) for index, name, part, _ in self.notes]
        for index in self.lists:
            reads += [(f"srcs[{i}]", t, None) for i, t in enumerate(arguments[index])]
        writes = [(name, arguments[index], self.parts.get(name)) for index, name in self.writes]
        lasts = self.follow is not None or self.synchronises
        return step_of(
            *(core, self.instruction, self.engine, reads, writes),
            lasts=lasts,
            adds_to=self.adds_to,
            moves=self.moves,
            sums=self.sums is not None,
        )

    def _emit(self, core: Core, values: Sequence[Any], tensors: Sequence[Any]) -> None:
        """Pass the call to the watchers: its arguments, and its resolved operands."""
        reads = [(name, tensors[index]) for index, name in self.reads]
        for index in self.lists:
            reads += [(f"srcs[{i}]", tensor) for i, tensor in enumerate(tensors[index])]
        writes = [(name, tensors[index]) for index, name in self.writes]
        # Rows and columns selected by index count as the whole table.
        read, written = (
            tuple((name, t.table if type(t) in (Rows, Columns) else t) for name, t in part)
            for part in (reads, writes)
        )
        names = self.instruction.parameters
        given = dict(zip(names, values, strict=True))
        given.update((names[index], value) for index, value in self.mended)
        event = Event(
            core.clock,
            self.instruction.name,
            self.engine,
            read,
            written,
            user_place(),
            core.program_id,
            given,
            self,
            core.no_reorder_depth > 0,
        )
        for watcher in core.watchers:
            watcher(event)


def make_plan(instruction: Instruction, values: tuple[Any, ...], core: Core) -> Plan:
    """Check a call and return its plan.

    Raises:
        NkiValidationError: The call breaks a rule that leaves no natural result.
    """
    arguments = dict(zip(instruction.parameters, values, strict=True))
    call = Call(instruction, arguments, core.generation)
    check_call(instruction, call)
    return Plan(instruction, call)


def _accessed(arguments: Sequence[Any], selected: Mapping[int, Columns]) -> Sequence[Any]:
    """Return the arguments with the columns that tensor indirection selects in place of copies."""
    if not selected:
        return arguments
    return [selected.get(i, argument) for i, argument in enumerate(arguments)]


def _is_shared(value: Any) -> bool:
    """Return whether an argument, or a part of it, is in memory shared with other cores."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_shared, value))
    return isinstance(value, NkiTensor) and value.buffer is MemoryRegion.shared_hbm


def _as_bits(value: Any) -> np.uint32:
    return np.uint32(int(value) & 0xFFFFFFFF)
