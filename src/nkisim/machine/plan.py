"""Plans: a call checked once for all calls of the same signature.

Legality depends on shapes, dtypes, buffers and the generation, not on values. The first call of a
signature is checked and turned into a plan: what to read, what to compute, what to write and which
findings every such call brings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from nkisim.diagnostics import flag, user_place
from nkisim.machine.core import Core, Event
from nkisim.machine.transfer import Loader, Storer, make_loader, make_storer, overlaps
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm, is_on_chip, resolve_scalar
from nkisim.memory import rules as memory_rules
from nkisim.spec import rules
from nkisim.spec.call import Call, Violation
from nkisim.spec.enums import engine as Engine
from nkisim.spec.instruction import Instruction
from nkisim.spec.operands import Operand

__all__ = ["Plan", "make_plan"]

_COMPUTE = (Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd)


class Plan:
    """How to execute every call of one signature."""

    __slots__ = (
        "body",
        "converters",
        "engine",
        "inexact",
        "instruction",
        "loads",
        "reads",
        "scalar_offsets",
        "stores",
        "streams",
        "violations",
        "watch",
        "widened",
        "writes",
    )

    def __init__(self, call: Call) -> None:
        instruction = call.instruction
        self.instruction = instruction
        self.engine = call.engine
        self.violations: tuple[Violation, ...] = tuple(call.violations)
        self.body = instruction.body
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
        if self.violations:
            for violation in self.violations:
                violation.flag()
        arguments: list[Any] = list(values)
        if self.converters:
            for index, convert in self.converters:
                arguments[index] = convert(arguments[index])
        for index, name in self.scalar_offsets:
            arguments[index] = resolve_scalar(
                arguments[index], skip=False, instruction=self.instruction.name, operand=name
            )
        tensors = arguments if not self.loads and not self.stores else arguments.copy()
        for index, _ in self.reads:
            alloc = tensors[index].alloc
            alloc.last_use = clock
        for index, _ in self.writes:
            alloc = tensors[index].alloc
            alloc.last_use = clock
            if alloc.first_use < 0:
                alloc.first_use = clock
        if self.writes:
            self._check_overlap(tensors)
        if self.instruction.memory:
            self.body(core, *arguments)
        else:
            self._compute(core, arguments, tensors)
        if core.watchers:
            self._emit(core, tensors)

    def _compute(self, core: Core, arguments: list[Any], tensors: list[Any]) -> None:
        for index, load in self.loads:
            arguments[index] = load(tensors[index])
        if self.watch is not None:
            self.watch(arguments)
        result = self.body(core, *arguments) if self.instruction.stateful else self.body(*arguments)
        if self.widened and core.recorder.strictness != "simulate":
            self._check_finite(arguments, result)
        stores = self.stores
        if len(stores) == 1 and type(result) is not tuple:
            index, store = stores[0]
            store(tensors[index], result)
            return
        for (index, store), part in zip(stores, result, strict=True):
            if part is not None:
                store(tensors[index], part)

    def _check_finite(self, arguments: list[Any], result: Any) -> None:
        """Flag NaN and infinity that the instruction made from finite inputs."""
        for part in result if type(result) is tuple else (result,):
            if part is None or np.isfinite(part).all():
                continue
            inputs = [arguments[index] for index, _ in self.loads]
            if all(np.isfinite(values).all() for values in inputs):
                at = np.unravel_index(int(np.argmax(~np.isfinite(part))), part.shape)
                flag(
                    rules.NAN_CREATED,
                    f"{self.instruction.name} makes {part[at]} from finite inputs",
                    instruction=self.instruction.name,
                    operand="dst",
                    seen=f"{part[at]} at {tuple(int(i) for i in at)}",
                    fix="add an epsilon, subtract the maximum, or clamp the input",
                )
            return

    def _check_overlap(self, tensors: list[Any]) -> None:
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

    def _emit(self, core: Core, tensors: list[Any]) -> None:
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


def make_plan(instruction: Instruction, values: tuple[Any, ...], core: Core) -> Plan:
    """Check a call and return its plan.

    Raises:
        NkiValidationError: The call breaks a rule that leaves no natural result.
    """
    call = Call(
        instruction, dict(zip(instruction.parameters, values, strict=True)), core.generation
    )
    if core.generation.number < instruction.since:
        call.fail(
            rules.GENERATION,
            f"is not available on {core.generation}",
            seen=core.generation,
            allowed=f"gen{instruction.since} or newer",
            fix="choose another target, or an instruction that this generation has",
        )
    _check_enums(call)
    for name, operand in instruction.operands.items():
        _check_operand(call, name, operand)
    if "engine" in call.values and Engine.dma not in instruction.engines:
        _check_engine(call)
    for constraint in instruction.require:
        constraint.check(call)
    call.engine = _engine(call)
    for name, operand in instruction.operands.items():
        tensor = call.tensor(name)
        if tensor is not None:
            _check_placement(call, name, operand, tensor)
    return Plan(call)


def _engine(call: Call) -> Engine:
    instruction = call.instruction
    if instruction.choose_engine is not None:
        return instruction.choose_engine(call)
    asked = call.values.get("engine", Engine.unknown)
    return (
        asked
        if isinstance(asked, Engine) and asked is not Engine.unknown
        else instruction.engines[0]
    )


def _check_enums(call: Call) -> None:
    """Check the arguments whose default is an enum member, and mend raw integers."""
    for name, parameter in call.instruction.signature.parameters.items():
        default, value = parameter.default, call.values[name]
        if not isinstance(default, Enum) or isinstance(value, type(default)):
            continue
        kind = type(default)
        member = _member(kind, value)
        choices = ", ".join(f"nisa.{kind.__name__}.{m.name}" for m in kind)
        if member is None:
            call.fail_call(
                rules.ENUM_KIND,
                f"{name} must be a member of nisa.{kind.__name__}, got {value!r}",
                operand=name,
                seen=repr(value),
                allowed=choices,
                fix=f"pass a member of nisa.{kind.__name__}",
            )
        else:
            call.values[name] = member
            call.fail(
                rules.INTEGER_ENUM,
                f"{name} is the integer {value}, which stands for "
                f"nisa.{kind.__name__}.{member.name}",
                operand=name,
                seen=value,
                allowed=choices,
                fix=f"write nisa.{kind.__name__}.{member.name}",
            )


def _member(kind: type[Enum], value: object) -> Enum | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return next((m for m in kind if m.value == value), None)
    return None


def _converters(call: Call) -> list[tuple[int, Callable[[Any], Any]]]:
    """Return what replaces raw integers by enum members in every call of the signature."""
    found: list[tuple[int, Callable[[Any], Any]]] = []
    for index, (name, parameter) in enumerate(call.instruction.signature.parameters.items()):
        kind = type(parameter.default)
        if issubclass(kind, Enum) and any(
            v.rule is rules.INTEGER_ENUM and v.operand == name for v in call.violations
        ):
            found.append((index, functools.partial(_member, kind)))
    return found


def _as_bits(value: Any) -> np.uint32:
    return np.uint32(int(value) & 0xFFFFFFFF)


def _check_operand(call: Call, name: str, operand: Operand) -> None:
    """Check kind, memory and column shape of one operand."""
    value = call.values[name]
    if value is None and operand.optional:
        return
    if not isinstance(value, NkiTensor):
        if operand.scalar and isinstance(value, (int, float, np.number)):
            return
        accepted = "a tensor" + (" or a number" if operand.scalar else "")
        call.fail_call(
            rules.BAD_CALL,
            f"{name} must be {accepted}, got {type(value).__name__}",
            operand=name,
            seen=repr(value)[:80],
            allowed=accepted,
            fix=f"pass {accepted} for {name}; the signature is "
            f"{call.name}{call.instruction.signature}",
        )
    if (
        value.indirect is not None
        and value.indirect.kind == "vector"
        and not call.instruction.memory
    ):
        call.fail(
            rules.INDIRECT_OPERAND,
            f"{name} has a vector_offset, but {call.name} cannot gather",
            operand=name,
            seen="vector_offset",
            allowed="a static view or a scalar_offset",
            fix="gather with nisa.dma_copy in swdge mode, or nc_n_gather or local_gather on chip",
        )
    if value.buffer not in operand.buffers:
        _wrong_buffer(call, name, operand, value)
    if operand.column and (value.free_size != 1):
        call.fail(
            rules.COLUMN_SHAPE,
            f"{name} must have one element per partition, got shape {value.shape}",
            operand=name,
            seen=value.shape,
            allowed="(P, 1)",
            fix="slice one column, such as t[:, 0:1]",
        )


def _wrong_buffer(call: Call, name: str, operand: Operand, tensor: NkiTensor) -> None:
    names = [region.value for region in operand.buffers]
    if operand.buffer_rule is not None:
        rule = operand.buffer_rule
    else:
        rule = rules.COMPUTE_IN_HBM if is_hbm(tensor.buffer) else rules.BUFFER_UNREACHABLE
    if call.instruction.engines == (Engine.dma,):
        got = ", ".join(
            f"{n}={t.buffer}" for n, t in call.tensors("src", "dst") if n in call.values
        )
        message = f"requires HBM or SBUF tensors, got {got}"
    else:
        message = f"{name} must be in {names}, got {tensor.buffer.value}"
    call.fail(
        rule,
        message,
        operand=name,
        seen=tensor.describe(),
        allowed=", ".join(names),
        fix="load it into SBUF with nisa.dma_copy first"
        if is_hbm(tensor.buffer)
        else "go through a tile in an allowed memory with nisa.tensor_copy",
    )


def _check_engine(call: Call) -> None:
    asked = call["engine"]
    if asked is not Engine.unknown and asked not in call.instruction.engines:
        call.fail(
            rules.WRONG_ENGINE,
            f"cannot run on {asked}",
            operand="engine",
            seen=asked,
            allowed=", ".join(str(e) for e in call.instruction.engines),
            fix="leave engine=nisa.engine.unknown, or name one of the allowed engines",
        )


def _check_placement(call: Call, name: str, operand: Operand, tensor: NkiTensor) -> None:
    """Check what depends on the engine: ports, partition starts, sizes of fields."""
    if call.engine is Engine.gpsimd and tensor.buffer is MemoryRegion.psum:
        call.fail(
            rules.GPSIMD_IN_PSUM,
            f"{name} is in psum, which the GpSimd engine cannot reach",
            operand=name,
            seen=tensor.describe(),
            allowed="sbuf",
            fix="move it through SBUF, or use the vector engine",
        )
    if operand.writes and _revisits(tensor):
        call.fail(
            rules.REPEATED_WRITE,
            f"{name} writes some elements more than once: pattern {tensor.get_pattern()}",
            operand=name,
            seen=tensor.get_pattern(),
            allowed="every element at most once",
            fix="give the destination a dense pattern",
        )
    if call.engine not in _COMPUTE or not is_on_chip(tensor.buffer):
        return
    _check_partition_start(call, name, tensor)
    generation = call.generation
    psum = tensor.buffer is MemoryRegion.psum
    limit = generation.psum_free_elements if psum else generation.sbuf_free_elements
    if call.engine in (Engine.vector, Engine.scalar) and tensor.free_size > limit:
        call.fail(
            rules.FREE_SIZE_LIMIT,
            f"{name} has {tensor.free_size} elements per partition, one instruction covers "
            f"{limit} in "
            f"{tensor.buffer.value}",
            operand=name,
            seen=tensor.free_size,
            allowed=f"at most {limit}",
            fix="split the free dimension over several instructions",
        )
    _check_fields(call, name, tensor)


def _check_partition_start(call: Call, name: str, tensor: NkiTensor) -> None:
    pitch = tensor.storage.pitch
    if tensor.shape[0] > 1 and tensor.strides[0] % pitch == 0 and tensor.strides[0] != pitch:
        call.fail(
            memory_rules.PATTERN_FIELDS,
            f"{name} takes every {tensor.strides[0] // pitch}th partition",
            operand=name,
            seen=f"partition step {tensor.strides[0] // pitch}",
            allowed="consecutive partitions",
            fix="move the rows together with nisa.dma_copy first",
        )
        return
    start = tensor.start_partition
    count = tensor.shape[0] if tensor.strides[0] == tensor.storage.pitch else 1
    step = 32 if count <= 32 else 64 if count <= 64 else 128
    if start % step:
        allowed = ", ".join(str(s) for s in range(0, 128, step))
        call.fail(
            rules.PARTITION_START,
            f"{name} covers {count} partitions from partition {start}",
            operand=name,
            seen=f"start {start}, {count} partitions",
            allowed=f"start at {allowed}",
            fix="align the start, or move the rows with nisa.dma_copy first",
        )


def _check_fields(call: Call, name: str, tensor: NkiTensor) -> None:
    """Check that the free dimensions fit the instruction's access-pattern fields."""
    merged: list[tuple[int, int]] = []
    for extent, stride in zip(tensor.shape[1:], tensor.strides[1:], strict=True):
        if extent == 1:
            continue
        if merged and merged[-1][1] == stride * extent:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    steps = [stride // tensor.itemsize for _, stride in merged]
    widest = max(tensor.shape[1:], default=1)
    if len(merged) <= 4 and widest <= 65535 + 1 and all(abs(step) <= 32767 for step in steps):
        return
    call.fail(
        memory_rules.PATTERN_FIELDS,
        f"{name} has the access pattern {tensor.get_pattern()}, which does not fit the instruction",
        operand=name,
        seen=f"{len(merged)} free dimensions, largest count {widest}, strides {steps}",
        allowed="4 free dimensions, counts up to 65535, strides up to 32767 elements",
        fix="merge dimensions, or split the instruction",
    )


def _revisits(tensor: NkiTensor) -> bool:
    """Tell whether a view's pattern visits an element twice."""
    if tensor.indirect is not None and tensor.indirect.kind == "vector":
        return False
    dims = sorted(
        (abs(stride), extent)
        for extent, stride in zip(tensor.shape, tensor.strides, strict=True)
        if extent > 1
    )
    reach = tensor.itemsize
    for stride, extent in dims:
        if stride < reach:
            return True
        reach = stride * (extent - 1) + reach
    return False
