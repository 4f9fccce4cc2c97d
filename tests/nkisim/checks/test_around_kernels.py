"""What goes into a kernel, names without a value, cores that diverge, where NaN is born."""

import enum
import typing

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import bf16, f32
from tiles import stored


def check(kernel, *arguments, **options):
    return nkisim.check(kernel, source=False, **options)(*arguments)


# -- arguments -------------------------------------------------------------------------------------


class Mode(enum.Enum):
    fast = 1


class Sizes(typing.NamedTuple):
    rows: int = 8


class Setting(nl.NKIObject):
    factor: float = 2.0


class Plain:
    factor = 2.0


def copied(a, extra):
    assert extra is not a
    return stored(nl.load(a))


NUMBERS = [1, 2.5, True, None, "text", (1, 2), {"a": 1}]
NAMES = [Mode.fast, Sizes(), Setting(), nl.float32, nl.exp, nl.sbuf, nisa.engine.vector]
SCALARS = [np.float32(1), np.int64(1), np.dtype("int32"), np.float16, (1, np.int8(2))]
OBJECTS = [slice(0, 4), np.sqrt, f32, Plain(), np.random.default_rng(0), {"a": slice(1)}]


def called(extra):
    return type(extra).__name__


@pytest.mark.parametrize("extra", [*NUMBERS, *NAMES], ids=called)
def test_what_the_front_end_takes_is_no_finding(extra):
    assert not check(copied, f32(8, 16), extra).findings


@pytest.mark.parametrize("extra", [*SCALARS, *OBJECTS], ids=called)
def test_what_the_front_end_does_not_take_is_one(extra):
    report = check(copied, f32(8, 16), extra)
    (finding,) = report.findings
    assert finding.rule.id == "L057"
    assert finding.operand.startswith("extra")
    assert report.outputs is not None


# -- names -----------------------------------------------------------------------------------------


def without_a_turn(a, turns):
    for i in range(turns):
        tile = nl.load(a[i])
    return stored(tile)


def test_a_name_that_a_loop_without_a_turn_would_bind():
    report = check(without_a_turn, f32(2, 8, 16), 0)
    (finding,) = report.findings
    assert (finding.rule.id, finding.operand) == ("L059", "tile")
    assert finding.place.text == "return stored(tile)"
    assert finding.notes == (f"tile is assigned at {__file__}:{finding.line - 1}",)
    assert not check(without_a_turn, f32(2, 8, 16), 2).findings


def test_simulate_raises_what_python_raises():
    with pytest.raises(UnboundLocalError) as caught:
        nkisim.simulate(without_a_turn)(f32(2, 8, 16), 0)
    assert isinstance(caught.value, nkisim.NkiValidationError)
    assert caught.value.rule_id == "L059"


# -- cores -----------------------------------------------------------------------------------------


def in_a_helper(data):
    nisa.core_barrier(data=data, cores=(0, 1))


def test_both_cores_may_meet_in_one_helper():
    @nkisim.jit
    def kernel(a):
        core, half = nl.program_id(0), nl.ndarray((2, 8, 16), nl.float32, nl.shared_hbm)
        nl.store(half[core], nl.load(a[core]))
        if core == 0:
            in_a_helper(half)
        else:
            in_a_helper(half)
        return half

    assert not check(kernel[2], f32(2, 8, 16), target="gen3").findings


@pytest.mark.parametrize("meets", [True, False])
def test_private_memory_is_no_box(meets):
    @nkisim.jit
    def kernel(a):
        core, out = nl.program_id(0), nl.ndarray((2, 8, 16), nl.float32, nl.shared_hbm)
        box = nl.ndarray((2, 8, 16), nl.float32, nl.private_hbm)
        nl.store(box[core], nl.load(a[core]))
        if meets:
            nisa.core_barrier(data=out, cores=(0, 1))
        nl.store(out[core], nl.load(box[1 - core]))
        return out

    codes = check(kernel[2], f32(2, 8, 16), target="gen3").codes
    assert codes == ({"C010"} if meets else {"M005"})


def test_a_part_that_another_program_would_write_is_not_missing_for_two():
    @nkisim.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        core = nl.program_id(0)
        nl.store(out[core], nl.load(a[core]))
        return out

    assert check(kernel, f32(2, 8, 16)).codes == {"C003"}
    assert check(kernel[1], f32(2, 8, 16)).codes == {"C003"}
    assert check(kernel[2], f32(2, 8, 16), target="gen3").codes == set()


# -- NaN -------------------------------------------------------------------------------------------


def test_a_nan_is_named_once_where_it_is_born():
    def kernel(a):
        tile = nl.load(a)
        nisa.tensor_tensor(tile, tile, tile, nl.subtract)
        for _ in range(3):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return stored(tile)

    report = check(kernel, np.full((8, 16), np.inf, np.float32))
    (finding,) = report.findings
    assert (finding.rule.id, finding.count) == ("D042", 1)
    assert finding.seen == "nan at (0, 0)"


def test_a_lowest_number_that_starts_a_maximum_is_no_finding():
    def kernel(a):
        peak = nl.ndarray((8, 16), nl.bfloat16, nl.sbuf)
        nisa.memset(dst=peak, value=-3.38e38)
        nisa.tensor_tensor(peak, peak, nl.load(a), nl.maximum)
        return stored(peak)

    assert not check(kernel, bf16(8, 16)).findings


def test_the_element_of_a_value_is_named():
    def kernel(a):
        tile = nl.ndarray((8, 16), nl.int8, nl.sbuf)
        nisa.tensor_copy(dst=tile, src=nl.load(a))
        return stored(tile)

    a = np.zeros((8, 16), np.float32)
    a[3, 5] = 300
    (finding,) = check(kernel, a).findings
    assert (finding.rule.id, finding.seen) == ("D019", "300.0 at (3, 5)")
