"""Operands of unusual form: empty, with an unwritten offset or rows, or no tensor at all."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from tiles import loaded, stored


def found(kernel, *inputs, **options):
    """Rule, severity, operand and what was seen, of every finding that is about a call."""
    report = nkisim.check(kernel, lnc=1, ignore=("M050", "M053"), **options)(*inputs)
    kept = [f for f in report.findings if f.rule.id[0] not in "LW" and f.rule.id != "S003"]
    return [(f.rule.id, f.severity, f.operand, f.seen) for f in kept]


TYPES = (nl.int8, nl.int32, nl.float16, nl.bfloat16, nl.float32)


@each_case("target", TYPES, ids=str)
@each_case("source", TYPES, ids=str)
def test_an_empty_tile_converts_without_a_finding(source, target):
    def kernel(x):
        one = nl.ndarray((4, 0), dtype=source, buffer=nl.sbuf)
        other = nl.ndarray((4, 0), dtype=target, buffer=nl.sbuf)
        nisa.tensor_copy(dst=other, src=one)
        nisa.dma_copy(dst=one, src=one)

    assert found(kernel, np.ones((4, 4), np.float32)) == []


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_an_offset_that_nobody_wrote_is_an_error(values, written):
    def kernel(x):
        tile = loaded(x)
        offset = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        if written:
            nisa.memset(dst=offset, value=1)
        view = tile.ap([[8, 4], [1, 2]], scalar_offset=offset, indirect_dim=1)
        half = nl.ndarray((4, 2), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=half, src=view)

    wanted = [("M001", "error", "scalar_offset of src", "first unwritten element (0, 0)")]
    assert found(kernel, np.ones((4, 8), np.float32), values=values) == ([] if written else wanted)


@pytest.mark.parametrize(
    ("rows", "missing"), [((0, 3, 1, 2), 0), ((0, 4, 1, 2), 8), ((5, 4, 1, 2), 16)]
)
def test_rows_that_are_gathered_were_written(rows, missing):
    """Of six rows four were written; each that is read without is a finding, by its elements."""

    def kernel(x, wanted):
        table = nl.ndarray((6, 8), dtype=x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=table[0:4], src=x)
        index = nl.ndarray((4, 1), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.dma_copy(dst=index, src=wanted)
        tile = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=table.ap([[8, 4], [1, 8]], vector_offset=index))
        return stored(tile)

    x, index = np.arange(32, dtype=np.float32).reshape(4, 8), np.uint32(rows).reshape(4, 1)
    report = nkisim.check(kernel)(x, index)
    unwritten = [f for f in report.findings if f.rule.id == "M005"]
    assert sum(f.count for f in unwritten) == missing // 8
    want = np.full((4, 8), np.nan, np.float32)
    for i, row in enumerate(rows):
        want[i] = x[row] if row < 4 else np.nan
    np.testing.assert_array_equal(report.outputs, want)


class Long:
    """Something that says much of itself."""

    def __repr__(self):
        return "0123456789" * 20


LONG = Long()


def with_tile(call):
    return lambda x: call(loaded(x))


@pytest.mark.parametrize(
    ("call", "rule", "shown"),
    [
        (lambda t: nisa.tensor_tensor(t, t, LONG, op=nl.add), "A025", 80),
        (lambda t: nisa.memset(t, LONG), "A048", 80),
        (lambda t: nisa.dma_compute(t, LONG, nl.add), "A025", 80),
        (lambda t: nisa.register_alloc(LONG), "A025", 80),
        (lambda t: nisa.register_move(LONG, 1), "A025", 80),
    ],
)
def test_what_is_shown_of_a_strange_object_is_short(call, rule, shown):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(with_tile(call))(np.ones((4, 8), np.float32))
    assert caught.value.rule_id == rule
    assert caught.value.finding.seen == repr(LONG)[:shown]


def test_an_array_of_the_host_is_no_operand():
    array = np.ones((4, 8), np.int16)
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(with_tile(lambda t: nisa.tensor_copy(dst=t, src=array)))(
            np.ones((4, 8), np.float32)
        )
    finding = caught.value.finding
    assert finding.seen == "int16 (4, 8) on the host"
    assert finding.fix == "make the array an argument of the kernel"


@each_case("entry", [nkisim.check, nkisim.simulate], ids=["check", "simulate"])
@each_case("shape", [(4, 3, 4), (3, 2, 2, 5), (4, 12)])
def test_a_number_per_partition_meets_all_free_dimensions(shape, entry):
    """However many dimensions a tile has, in each way through a small call."""
    rows = shape[0]

    def kernel(x, column):
        tile, per_row = loaded(x), loaded(column)
        out = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=per_row)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        nisa.activation(dst=out, op=nl.square, data=tile, bias=per_row)
        return stored(out)

    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7
    column = np.arange(1, rows + 1, dtype=np.float32).reshape(rows, 1)
    spread = column.reshape(rows, *(1,) * (len(shape) - 1))
    run = entry(kernel)
    found = run(x, column)
    got = found.outputs if entry is nkisim.check else found
    want = np.square(2 * x * spread + spread).astype(got.dtype)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
