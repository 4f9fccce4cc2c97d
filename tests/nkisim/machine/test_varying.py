"""Numbers that vary from call to call without a new plan are checked in each call."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.isa import engine as Engine
from nkisim.machine import CORE, instruction
from nkisim.machine.calls.dispatch import _callable
from nkisim.spec import INSTRUCTIONS, ON_CHIP, Constraint, Out, rules, unconverted
from nkisim.spec.call import Call, arguments_read
from nkisim.spec.signatures import CALLS, PUBLISHED

X = np.ones((4, 8), np.float32)
VARYING = {name: declared for name, declared in INSTRUCTIONS.items() if declared.varying}


def arguments(name, tile):
    """A legal call of each instruction with varying arguments."""
    searched = {"dst": tile, "data": tile, "vals": tile, "imm": 0.5}
    ranged = {"comp_op0": nl.greater_equal, "comp_op1": nl.less, "range_start": 3}
    bounds = {"bound0": tile[:, 0:1], "bound1": tile[:, 1:2]}
    return {
        "memset": {"dst": tile, "value": 1},
        "iota": {"dst": tile, "pattern": [[1, 8]], "offset": 3, "channel_multiplier": 2},
        "range_select": {"dst": tile, "on_true_tile": tile, **ranged, **bounds},
        "nc_match_replace8": searched,
    }[name]


def refuses(argument, number):
    """A constraint that one number breaks."""

    def check(call):
        if call[argument] == number:
            call.fail(rules.STATIC_ARGUMENT, f"{argument} is {number}", operand=argument)

    return Constraint(f"{argument} is not {number}", (rules.STATIC_ARGUMENT,), check)


def findings(*calls):
    """The findings of calls of a tile in one kernel, one after the other."""

    def kernel(x):
        tile = nl.load(x)
        for call in calls:
            call(tile)
        return x

    return [f.operand for f in nkisim.check(kernel, target="gen3")(X) if f.rule.id == "A048"]


@pytest.fixture
def toy_is_free(monkeypatch):
    """Before a test and after it, nothing is known of the instruction "toy" that it declares."""
    monkeypatch.setattr(nkisim.machine.core, "_PLANS", {})
    yield
    for table in (INSTRUCTIONS, CALLS, PUBLISHED):
        table.pop("toy", None)


@pytest.mark.usefixtures("toy_is_free")
def test_a_second_call_is_refused_by_a_constraint_that_the_first_satisfies():
    @instruction(
        engines=(Engine.vector,),
        operands={"dst": Out(ON_CHIP)},
        varying=("value",),
        require=(refuses("value", 7.0),),
        arithmetic=unconverted,
    )
    def toy(dst, value):
        """Fill a tile."""
        dst._elements[...] = value

    legal, illegal = (lambda t: toy(t, 1.0)), (lambda t: toy(t, 7.0))
    assert findings(legal, illegal) == ["value"]
    assert findings(legal, lambda t: toy(t, 2.0)) == []
    assert findings(illegal, legal) == ["value"]


@pytest.mark.parametrize(
    ("name", "argument"), [(name, v) for name, i in VARYING.items() for v in i.varying]
)
@pytest.mark.parametrize("first", [False, True], ids=["", "first"])
@pytest.mark.usefixtures("toy_is_free")
def test_every_constraint_on_a_varying_argument_is_checked_in_each_call(name, argument, first):
    """Whatever the constraint is, and whether or not other calls of its plan were legal."""
    declared = VARYING[name]
    number = type(arguments(name, np.ones((4, 8)))[argument])(7)
    planted = refuses(argument, number)._replace(first=first)
    planted = declared._replace(require=(*declared.require, planted))
    function = _callable(planted._replace(name="toy", changes={}))

    def called_with(value):
        return lambda tile: function(**{**arguments(name, tile), argument: value})

    numbers = [number - 2, number, number - 1, number]
    assert findings(*map(called_with, numbers)) == [argument]  # one finding per line
    assert findings(*map(called_with, numbers[::2])) == []
    assert findings(*map(called_with, numbers[1:])) == [argument]


def test_the_kind_of_a_varying_argument_is_checked_in_each_call():
    """A position must be an integer of 32 bits, after a call with one as before."""

    def start(number):
        return lambda t: nisa.range_select(
            **{**arguments("range_select", t), "range_start": number}
        )

    assert findings(start(-(2**40))) == ["range_start"]
    assert findings(start(5), start(-(2**40))) == ["range_start"]


@pytest.mark.parametrize("name", VARYING)
def test_only_constraints_and_the_body_read_a_varying_argument(name):
    """Everything else is decided once for all calls that share the plan."""
    declared, read = VARYING[name], set()
    parts = [operand.part for operand in declared.operands.values()]
    deciding = [declared.arithmetic, declared.choose_engine, declared.follow, declared.function]
    deciding += [declared.shortcut, declared.watch_values, declared.moves, *parts]

    def kernel(x):
        given = arguments(name, nl.load(x))
        every = {p.name: p.default for p in declared.signature.parameters.values()} | given
        call = Call(declared, every, CORE.get().generation)
        for decide in filter(callable, deciding):
            read.update(arguments_read(decide, call))
        return x

    nkisim.simulate(kernel, target="gen3")(X)
    assert not read & {*declared.varying}
