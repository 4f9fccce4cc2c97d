"""Where rules begin: the last call that a limit allows, and the first that it does not.

The limits are those of the access-pattern fields, of the partitions where an engine may start, of
the elements that one instruction covers, and those that single instructions have. What a pattern
visits twice is counted element by element.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from each_case import each_case

WIDTH = 70_000  # bytes of a partition; more than one instruction's fields reach


def codes(write, target="gen3"):
    """What is found when a kernel makes a tile and writes to it."""

    def kernel():
        write()

    return nkisim.check(kernel, target=target, values=False)().codes


def patterned(pattern, offset=0, engine=nisa.engine.gpsimd, dtype=nl.uint8, width=WIDTH):
    """A fill of part of a tile with one partition, of bytes, by GpSimd, which has no size limit."""

    def write():
        tile = nl.ndarray((1, width), dtype=dtype, buffer=nl.sbuf)
        view = tile.ap([[width, 1], *pattern], offset=offset)
        nisa.memset(dst=view, value=0, engine=engine)

    return write


# Steps of thirds never merge: each is more than the extent of the next.
FOUR = [[81, 2], [27, 2], [9, 2], [3, 2]]


@each_case(
    ("pattern", "offset", "fits"),
    [
        (FOUR, 0, True),
        ([*FOUR, [1, 2]], 0, False),
        ([*FOUR[:3], [2, 2], [1, 2]], 0, True),  # the last two are one run of four
        ([*FOUR[:2], [5, 1], *FOUR[2:]], 0, True),  # a single element needs no field
        ([[32767, 2]], 0, True),
        ([[32768, 2]], 0, False),
        ([[-32767, 2]], 32767, True),
        ([[-32768, 2]], 32768, False),
        ([[1, 65536]], 0, True),
        ([[1, 65537]], 0, False),
    ],
)
def test_fields_of_an_access_pattern(pattern, offset, fits):
    assert ("S023" not in codes(patterned(pattern, offset))) == fits


@pytest.mark.parametrize("dtype", [nl.uint8, nl.bfloat16, nl.float32], ids=str)
def test_steps_count_elements(dtype):
    def step(elements):
        return codes(patterned([[elements, 2]], dtype=dtype, width=40_000))

    assert "S023" not in step(32767)
    assert "S023" in step(32768)


@pytest.mark.parametrize(
    ("region", "engine", "limit"),
    [
        (nl.sbuf, nisa.engine.vector, 65536),
        (nl.psum, nisa.engine.vector, 4096),
        (nl.sbuf, nisa.engine.gpsimd, None),
    ],
)
def test_elements_of_one_instruction(region, engine, limit):
    def fill(columns):
        def write():
            tile = nl.ndarray((1, columns), dtype=nl.uint8, buffer=region)
            nisa.memset(dst=tile, value=0, engine=engine)

        return write

    if limit is None:
        assert "S060" not in codes(fill(65537))
    else:
        assert "S060" not in codes(fill(limit))
        assert "S060" in codes(fill(limit + 1))


def legal_starts(count):
    """Whole quarters for up to 32 partitions, halves for up to 64, else all of them."""
    return {0, 32, 64, 96} if count <= 32 else {0, 64} if count <= 64 else {0}


@each_case("count", [1, 31, 32, 33, 63, 64, 65, 127])
def test_partitions_where_an_instruction_starts(count):
    def fill(start):
        def write():
            tile = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=tile[start : start + count], value=0)

        return write

    for start in (0, 1, 16, 31, 32, 33, 63, 64, 65, 95, 96, 97):
        if start + count <= 128:
            legal = start in legal_starts(count)
            assert ("S004" not in codes(fill(start))) == legal, start


@pytest.mark.parametrize(
    ("index", "step"),
    [
        ((slice(0, 8, 1),), 1),
        ((slice(0, 8, 2),), 2),
        ((slice(0, 8, 3),), 3),
        ((slice(0, 1, 2),), 1),
        ((3, slice(0, 2)), 1),  # the dimensions of one partition
    ],
)
def test_partitions_are_consecutive(index, step):
    def kernel():
        tile = nl.ndarray((8, 4, 6), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile[index], value=0)

    report = nkisim.check(kernel, values=False)()
    found = [(f.message, f.seen) for f in report.findings if f.rule.id == "S023"]
    said = (f"memset dst takes every {step}th partition", f"partition step {step}")
    assert found == ([said] if step > 1 else [])


def visits(pattern):
    """Offsets of all elements of a pattern, with repetitions."""
    ranges = [range(0, step * count, step) if step else [0] * count for step, count in pattern]
    return [sum(offsets) for offsets in itertools.product(*ranges)]


patterns = st.lists(st.tuples(st.integers(-7, 7), st.integers(1, 4)), min_size=1, max_size=3).map(
    lambda dims: [list(dim) for dim in dims]
)


@examples(80)
@given(patterns, st.sampled_from([nl.uint8, nl.float32]))
def test_an_element_is_written_twice_when_a_pattern_visits_it_twice(pattern, dtype):
    def write():
        tile = nl.ndarray((2, 64), dtype=dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile.ap([[64, 2], *pattern], offset=-min(visits(pattern))), value=0)

    offsets = visits(pattern)
    assert ("M031" in codes(write)) == (len(set(offsets)) < len(offsets))


def new(shape, dtype=nl.float32, buffer=nl.sbuf):
    """A new tile, written where it is in SBUF."""
    tile = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    if buffer is nl.sbuf:
        nisa.memset(dst=tile, value=0)
    return tile


def added(count):
    def write():
        source = new((4, 8))
        nisa.dma_compute(dst=new((4, 8)), srcs=[source] * count, reduce_op=nl.add)

    return write


def turned_by_hardware(rows, columns):
    def write():
        source = new((rows, columns), nl.bfloat16)
        turned = nl.ndarray((columns, rows), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_transpose(dst=turned, src=source, dge_mode=nisa.dge_mode.hwdge)

    return write


def turned_and_gathered(rows, index, middle=(), columns=64):
    """A transpose of ``rows`` rows that an index tile of the shape ``index`` names."""

    def write():
        row = columns * int(np.prod(middle, dtype=int))
        table = nl.ndarray((300, row), dtype=nl.bfloat16, buffer=nl.private_hbm)
        steps = [int(np.prod(middle[i + 1 :], dtype=int)) * columns for i in range(len(middle))]
        inner = [list(pair) for pair in zip(steps, middle, strict=True)]
        offsets = new(index, nl.uint32)
        picked = table.ap([[row, rows], *inner, [1, columns]], vector_offset=offsets)
        turned = nl.ndarray((columns, *middle, rows), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_transpose(dst=turned, src=picked)

    return write


def gathered(rows=16, columns=4, width=1, valid=None, free=64):
    def write():
        arguments = {} if valid is None else {"num_valid_indices": valid}
        source, index = new((rows, 64)), new((rows, columns), nl.uint16)
        dst = nl.ndarray((rows, free), dtype=nl.float32, buffer=nl.sbuf)
        nisa.local_gather(
            dst=dst, src_buffer=source, index=index, num_elem_per_idx=width, **arguments
        )

    return write


def counted(*counts):
    def write():
        dst = nl.ndarray((4, 16), dtype=nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=dst, pattern=[[1, count] for count in counts], offset=0)

    return write


@pytest.mark.parametrize(
    ("rule", "call", "legal", "illegal"),
    [
        ("D028", added, [(1,), (16,)], [(17,)]),
        ("S042", turned_by_hardware, [(16, 128)], [(15, 128), (17, 128), (16, 127)]),
        (
            "S043",
            turned_and_gathered,
            [
                (16, (16, 1)),
                (128, (128, 1)),
                (256, (128, 2)),
                (16, (32, 1)),
                (16, (16, 1), (2, 1)),
                (16, (16, 1), (1, 2)),
                (16, (16, 1), (), 128),
            ],
            [
                (17, (32, 1)),
                (15, (16, 1)),
                (16, (24, 1)),
                (16, (112, 2)),
                (32, (16, 1)),
                (16, (16, 1), (2, 2)),
            ],
        ),
        (
            "S049",
            gathered,
            [
                (16, 4),
                (128, 4),
                (16, 4, 1, 1),
                (16, 4, 1, 64),
                (16, 4, 32, 2),
                (16, 256, 1, None, 4096),
                (16, 257, 1, 4096, 4096),
            ],
            [
                (15, 4),
                (17, 4),
                (16, 4, 3, 1),
                (16, 4, 64, 1),
                (16, 4, 1, 0),
                (16, 4, 1, 65, 65),
                (16, 4, 1, None, 63),
                (16, 4, 32, 2, 63),
                (16, 257, 1, 4097, 4097),
            ],
        ),
        ("S052", counted, [(16,), (2, 2, 2, 2)], [(15,), (17,), (2, 2, 2, 2, 1)]),
    ],
)
def test_limits_of_single_instructions(rule, call, legal, illegal):
    for arguments in legal:
        assert rule not in codes(call(*arguments)), arguments
    for arguments in illegal:
        assert rule in codes(call(*arguments)), arguments
