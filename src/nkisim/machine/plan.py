"""Plans: a call checked once for all calls of the same signature.

Legality depends on shapes, dtypes, buffers and the generation, not on values. The first call of a
signature is checked and turned into a plan: what to read, what to compute, what to write and which
findings every such call brings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import flag, user_place
from nkisim.dtypes import blocks_of_rows
from nkisim.machine.core import Core, Event
from nkisim.machine.legality import check_call
from nkisim.machine.transfer import (
    Convert,
    Loader,
    Storer,
    make_loader,
    make_narrower,
    make_storer,
    make_widener,
    note_written,
    overlaps,
    prepare_read,
    trace_read,
)
from nkisim.memory import MemoryRegion, NkiTensor, resolve_scalar
from nkisim.spec import rules
from nkisim.spec.call import Call, Violation
from nkisim.spec.instruction import Instruction, Shortcut
from nkisim.spec.operands import Operand

__all__ = ["Plan", "check_finite", "make_plan"]


class Plan:
    """How to execute every call of one signature."""

    __slots__ = (
        "blocks",
        "body",
        "converters",
        "engine",
        "inexact",
        "instruction",
        "loads",
        "may_overlap",
        "memory",
        "offsets",
        "reads",
        "scalar_offsets",
        "shared",
        "shortcut",
        "stores",
        "streams",
        "synchronises",
        "trace",
        "violations",
        "watch",
        "whole_reads",
        "widened",
        "writes",
    )

    def __init__(self, call: Call) -> None:
        instruction = call.instruction
        self.instruction = instruction
        self.engine = call.engine
        self.violations: tuple[Violation, ...] = tuple(call.violations)
        self.body = instruction.body
        self.memory = instruction.memory
        self.trace = instruction.trace
        self.synchronises = instruction.synchronises
        self.shared = any(_is_shared(value) for value in call.values.values())
        self.offsets = [i for i, v in enumerate(call.values.values()) if _index_tiles(v)]
        self.converters = _converters(call)
        self.scalar_offsets: list[tuple[int, str]] = []
        self.reads: list[tuple[int, str]] = []
        self.writes: list[tuple[int, str]] = []
        self.streams: list[tuple[int, str]] = []
        self.loads: list[tuple[int, Loader]] = []
        self.stores: list[tuple[int, Storer]] = []
        self.watch = None if instruction.watch_values is None else instruction.watch_values(call)
        moves = instruction.moves(call) if callable(instruction.moves) else instruction.moves
        self.inexact = rules.INEXACT_MOVE if moves else rules.INEXACT_INTEGER
        arithmetic = instruction.arithmetic(call)
        self.widened = arithmetic == "fp32"
        self.shortcut = None if instruction.shortcut is None else instruction.shortcut(call)
        for index, name in enumerate(instruction.parameters):
            operand = instruction.operands.get(name)
            value = call.values[name]
            if operand is None:
                continue
            if isinstance(value, NkiTensor):
                self._add_tensor(index, name, operand, value, arithmetic)
            elif (
                operand.scalar
                and isinstance(value, (int, float, np.number))
                and not instruction.memory
            ):
                convert: Callable[[Any], Any] = _as_bits if arithmetic == "bits" else np.float32
                self.converters.append((index, convert))
        written = {call[name].buffer for _, name in self.writes}
        self.may_overlap = len(self.writes) > 1 or any(
            call[name].buffer in written for _, name in self.streams
        )
        self.whole_reads = [(i, n) for i, n in self.reads if not instruction.operands[n].partial]
        self.blocks = _blocks(call, self) if self.widened and self.watch is None else None

    def _add_tensor(
        self, index: int, name: str, operand: Operand, tensor: NkiTensor, arithmetic: Any
    ) -> None:
        instruction = self.instruction
        if (
            tensor.indirect is not None
            and tensor.indirect.kind == "scalar"
            and not instruction.memory
        ):
            self.scalar_offsets.append((index, name))
        if operand.reads:
            self.reads.append((index, name))
            if not operand.column:
                self.streams.append((index, name))
            if not instruction.memory:
                loader = make_loader(
                    tensor, operand, name, instruction.name, arithmetic, inexact=self.inexact
                )
                self.loads.append((index, loader))
        if operand.writes:
            self.writes.append((index, name))
            if not instruction.memory:
                if name in instruction.raw_results:
                    arithmetic = "copy"
                storer = make_storer(
                    tensor, operand, name, instruction.name, arithmetic, inexact=self.inexact
                )
                self.stores.append((index, storer))

    def run(self, core: Core, values: tuple[Any, ...]) -> None:
        """Execute a call of this signature."""
        core.clock = clock = core.clock + 1
        if core.tick is not None:
            core.tick(self.shared)
        if self.violations:
            for violation in self.violations:
                violation.flag()
        arguments: Sequence[Any] = values
        if self.converters or self.scalar_offsets:
            arguments = self._converted(core, values)
        for index, _ in self.reads:
            arguments[index].alloc.life.last_use = clock
        for index in self.offsets:
            for tile in _index_tiles(values[index]):
                tile.alloc.life.last_use = clock
        for index, _ in self.writes:
            life = arguments[index].alloc.life
            life.last_use = clock
            if life.first_use < 0:
                life.first_use = clock
        if self.may_overlap:
            self._check_overlap(arguments)
        if not core.values and not self.synchronises:
            self._trace(core, arguments)
        elif self.memory:
            self.body(core, *arguments)
        else:
            self._compute(core, list(arguments), arguments)
        if core.watchers:
            self._emit(core, arguments)

    def _converted(self, core: Core, values: tuple[Any, ...]) -> list[Any]:
        """Return the arguments with numbers as the engines take them and offsets resolved."""
        arguments = list(values)
        for index, convert in self.converters:
            arguments[index] = convert(arguments[index])
        for index, name in self.scalar_offsets if core.values else ():
            arguments[index] = resolve_scalar(
                arguments[index], skip=False, instruction=self.instruction.name, operand=name
            )
        return arguments

    def _trace(self, core: Core, arguments: Sequence[Any]) -> None:
        """Do all but compute: note what is read and written."""
        for index, operand in self.whole_reads:
            tensor = arguments[index]
            storage = tensor.storage
            if storage.complete and storage.psum is None and storage.shared is None:
                continue  # nothing to note and nothing to find
            if tensor.indirect is None:
                trace_read(tensor, self.instruction.name, operand)
        if self.trace is not None:
            self.trace(core, *arguments)
            return
        for index, _ in self.writes:
            if arguments[index].indirect is None:
                note_written(arguments[index])

    def _compute(self, core: Core, arguments: list[Any], tensors: Sequence[Any]) -> None:
        watched = core.recorder.watches_values
        if not watched:
            shortcut = self.shortcut
            if shortcut is not None and shortcut.suits() and self._apart(tensors):
                self._take_shortcut(shortcut, core, arguments, tensors)
                return
            if self.blocks is not None and self._apart(tensors):
                self._compute_blocks(self.blocks, arguments, tensors)
                return
        for index, load in self.loads:
            arguments[index] = load(tensors[index])
        if self.watch is not None:
            self.watch(arguments)
        result = self.body(core, *arguments) if self.instruction.stateful else self.body(*arguments)
        if self.widened and watched:
            check_finite(self.instruction.name, arguments, result)
        stores = self.stores
        if len(stores) == 1 and type(result) is not tuple:
            index, store = stores[0]
            store(tensors[index], result)
            return
        for (index, store), part in zip(stores, result, strict=True):
            if part is not None:
                store(tensors[index], part)

    def _take_shortcut(
        self, shortcut: Shortcut, core: Core, arguments: list[Any], tensors: Sequence[Any]
    ) -> None:
        """Compute on stored elements."""
        name = self.instruction.name
        for index, operand in self.reads:
            arguments[index] = prepare_read(tensors[index], name, operand)
        for index, _ in self.writes:
            arguments[index] = tensors[index].array
        results = shortcut.compute(core, arguments)
        for (index, store), part in zip(self.stores, results, strict=True):
            if part is None:
                note_written(tensors[index])
            else:
                store(tensors[index], part)

    def _apart(self, tensors: Sequence[Any]) -> bool:
        """Tell whether the result may be written while inputs are still being read."""
        written = tensors[self.writes[0][0]]
        storage = written.storage
        for index, _ in self.reads:
            read = tensors[index]
            if read.storage is storage and read.region != written.region:
                return False
        return True

    def _compute_blocks(self, blocks: Blocks, arguments: list[Any], tensors: Sequence[Any]) -> None:
        """Compute a large tile in blocks of rows, each of which stays in the processor's cache."""
        name = self.instruction.name
        written = tensors[self.writes[0][0]]
        target = written.array
        inputs = [
            (index, widen, prepare_read(tensors[index], name, operand))
            for (index, operand), widen in zip(self.reads, blocks.widen, strict=True)
        ]
        parts = arguments.copy()
        for rows in blocks.rows:
            for index, widen, stored in inputs:
                parts[index] = widen(stored[rows])
            target[rows] = blocks.narrow(self.body(*parts))
        note_written(written)

    def _check_overlap(self, tensors: Sequence[Any]) -> None:
        if len(self.writes) > 1:
            first, second = (tensors[index] for index, _ in self.writes[:2])
            if first.storage is second.storage and overlaps(first, second):
                flag(
                    rules.RESULTS_OVERLAP,
                    f"{self.instruction.name}: {self.writes[1][1]} overlaps {self.writes[0][1]}",
                    instruction=self.instruction.name,
                    operand=self.writes[1][1],
                    seen=f"both in `{first.name}`",
                    fix="give each result a tile of its own",
                )
        for index, name in self.writes:
            written = tensors[index]
            storage = written.storage
            for other, source_name in self.streams:
                source = tensors[other]
                if (
                    source.storage is not storage
                    or source is written
                    or source.region == written.region
                    or (self.instruction.reads_first and _same_columns(source, written))
                ):
                    continue
                if (
                    written.indirect is None
                    and source.indirect is None
                    and overlaps(written, source)
                ):
                    flag(
                        rules.OVERLAP,
                        f"{self.instruction.name} {name} overlaps {source_name} with a different "
                        f"access pattern",
                        instruction=self.instruction.name,
                        operand=name,
                        seen=f"{name} {written.get_pattern()} at {written.offset}, "
                        f"{source_name} {source.get_pattern()} at {source.offset}",
                        allowed="disjoint, or the identical pattern",
                        fix="write into a temporary tile",
                    )

    def _emit(self, core: Core, tensors: Sequence[Any]) -> None:
        event = Event(
            core.clock,
            self.instruction.name,
            self.engine,
            tuple((name, tensors[index]) for index, name in self.reads),
            tuple((name, tensors[index]) for index, name in self.writes),
            user_place(),
        )
        for watcher in core.watchers:
            watcher(event)


def _same_columns(a: NkiTensor, b: NkiTensor) -> bool:
    """Tell whether two tiles cover the same columns, on whatever partitions."""
    return (a.free_byte_offset, a.shape[1:], a.strides[1:]) == (
        b.free_byte_offset,
        b.shape[1:],
        b.strides[1:],
    )


def check_finite(instruction: str, arguments: Sequence[Any], result: Any) -> None:
    """Flag NaN and infinity that an instruction made from finite arguments."""
    for part in result if type(result) is tuple else (result,):
        if part is None or np.isfinite(part).all():
            continue
        numbers = (float, np.floating, np.ndarray)
        inputs = [value for value in arguments if isinstance(value, numbers)]
        if all(np.isfinite(value).all() for value in inputs):
            at = np.unravel_index(int(np.argmax(~np.isfinite(part))), part.shape)
            flag(
                rules.NAN_CREATED,
                f"{instruction} makes {part[at]} from finite inputs",
                instruction=instruction,
                operand="dst",
                seen=f"{part[at]} at {tuple(int(i) for i in at)}",
                fix="add an epsilon, subtract the maximum, or clamp the input",
            )
        return


_BLOCK_ELEMENTS = 32768
"""Elements of a block: three float32 arrays of it fit a level-2 cache with room to spare."""


class Blocks(NamedTuple):
    """How to compute a large tile piece by piece: rows, and conversions of inputs and result."""

    rows: list[slice]
    widen: list[Convert]
    narrow: Convert


def _blocks(call: Call, plan: Plan) -> Blocks | None:
    """Return the blocks of rows to compute a large tile in, or None to compute it at once."""
    instruction = call.instruction
    dst = call.tensor("dst") if instruction.rowwise else None
    if dst is None or dst.size < 2 * _BLOCK_ELEMENTS:
        return None
    tensors = call.tensors(*instruction.operands)
    if any(t.ndim != 2 or t.indirect is not None for _, t in tensors):
        return None
    rows = blocks_of_rows(dst.shape[0], dst.free_size, _BLOCK_ELEMENTS)
    widen = [
        make_widener(call[name], name, instruction.name, inexact=plan.inexact)
        for _, name in plan.reads
    ]
    narrow = make_narrower(dst, "dst", instruction.name, inexact=plan.inexact)
    return Blocks(rows, widen, narrow)


def make_plan(instruction: Instruction, values: tuple[Any, ...], core: Core) -> Plan:
    """Check a call and return its plan.

    Raises:
        NkiValidationError: The call breaks a rule that leaves no natural result.
    """
    arguments = dict(zip(instruction.parameters, values, strict=True))
    call = Call(instruction, arguments, core.generation)
    check_call(call)
    return Plan(call)


def _converters(call: Call) -> list[tuple[int, Callable[[Any], Any]]]:
    """Return what replaces mended arguments in every call of the signature."""
    index = call.instruction.parameters.index
    return [(index(name), functools.partial(_always, value)) for name, value in call.mended.items()]


def _always(value: Any, given: Any) -> Any:
    return value


def _is_shared(value: Any) -> bool:
    """Tell whether an argument lies, or has parts that lie, where other cores can see it."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_shared, value))
    return isinstance(value, NkiTensor) and value.buffer is MemoryRegion.shared_hbm


def _index_tiles(value: Any) -> list[NkiTensor]:
    """Return the tiles that hold dynamic offsets of an argument, or of its parts."""
    if isinstance(value, (list, tuple)):
        return [tile for part in value for tile in _index_tiles(part)]
    indirect = value.indirect if isinstance(value, NkiTensor) else None
    source = None if indirect is None else indirect.source
    return [source] if isinstance(source, NkiTensor) else []


def _as_bits(value: Any) -> np.uint32:
    return np.uint32(int(value) & 0xFFFFFFFF)
