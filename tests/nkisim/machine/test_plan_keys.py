"""Calls share a plan only when every check and conversion of one is right for the other."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.machine.calls.dispatch import _operand_key, _static_key


def run(operand):
    """Add ``operand``, a number or a function that makes a column, to a tile of ones."""

    def kernel(x):
        tile = nl.load(x)
        column = operand() if callable(operand) else operand
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return nkisim.simulate(kernel)(np.ones((4, 8), np.float32))


def column(seen):
    def make():
        tile = nl.ndarray((4, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=2.0)
        seen.append(tile.layout)
        return tile

    return make


def test_an_integer_is_not_taken_for_a_tensor_whose_layout_has_that_number():
    layouts = []
    assert (run(column(layouts)) == 3).all()
    # Both orders: the plan of either must not serve the other.
    assert (run(layouts[0]) == 1 + layouts[0]).all()
    assert (run(column(layouts)) == 3).all()


@each_case("first", [1, 1.0, np.float32(1)])
@each_case("second", [2, 2.5, np.float32(3)])
def test_numbers_of_every_kind_keep_their_value(first, second):
    assert (run(first) == 1 + first).all()
    assert (run(second) == 1 + second).all()


def plans_after(count, call):
    """How many plans a kernel adds that makes ``count`` calls."""
    added = []

    def kernel(x):
        tile = nl.load(x)
        plans = nkisim.machine.CORE.get().plans
        call(tile, 0)
        before = len(plans)
        for i in range(1, count):
            call(tile, i)
        added.append(len(plans) - before)
        return x

    nkisim.check(kernel)(np.ones((4, 8), np.float32))
    return added[0]


CALLS = {
    "name": lambda t, i: nisa.tensor_copy(dst=t, src=t, name=f"copy {i}"),
    "float": lambda t, i: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=0.5 + i),
    "integer": lambda t, i: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1 + i),
    "fill": lambda t, i: nisa.memset(dst=t, value=0.5 * i),
    "whole fill": lambda t, i: nisa.memset(dst=t, value=i),
    "offset": lambda t, i: nisa.iota(dst=t, pattern=[[1, 8]], offset=i),
    "multiplier": lambda t, i: nisa.iota(dst=t, pattern=[[1, 8]], channel_multiplier=i),
    "start": lambda t, i: nisa.range_select(
        dst=t,
        on_true_tile=t,
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=t[:, 0:1],
        bound1=t[:, 1:2],
        range_start=i,
    ),
    "nan": lambda t, i: nisa.memset(dst=t, value=float("nan")),
}


@pytest.mark.parametrize("kind", CALLS)
def test_what_changes_in_a_loop_makes_no_new_plans(kind):
    assert plans_after(20, CALLS[kind]) == 0


@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16, nl.float32, nl.int8, nl.uint16])
def test_numbers_that_vary_are_written_and_checked_in_each_call(dtype):
    """Around every limit of a type, in both orders: a plan of a legal number serves no illegal."""
    limits = [0, 1, 127, 128, 255, 256, 2047, 2048, 65535, 65536, 2**24, 2**24 + 1, 1 - 2**8]
    for offsets in (limits, limits[::-1]):

        def kernel(x, offsets):
            tile = nl.ndarray((4, 2), dtype=dtype, buffer=nl.sbuf)
            out = nl.ndarray((len(offsets), 2, 4, 2), dtype=dtype, buffer=nl.shared_hbm)
            for i, offset in enumerate(offsets):
                nisa.iota(dst=tile, pattern=[[1, 2]], offset=offset)
                nisa.dma_copy(dst=out[i, 0], src=tile)
                nisa.memset(dst=tile, value=offset)
                nisa.dma_copy(dst=out[i, 1], src=tile)
            return out

        report = nkisim.check(kernel)(np.ones((4, 8), np.float32), tuple(offsets))
        alone = [nkisim.check(kernel)(np.ones((4, 8), np.float32), (offset,)) for offset in offsets]
        assert report.codes == set().union(*(one.codes for one in alone))
        for got, one in zip(report.outputs, alone, strict=True):
            np.testing.assert_array_equal(got, one.outputs[0])


def test_as_many_plans_are_kept_as_there_is_room_for(monkeypatch):
    from nkisim.machine import core

    monkeypatch.setattr(core, "_PLANS", {})
    monkeypatch.setattr(core, "_MOST_PLANS", 8)

    def kernel(x):
        tile = nl.load(x)
        for i in range(1, 40):
            nisa.memset(dst=tile, value=float(i))
            assert len(nkisim.machine.CORE.get().plans) <= 8
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    assert (nkisim.simulate(kernel)(np.ones((4, 8), np.float32)) == 39).all()


def test_an_argument_is_checked_although_an_equal_one_of_another_type_passed():
    def kernel(x, offset):
        nisa.range_select(
            dst=nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf),
            on_true_tile=nl.load(x),
            comp_op0=nl.greater_equal,
            comp_op1=nl.less,
            bound0=0.0,
            bound1=4.0,
            range_start=offset,
        )
        return x

    x = np.ones((4, 8), np.float32)
    nkisim.check(kernel)(x, 8)
    assert "A048" in nkisim.check(kernel)(x, np.float64(8.0)).codes


def test_a_plan_knows_where_in_its_bank_a_result_lies():
    """Columns 500 to 511 end with the bank; one further, twelve columns lie in two."""

    def kernel(x):
        a = nl.load(x)
        banks = nl.ndarray((8, 1024), dtype=nl.float32, buffer=nl.psum)
        for first in (500, 501, 512):
            nisa.nc_matmul(dst=banks[:, first : first + 12], stationary=a[:, 0:8], moving=a)

    report = nkisim.check(kernel, target="gen3")(np.ones((4, 12), np.float32))
    assert [f.message for f in report.findings if f.rule.id == "M012"] == [
        "nc_matmul dst covers bytes 2004 to 2051 of a partition and crosses a bank boundary"
    ]


def test_a_plan_serves_a_tile_wherever_it_lies_in_sbuf():
    def call(tile, i):
        nisa.tensor_scalar(dst=tile[:, i : i + 2], data=tile[:, i : i + 2], op0=nl.add, operand0=1)

    assert plans_after(4, call) == 0


def different(keys):
    return len(set(keys)) == len(keys)


def test_numbers_that_share_a_key():
    """Of numbers that float32 holds, only the kind and whether it is 0."""
    assert _operand_key(3) == _operand_key(-5) == _operand_key(2**24) == _operand_key(-(2**24))
    assert _operand_key(0.5) == _operand_key(-1e30) == _operand_key(float("inf"))
    assert _operand_key(None) is None
    assert different([_operand_key(v) for v in (0, 1, 0.0, 1.0, None, True, False, np.float32(1))])


@pytest.mark.parametrize("edge", [2**24, -(2**24)])
def test_numbers_that_float32_may_not_hold_have_keys_of_their_own(edge):
    beyond = [edge + n * (1 if edge > 0 else -1) for n in range(4)]
    assert different([_operand_key(value) for value in beyond])


def test_other_arguments_are_keys_themselves():
    one, same = np.arange(3), np.arange(3)
    values = [1, True, 1.0, np.float32(1), np.int64(1), "1", (1,), [1], None, one, one.astype("i2")]
    assert different([_static_key(value) for value in values])
    assert _static_key(one) == _static_key(same)
    assert _static_key(one) != _static_key(one.reshape(3, 1))
    assert _static_key(float("nan")) == _static_key(float("nan"))
    assert _static_key(np.float32("nan")) != _static_key(float("nan"))
    assert _static_key([1, [2, 3]]) == _static_key([1, [2, 3]]) != _static_key([1, (2, 3)])
    assert _static_key({}) is _static_key({1: 2}) is dict
    hash(tuple(map(_static_key, values)))


@each_case("operand", ["dst", "data1", "data2"])
@each_case("offset", [5, 8, -1])
def test_patterns_are_checked_one_by_one(operand, offset):
    """Each call has the plan of the first, whose pattern lies inside of its rows."""

    def kernel(x):
        one, other, result = nl.load(x), nl.load(x), nl.load(x)
        for start in (0, 4, offset):
            given = {"dst": result[:, 0:4], "data1": one[:, 0:4], "data2": other[:, 0:4]}
            tile = {"dst": result, "data1": one, "data2": other}[operand]
            given[operand] = tile.ap([[8, 4], [1, 4]], offset=start)
            nisa.tensor_tensor(op=nl.add, **given)

    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(kernel)(np.ones((4, 8), np.float32))
    assert caught.value.rule_id == "S021"
    assert f"with offset {offset}" in caught.value.finding.seen
