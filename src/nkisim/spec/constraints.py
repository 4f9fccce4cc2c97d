"""Constraints: named conditions on a call, each with its check and its description."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import Rule
from nkisim.dtypes import DType, holds
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import rules
from nkisim.spec.call import Call


class Constraint(NamedTuple):
    """A condition that every legal call satisfies.

    Attributes:
        says: The condition in one line, for the documentation.
        rules: Rules that a call can violate here.
        check: Adds the violations that it finds to the call.
        first: Whether it is checked before the kinds of the arguments, because it explains calls
            with an older order of arguments.
    """

    says: str
    rules: tuple[Rule, ...]
    check: Callable[[Call], None]
    first: bool = False


def same_partitions(*names: str) -> Constraint:
    """Operands cover the same number of partitions."""

    def check(call: Call) -> None:
        tensors = call.tensors(*names)
        if not tensors:
            return
        first, reference = tensors[0]
        for name, tensor in tensors[1:]:
            if tensor.shape[0] == reference.shape[0]:
                continue
            seen = f"{first} {reference.shape}, {name} {tensor.shape}"
            if 1 in (tensor.shape[0], reference.shape[0]):
                call.fail(
                    rules.PARTITION_BROADCAST,
                    f"{first} and {name} must have the same partition dimension, got "
                    f"{reference.shape[0]} and {tensor.shape[0]}; engines do not broadcast "
                    f"across partitions",
                    operand=name,
                    seen=seen,
                    fix="nl.broadcast_to, a stride-0 DMA load, or a matmul with ones",
                )
            call.fail(
                rules.PARTITION_MISMATCH,
                f"{first} and {name} must have the same partition dimension, got "
                f"{reference.shape[0]} and {tensor.shape[0]}",
                operand=name,
                seen=seen,
                fix="slice both to the same [0:p]",
            )

    text = f"{listed(names)} have the same number of partitions"
    return Constraint(text, (rules.PARTITION_MISMATCH, rules.PARTITION_BROADCAST), check)


def same_free_size(*names: str) -> Constraint:
    """Operands hold the same number of elements per partition."""

    def check(call: Call) -> None:
        tensors = call.tensors(*names)
        if not tensors:
            return
        first, reference = tensors[0]
        for name, tensor in tensors[1:]:
            if tensor.free_size == reference.free_size:
                continue
            hint = ""
            if 1 in (tensor.free_size, reference.free_size):
                hint = "; for a (P, 1) operand use tensor_scalar, or a stride-0 .ap"
            call.fail(
                rules.FREE_SIZE_MISMATCH,
                f"{first} and {name} must have the same number of elements per partition, got "
                f"{reference.free_size} and {tensor.free_size}",
                operand=name,
                seen=f"{first} {reference.shape}, {name} {tensor.shape}",
                fix="slice or reshape to equal sizes" + hint,
            )

    return Constraint(
        f"{listed(names)} have the same number of elements per partition",
        (rules.FREE_SIZE_MISMATCH,),
        check,
    )


def elements_per_partition(name: str, count: int, rule: Rule) -> Constraint:
    """An operand holds exactly ``count`` elements per partition."""

    def check(call: Call) -> None:
        tensor = call.tensor(name)
        if tensor is not None and tensor.free_size != count:
            call.fail(
                rule,
                f"{name} must have {count} elements per partition, got {tensor.free_size}",
                operand=name,
                seen=tensor.shape,
                allowed=f"(P, {count})",
                fix=f"allocate {name} with {count} elements per partition",
            )

    return Constraint(f"{name} has {count} elements per partition", (rule,), check)


def at_most_one_in_psum(a: str, b: str) -> Constraint:
    """Two inputs are not both in PSUM."""

    def check(call: Call) -> None:
        tensors = call.tensors(a, b)
        if len(tensors) == 2 and all(t.buffer is MemoryRegion.psum for _, t in tensors):
            call.fail(
                rules.BOTH_IN_PSUM,
                f"{a} and {b} cannot both be in psum",
                operand=b,
                seen=f"{a} and {b} in psum",
                allowed="at most one of them in psum",
                fix="nisa.tensor_copy one of them to SBUF",
            )

    return Constraint(f"{a} and {b} are not both in PSUM", (rules.BOTH_IN_PSUM,), check)


def one_start_partition(a: str, b: str) -> Constraint:
    """Two SBUF inputs start at one partition."""

    def check(call: Call) -> None:
        tensors = call.tensors(a, b)
        if len(tensors) < 2 or any(t.buffer is not MemoryRegion.sbuf for _, t in tensors):
            return
        starts = [t.start_partition for _, t in tensors]
        if starts[0] != starts[1]:
            call.fail(
                rules.START_MISMATCH,
                f"{a} starts at partition {starts[0]}, {b} at {starts[1]}",
                operand=b,
                seen=starts,
                allowed="one start partition",
                fix="nisa.tensor_copy one operand to the other's start first",
            )

    return Constraint(
        f"{a} and {b} start at one partition when both are in SBUF", (rules.START_MISMATCH,), check
    )


def same_dtype(a: str, b: str, rule: Rule = rules.DTYPE_MISMATCH) -> Constraint:
    """Two operands have one dtype."""

    def check(call: Call) -> None:
        tensors = call.tensors(a, b)
        if len(tensors) == 2 and tensors[0][1].dtype != tensors[1][1].dtype:
            kinds = [t.dtype for _, t in tensors]
            call.fail(
                rule,
                f"{a} and {b} must have the same dtype, got {kinds[0]} and {kinds[1]}",
                operand=a,
                seen=f"{a} {kinds[0]}, {b} {kinds[1]}",
                fix="give both the same dtype, and convert in a separate tensor_copy",
            )

    return Constraint(f"{a} and {b} have one dtype", (rule,), check)


UNHELD = (rules.INTEGER_RANGE, rules.FLOAT_OVERFLOW)
"""Rules about a constant that a type cannot hold."""


def holds_constant(name: str, constant: str) -> Constraint:
    """The type of an operand holds a number that is written into it."""

    def check(call: Call) -> None:
        tensor, value = call.tensor(name), call[constant]
        if tensor is not None and not holds(tensor.dtype, value):
            call.fail(**misfit(tensor.dtype, value), operand=constant)

    return Constraint(f"{name} holds {constant}", UNHELD, check)


def misfit(dtype: DType, value: float, by: str = "") -> dict[str, Any]:
    """Return rule and message for a constant that a type cannot hold, written by ``by``."""
    limits: Any = None if dtype.is_float else np.iinfo(dtype.numpy)
    return {
        "rule": rules.FLOAT_OVERFLOW if dtype.is_float else rules.INTEGER_RANGE,
        "message": f"{by} writes {value}, which does not fit {dtype}".lstrip(),
        "seen": value,
        "allowed": f"up to {dtype.max_finite}"
        if dtype.is_float
        else f"{limits.min} to {limits.max}",
        "fix": "write a number that the type can hold, or use a wider type",
    }


def unpacked(name: str) -> Constraint:
    """An operand is not an x4 tile."""

    def check(call: Call) -> None:
        tensor = call.tensor(name)
        if tensor is not None and tensor.dtype.kind == "packed":
            refuse_pack(call, name, tensor)

    return Constraint(f"{name} is not an x4 tile", (rules.OPERAND_DTYPE,), check)


def refuse_pack(call: Call, name: str, tensor: NkiTensor) -> None:
    """Add the violation of an x4 tile where plain numbers are required."""
    call.fail(
        rules.OPERAND_DTYPE,
        f"{name} is {tensor.dtype}, four numbers in one element, which it does not accept",
        operand=name,
        seen=tensor.dtype,
        allowed="a type of single numbers; packs are moved, quantize_mx and nc_matmul_mx",
        fix="give both sides of a copy the packed type, or keep the numbers unpacked",
    )


def dtype_in(name: str, allowed: Collection[DType], rule: Rule = rules.OPERAND_DTYPE) -> Constraint:
    """An operand has one of the listed dtypes."""

    def check(call: Call) -> None:
        tensor = call.tensor(name)
        if tensor is not None and tensor.dtype not in allowed:
            call.fail(
                rule,
                f"{name} must be {' or '.join(map(str, allowed))}, got {tensor.dtype}",
                operand=name,
                seen=tensor.dtype,
                allowed=", ".join(map(str, allowed)),
                data={"dtypes": [*map(str, allowed)]},
                fix="convert with nisa.tensor_copy into a tile of such a type",
            )

    return Constraint(f"{name} is {' or '.join(map(str, allowed))}", (rule,), check)


def columns_are_float32(*names: str) -> Constraint:
    """Per-partition operands of arithmetic are float32."""

    def check(call: Call) -> None:
        for name, tensor in call.tensors(*names):
            if tensor.dtype != "float32" and not _bitvec_call(call):
                call.fail(
                    rules.COLUMN_DTYPE,
                    f"{name} must be float32, got {tensor.dtype}",
                    operand=name,
                    seen=tensor.dtype,
                    allowed="float32",
                    fix="keep per-partition operands in a float32 (P, 1) tile",
                )

    return Constraint(f"{listed(names)} float32 when a tile", (rules.COLUMN_DTYPE,), check)


def small_immediate(*names: str) -> Constraint:
    """Integer immediates are exact in float32."""

    def check(call: Call) -> None:
        for name in names:
            value = call[name]
            if (
                isinstance(value, (int, np.integer))
                and float(value) != _as_float32(value)
                and not _bitvec_call(call)
            ):
                call.fail(
                    rules.LARGE_IMMEDIATE,
                    f"{name} is {value}, which float32 rounds to {_as_float32(value):.0f}",
                    operand=name,
                    seen=value,
                    allowed="magnitude up to 2^24, or exact in float32",
                    fix="build large integers with shift and bitwise_or",
                )

    return Constraint(f"integer {listed(names)} exact in float32", (rules.LARGE_IMMEDIATE,), check)


def number_constant(*names: str) -> Constraint:
    """Arguments are numbers known at compile time."""

    def check(call: Call) -> None:
        for name in names:
            if not isinstance(call[name], (int, float, np.number)):
                not_constant(call, name, "a number")

    return Constraint(f"{listed(names)} a number", (rules.STATIC_ARGUMENT,), check)


def int32_constant(*names: str) -> Constraint:
    """Arguments are 32-bit integers known at compile time."""

    def check(call: Call) -> None:
        for name in names:
            value = call[name]
            if not isinstance(value, (int, np.integer)) or not -(2**31) <= value < 2**31:
                not_constant(call, name, "an integer of 32 bits")

    return Constraint(f"{listed(names)} an int32", (rules.STATIC_ARGUMENT,), check)


def not_constant(call: Call, name: str, wanted: str) -> None:
    """Add the violation of an argument that is not of the wanted kind."""
    call.fail(
        rules.STATIC_ARGUMENT,
        f"{name} must be {wanted} known at compile time, got {call[name]!r}"[:200],
        operand=name,
        seen=repr(call[name])[:80],
        allowed=wanted,
        fix=f"pass {wanted}",
    )


def _bitvec_call(call: Call) -> bool:
    return any(
        (op := call.op(n)) is not None and op.is_bitvec
        for n in ("op", "op0", "op1")
        if n in call.values
    )


def _as_float32(value: int | np.integer) -> float:
    return float(np.float32(value))


def listed(names: tuple[str, ...]) -> str:
    """Return names as a list in words."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
