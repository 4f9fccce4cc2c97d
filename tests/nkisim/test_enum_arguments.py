"""Enum arguments given as strings: the member of that name is meant, in every parameter."""

from enum import Enum

import numpy as np
import pytest

import nkisim.isa as nisa
from comparing import assert_same_bits
from each_case import each_case
from nkisim.spec import enums
from nkisim.spec.instruction import INSTRUCTIONS
from nkisim.spec.signatures import CALLS

from .samples import SAMPLES, run

ENUMS = [getattr(enums, name) for name in enums.__all__]
ENUMS = [kind for kind in ENUMS if isinstance(kind, type)]


def parameters():
    """The first sample of every instruction, with each parameter that takes an enum."""
    first = {sample.instruction: sample for sample in reversed(SAMPLES)}
    for name, declared in sorted(INSTRUCTIONS.items()):
        for parameter in declared.signature.parameters.values():
            if isinstance(parameter.default, Enum):
                yield pytest.param(first[name], parameter, id=f"{name}-{parameter.name}")


each_parameter = each_case(("sample", "parameter"), list(parameters()))


def called(sample, parameter, value):
    """What a call gives with a value, and the values that reach those that watch instructions."""
    seen = []

    def watch(event):
        if event.instruction == sample.instruction:
            seen.append(event.arguments[parameter.name])

    having = CALLS[sample.instruction].items()
    version = next(
        v for v, c in having if v >= sample.nki and parameter.name in c.signature.parameters
    )
    return run(sample, settings={parameter.name: value}, watchers=(watch,), nki=version), seen


@each_parameter
def test_a_string_is_the_member_of_that_name(sample, parameter):
    for member in type(parameter.default):
        expected, members = called(sample, parameter, member)
        got, seen = called(sample, parameter, member.name)
        assert [str(finding) for finding in got.findings] == [str(f) for f in expected.findings]
        assert got.outputs.keys() == expected.outputs.keys()
        for name, output in expected.outputs.items():
            assert_same_bits(got.outputs[name], output)
        assert seen == members


@each_parameter
def test_another_string_is_refused_as_a_wrong_member_is(sample, parameter):
    kind = type(parameter.default)
    wrong = next(member for other in ENUMS if other is not kind for member in other)
    expected, _ = called(sample, parameter, wrong)
    assert expected.codes == {"A015"}
    for text in ("nothing", "", kind.__name__, parameter.default.name.upper()):
        got, _ = called(sample, parameter, text)
        assert got.codes == {"A015"}
        (finding,) = got.findings
        assert finding.operand == parameter.name
        assert finding.seen == repr(text)
        assert finding.allowed == expected.findings[0].allowed


@each_parameter
def test_an_integer_reaches_those_that_watch_as_its_member(sample, parameter):
    for member in list(type(parameter.default))[-2:]:
        if isinstance(member.value, int):
            _, members = called(sample, parameter, member)
            for value in (member.value, np.int64(member.value)):
                assert called(sample, parameter, value)[1] == members


def test_values_that_are_strings_are_their_names():
    """So that a name and a value never mean different members."""
    for kind in ENUMS:
        for member in kind:
            assert not isinstance(member.value, str) or member.value == member.name
    assert nisa.matmul_perf_mode.double_row.value == "double_row"
