"""Constraints on the operators and the engine of a call."""

from __future__ import annotations

from collections.abc import Callable, Collection
from inspect import Parameter

import numpy as np

from nkisim.diagnostics import Rule
from nkisim.spec import rules
from nkisim.spec.call import Call
from nkisim.spec.constraints import Constraint, listed
from nkisim.spec.enums import engine as Engine
from nkisim.spec.ops import Op, as_op


def alu_operator(
    *names: str, bitvec: bool = True, optional: bool = False, also: Collection[str] = ()
) -> Constraint:
    """Arguments are operators of the ALU, or operators that ``also`` names."""

    def check(call: Call) -> None:
        for name in names:
            value = call[name]
            if value is None and optional:
                continue
            op = as_op(value)
            known = op is not None and (op.is_alu or op.name in also)
            if op is None or not known or (op.is_bitvec and not bitvec):
                _not_an_operator(call, name, value, bitvec)
            assert op is not None
            _check_in_hardware(call, name, op)

    says = f"{listed(names)} {'an ALU operator' if bitvec else 'an arithmetic ALU operator'}"
    return Constraint(
        says + "".join(f" or {name}" for name in also),
        (rules.OPERATOR_KIND, rules.NO_DIVIDE, rules.NO_MODULO, rules.GENERATION),
        check,
    )


_OPERATORS = ("op", "op0", "op1", "cmp_op", "comp_op0", "comp_op1", "reduce_op")


def check_operators(call: Call) -> None:
    """Check that arguments are operators at all; instructions check which operators they take."""
    for name in _OPERATORS:
        if name not in call.values or call.op(name) is not None:
            continue
        required = call.instruction.signature.parameters[name].default is Parameter.empty
        if call[name] is not None or required:
            _not_an_operator(call, name, call[name], bitvec=True)


def unused_operand(operator: str, operand: str) -> Constraint:
    """An operand is None or 0 with an operator of one input, and given with any other."""

    def check(call: Call) -> None:
        op, value = call.op(operator), call[operand]
        if op is None:
            return
        zero = isinstance(value, (int, float, np.number)) and value == 0
        if op.unary and value is not None and not zero:
            seen = value if call.tensor(operand) is None else "a tile"
            call.fail_call(
                rules.BAD_CALL,
                f"{operand} must be None or 0 with {op!r}, which has one input, got {seen}",
                operand=operand,
                seen=seen,
                allowed="None or 0",
                fix=f"drop {operand}",
            )
        if not op.unary and value is None:
            call.fail_call(
                rules.BAD_CALL,
                f"{operand} is None, but {op!r} has two inputs",
                operand=operand,
                seen="None",
                allowed="a number or a (P, 1) tile",
                fix=f"pass {operand}",
                data={"is_none": True},
            )

    text = f"{operand} None or 0 with an operator of one input"
    return Constraint(text, (rules.BAD_CALL,), check)


_REDUCTIONS = (
    *("add", "subtract", "multiply", "maximum", "minimum"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"),
)
"""Operators that can reduce, for instructions that do not list theirs."""


def reduction_operator(
    name: str, allowed: Collection[str] | None = None, rule: Rule | None = None
) -> Constraint:
    """An argument is an operator that can reduce."""
    broken = rule or rules.REDUCTION_OPERATOR

    def check(call: Call) -> None:
        value = call[name]
        if value is None:
            return
        op = as_op(value)
        if op is None:
            _not_an_operator(call, name, value, bitvec=True)
        elif op.name not in (allowed or _REDUCTIONS):
            call.fail(
                broken,
                f"{name} cannot be {op!r}",
                operand=name,
                seen=op,
                allowed=", ".join(allowed or _REDUCTIONS),
                fix="use one of the legal reduction operators",
            )

    return Constraint(f"{name} a reduction operator", (broken,), check)


def matches_bits(op_names: tuple[str, ...], *names: str) -> Constraint:
    """Bitwise operators take integers on the Vector engine, unmixed with arithmetic."""

    def check(call: Call) -> None:
        ops = [op for n in op_names if (op := call.op(n)) is not None]
        if not any(op.is_bitvec for op in ops):
            return
        if not all(op.is_bitvec for op in ops):
            call.fail(
                rules.MIXED_OPERATORS,
                f"mixes bitwise and arithmetic operators: {', '.join(map(repr, ops))}",
                operand=op_names[-1],
                seen=", ".join(map(repr, ops)),
                allowed="both bitwise or both arithmetic",
                fix="use two instructions",
            )
        if "engine" in call.values and call["engine"] not in (Engine.unknown, Engine.vector):
            call.fail(
                rules.MIXED_OPERATORS,
                f"runs bitwise operators on the vector engine only, got {call['engine']}",
                operand="engine",
                seen=call["engine"],
                allowed="nisa.engine.vector",
                fix="drop engine=",
            )
        for name, tensor in call.tensors(*names):
            if not tensor.dtype.is_integer and tensor.dtype.kind != "bool":
                call.fail(
                    rules.BITVEC_ON_FLOAT,
                    f"{name} is {tensor.dtype}, but bitwise operators need integer types",
                    operand=name,
                    seen=tensor.dtype,
                    allowed="integer types",
                    fix="use an integer tile, or .view() of the same width",
                )
        for name in names:
            if isinstance(call[name], (float, np.floating)):
                call.fail(
                    rules.BITVEC_ON_FLOAT,
                    f"{name} is the float {call[name]}, but bitwise operators need integers",
                    operand=name,
                    seen=call[name],
                    allowed="an integer",
                    fix="pass an int",
                )

    return Constraint(
        "bitwise operators take integer operands, on the Vector engine",
        (rules.BITVEC_ON_FLOAT, rules.MIXED_OPERATORS),
        check,
    )


def engine_among(allowed: Callable[[Call], Collection[Engine]], says: str) -> Constraint:
    """``engine=`` names one of the engines that the call allows."""

    def check(call: Call) -> None:
        asked = call["engine"]
        legal = allowed(call)
        if asked is not Engine.unknown and asked not in legal:
            call.fail(
                rules.WRONG_ENGINE,
                f"cannot run on {asked} on {call.generation}",
                operand="engine",
                seen=asked,
                allowed=", ".join(str(e) for e in legal),
                fix="leave engine=nisa.engine.unknown, or name one of the allowed engines",
            )

    return Constraint(says, (rules.WRONG_ENGINE,), check)


def engine_named() -> Constraint:
    """``engine=`` is an engine, not left to the compiler."""

    def check(call: Call) -> None:
        if call["engine"] is Engine.unknown:
            legal = ", ".join(str(e) for e in call.instruction.engines)
            call.fail(
                rules.WRONG_ENGINE,
                "takes no engine.unknown",
                operand="engine",
                seen=call["engine"],
                allowed=legal,
                fix="name the engine, or leave engine= out for its default",
            )

    return Constraint("engine is named, not unknown", (rules.WRONG_ENGINE,), check)


def _check_in_hardware(call: Call, name: str, op: Op) -> None:
    if call.generation.number < op.since:
        call.fail(
            rules.GENERATION,
            f"{name} is {op!r}, which {call.generation} does not have",
            operand=name,
            seen=call.generation,
            allowed=f"gen{op.since} or newer",
            fix=f"run on gen{op.since}, or compute it with other operators",
        )
    if op.in_hardware:
        return
    rule = rules.NO_DIVIDE if op.name == "divide" else rules.NO_MODULO
    fix = (
        "nisa.reciprocal, then multiply"
        if op.name == "divide"
        else "multiply by the reciprocal, round by a cast to int32, multiply and subtract"
    )
    call.fail(
        rule,
        f"{name} is {op!r}, which no engine has",
        operand=name,
        seen=op,
        allowed="ALU operators",
        fix=fix,
    )


def _not_an_operator(call: Call, name: str, value: object, bitvec: bool) -> None:
    kind = "an ALU operator of nki.language" if bitvec else "an arithmetic operator of nki.language"
    call.fail(
        rules.OPERATOR_KIND,
        f"{name} must be {kind}, got {value!r}",
        operand=name,
        seen=repr(value),
        allowed="nl.add, nl.multiply, nl.maximum, ...",
        fix="pass an operator such as nl.add",
    )
