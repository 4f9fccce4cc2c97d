"""Plans: a call checked once for all calls of the same signature.

Legality depends on shapes, dtypes, buffers and the generation, not on values. The first call of a
signature is checked and compiled to a plan: the reads, the computation, the writes and the findings
of every such call.

An instruction is computed by its body, which returns results before rounding, or by the plan's fast
path (``fast``), if it has one and no values are checked. Both give identical bits. Operands are
resolved first (``resolution``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.machine.accesses import note_read, note_written, note_written_somewhere, trace_read
from nkisim.machine.accumulation import begin_sum, note_sum
from nkisim.machine.calls.columns import Columns, staged_sum
from nkisim.machine.calls.effects import added_operands, event_of, step_of
from nkisim.machine.calls.fast import Fast, make_function, with_function, with_shortcut
from nkisim.machine.calls.legality import check_call
from nkisim.machine.calls.operands import (
    Resolution,
    Rows,
    Selected,
    accessed,
    part_of,
    scatter_results,
    taken_rows,
)
from nkisim.machine.calls.overlaps import check_overlaps
from nkisim.machine.calls.provenance import Target, check_finite, note_mask_fill, propagate_taint
from nkisim.machine.calls.transfer import (
    Loader,
    Note,
    Store,
    make_loader,
    make_storer,
    store_results,
)
from nkisim.machine.core import Core
from nkisim.machine.tracking import Step
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import rules
from nkisim.spec.call import Call, Violation
from nkisim.spec.instruction import Arithmetic, Instruction
from nkisim.spec.operands import Operand
from nkisim.versions.rules import is_off

SKIPPING_IN_LOOP = declare(
    "M051",
    "skipping-in-loop",
    "A DMA with oob_mode.skip fills a tile in SBUF inside a compiled loop.",
    "a user saw the compiler fail to spill the tile (NCC_IGCA103)",
    severity="warning",
)

_NOTHING: Selected = MappingProxyType[int, Columns]({})


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


def _note_some(tensor: NkiTensor, instruction: str) -> None:
    """Record that an instruction reads at most an operand: a scatter may skip any of its rows."""
    if tensor.indirection is None:
        note_read(tensor, instruction)


class Plan:
    """Execution plan for all calls of one signature."""

    def __init__(self, instruction: Instruction, call: Call) -> None:
        self.instruction = instruction
        self.engine = call.engine
        self.violations: tuple[Violation, ...] = tuple(call.violations)
        self.body = instruction.body
        self.synchronises = instruction.synchronises
        self.shared = any(_is_shared(value) for value in call.values.values())
        self.follow = None if instruction.follow is None else instruction.follow(call)
        self.resolution = Resolution(instruction, call)
        self.resolves = bool(self.resolution)
        self.numbers: list[tuple[int, Callable[[Any], Any]]] = []
        self.adds_to = added_operands(call.values)
        self.reads: list[tuple[int, str]] = []
        self.writes: list[tuple[int, str]] = []
        self.streams: list[tuple[int, str]] = []
        self.lists: list[int] = []
        self.sums: tuple[int, int] | None = None
        self.notes: list[tuple[int, str, np.ndarray | None, bool]] = []
        self.loads: list[tuple[int, Loader]] = []
        self.stores: list[Store] = []
        self.parts: dict[str, np.ndarray] = {}
        self.watch = None if instruction.watch_values is None else instruction.watch_values(call)
        moves = instruction.moves
        self.moves = moves(call) if callable(moves) else moves
        self.copies = instruction.name == "dma_copy"
        self.inexact = instruction.inexact or (
            rules.INEXACT_MOVE if self.moves else rules.INEXACT_INTEGER
        )
        arithmetic = instruction.arithmetic(call)
        viewed = any(operand.as_view for operand in instruction.operands.values())
        self.widened = arithmetic == "fp32" and not viewed
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
        self.scatters = self.resolution.skips and any(
            call[name].indirection is not None for _, name in self.writes
        )
        self.fills_skipping = (
            self.resolution.skips
            and self.resolution.dynamic
            and any(call[name].buffer is MemoryRegion.sbuf for _, name in self.writes)
        )
        self.may_overlap = (
            len(self.writes) > 1
            or bool(self.lists)
            or any(call[name].buffer in written for _, name in self.streams)
        )
        self.fast = self._make_fast(call, arithmetic)

    def _make_fast(self, call: Call, arithmetic: Arithmetic) -> Fast | None:
        """Return the fast path; None if only the body can compute such calls."""
        instruction, function = self.instruction, None
        one_result = len(self.writes) == 1 and not self.lists and not self.resolution.dynamic
        if arithmetic == "fp32" and self.watch is None and one_result:
            result = self.writes[0][1]
            function = make_function(instruction, call, result, inexact=self.inexact)
        # A shortcut is faster than the function with conversions, but not without them (float32).
        if instruction.shortcut is not None and not (function and function.converts_nothing):
            shortcut = instruction.shortcut(call)
            if shortcut is not None:
                operands = self.numbers, self.reads, self.stores
                return with_shortcut(shortcut, instruction.name, *operands)
        if function is None:
            return None
        return with_function(function, instruction.name, self.sums, self.stores[0])

    def _add_tensor(
        self, call: Call, index: int, name: str, operand: Operand, arithmetic: Arithmetic
    ) -> None:
        instruction, tensor = self.instruction, call[name]
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
        names = [f"{name}[{i}]" for i in range(len(tensors))]
        loads = [
            make_loader(t, operand, n, self.instruction.name, arithmetic, inexact=self.inexact)
            for t, n in zip(tensors, names, strict=True)
        ]
        self.loads.append(
            (index, lambda ts, *taken: [f(t, *taken) for f, t in zip(loads, ts, strict=True)])
        )

    def run(self, core: Core, values: tuple[Any, ...]) -> None:
        """Execute a call of this signature."""
        core.clock += 1
        if core.tick is not None:
            core.tick(self.shared)
        for violation in self.violations:
            names = self.instruction.parameters
            known = violation.operand in names
            violation.flag(values[names.index(violation.operand)] if known else None)
        arguments: Sequence[Any] = values
        selected = _NOTHING
        if self.resolves:
            resolved = self.resolution.resolve(core, values)
            if resolved is None:  # out of bounds: skipped
                return
            arguments, selected = resolved
        if self.fills_skipping and core.scope:
            self._flag_skipping()
        if core.scheduled:
            name = values[self.instruction.parameters.index("name")]
            core.named.setdefault(name, []).append(core.clock)
        self._note_use(core.clock, values)
        onto_itself = self.copies and self._copies_onto_itself(arguments)
        tracker, step = core.tracker, None
        if tracker is not None:
            step = self._step(core, accessed(arguments, selected))
            if onto_itself:
                step = step._replace(reads=(), writes=())
            tracker.before(step)
        if self.may_overlap and self._share_memory(values):
            check_overlaps(self.instruction, self.writes, self.streams, self.lists, arguments)
        if self.follow is not None:
            self.follow(core, arguments)
        result = None
        if onto_itself:
            pass
        elif not (core.values or self.synchronises):
            self._note(core, arguments)
        elif self.fast is None or selected or not self._fits_fast(self.fast, core, arguments):
            result = self._compute(core, arguments, selected)
        else:
            self.fast.compute(core, arguments)
        if core.garbage:
            targets = [Target(arguments[i], self.parts.get(n)) for i, n in self.writes]
            propagate_taint(core, self.instruction, targets, result)
        if selected:
            sum_at = None if self.sums is None else self.sums[0]
            scatter_results(arguments, selected, [i for i, _ in self.writes], sum_at)
        if tracker is not None and step is not None:
            tracker.after(step)
        if core.watchers:
            self._emit(core, values, accessed(arguments, selected))

    def _note_use(self, clock: int, values: tuple[Any, ...]) -> None:
        """Record the instruction number and the used extent of each operand in its lifetime."""
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
            if written._storage.borrowed:
                written._storage.own()
            life = written.life
            life.last_use = clock
            if life.first_use < 0:
                life.first_use = clock
            if life.placed:
                life.reach(written)

    def _share_memory(self, values: tuple[Any, ...]) -> bool:
        """Return whether a written operand may be a view of another operand's storage."""
        if len(self.writes) > 1 or self.lists:
            return True
        written = values[self.writes[0][0]]
        for index, _ in self.streams:
            read = values[index]
            if read._storage is written._storage and read is not written:
                return True
        return False

    def _flag_skipping(self) -> None:
        """Flag a transfer of a compiled loop that leaves rows of a tile in SBUF unwritten."""
        if not is_off(SKIPPING_IN_LOOP.id):
            name = self.instruction.name
            flag(
                SKIPPING_IN_LOOP,
                f"{name} with oob_mode.skip fills a tile in SBUF inside a compiled loop",
                instruction=name,
                operand="dst",
                seen="oob_mode.skip in a compiled loop",
                fix="clip the indices, or unroll the loop with range",
            )

    def _copies_onto_itself(self, arguments: Sequence[Any]) -> bool:
        """Return whether a copy leaves all bytes as they are, written or not, as a fence does."""
        src, dst = arguments[self.reads[0][0]], arguments[self.writes[0][0]]
        if not (isinstance(src, NkiTensor) and isinstance(dst, NkiTensor)):
            return False
        if src._storage is not dst._storage or src._storage.psum is not None:
            return False
        known = src.indirection is None and dst.indirection is None
        return known and src.dtype is dst.dtype and src.region == dst.region

    def _note(self, core: Core, arguments: Sequence[Any]) -> None:
        """Record reads and writes without computing values."""
        name = self.instruction.name
        for index, operand, part, decides in self.notes:
            tensor = arguments[index]
            storage = tensor._storage
            # Most tiles need no bookkeeping and have no findings.
            if self.scatters:
                _note_some(tensor, name)
            elif not storage.complete or storage.psum is not None or storage.shared is not None:
                _note_read(tensor, name, operand, part, decides=decides)
        for index in self.lists:
            for i, tensor in enumerate(arguments[index]):
                if self.scatters:
                    _note_some(tensor, name)
                else:
                    _note_read(tensor, name, f"srcs[{i}]")
        if self.sums is not None:
            index, accumulate = self.sums
            if arguments[index].indirection is None:
                begin_sum(core, arguments[index], arguments[accumulate], name)
        for index, _, note in self.stores:
            known = arguments[index].indirection is None
            (note if known else note_written_somewhere)(arguments[index])

    def _compute(self, core: Core, tensors: Sequence[Any], selected: Selected) -> Any:
        """Compute the results by the body, write them, and return them."""
        arguments = list(tensors)
        for index, convert in self.numbers:
            arguments[index] = convert(arguments[index])
        taken = taken_rows(tensors[self.writes[0][0]]) if self.scatters else None
        for index, load in self.loads:
            operand = tensors[index]
            arguments[index] = load(operand) if taken is None else load(operand, taken)
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
            results = result if type(result) is tuple else (result,)
            store_results(self.stores, tensors, results)
        return result

    def _watch(self, core: Core, arguments: list[Any], result: Any, tensors: Sequence[Any]) -> None:
        """Check the values of a result before it is rounded into its destination."""
        if self.widened:
            check_finite(self.instruction.name, arguments, result)
        if self.writes:
            dst = tensors[self.writes[0][0]]
            if type(dst) is not Rows:
                first = result[0] if type(result) is tuple else result
                note_mask_fill(core, arguments, first, dst)

    def _fits_fast(self, fast: Fast, core: Core, tensors: Sequence[Any]) -> bool:
        """Return whether the fast path may compute a call: no value checks, no shared bytes."""
        if core.recorder.watches_values:
            return False
        if not fast.interleaves:
            return True
        written = tensors[self.writes[0][0]]
        storage = written._storage
        for index, _ in self.reads:
            read = tensors[index]
            if read._storage is storage and read.region != written.region:
                return False
        return True

    def _step(self, core: Core, arguments: Sequence[Any]) -> Step:
        """Return the description of the call for trackers."""
        reads = [(name, arguments[index], part) for index, name, part, _ in self.notes]
        for index in self.lists:
            reads += [(f"srcs[{i}]", t, None) for i, t in enumerate(arguments[index])]
        if self.scatters:
            taken = taken_rows(arguments[self.writes[0][0]])
            reads = [
                (name, t, part_of(t, taken) if isinstance(t, NkiTensor) else part)
                for name, t, part in reads
            ]
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
        names = self.instruction.parameters
        given = dict(zip(names, values, strict=True))
        given.update((names[index], value) for index, value in self.resolution.replaced)
        operands = (core, self.instruction, self.engine, reads, writes)
        event = event_of(*operands, arguments=given, signature=self)
        core.emit(event)


def make_plan(instruction: Instruction, values: tuple[Any, ...], core: Core) -> Plan:
    """Check a call and return its plan.

    Raises:
        NkiValidationError: The call breaks a rule that leaves no natural result.
    """
    arguments = dict(zip(instruction.parameters, values, strict=True))
    call = Call(instruction, arguments, core.generation)
    check_call(instruction, call)
    return Plan(instruction, call)


def _is_shared(value: Any) -> bool:
    """Return whether an argument, or a part of it, is in memory shared with other cores."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_shared, value))
    return isinstance(value, NkiTensor) and value.buffer is MemoryRegion.shared_hbm


def _as_bits(value: Any) -> np.uint32:
    return np.uint32(int(value) & 0xFFFFFFFF)
