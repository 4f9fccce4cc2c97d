"""How long transforms are cut: the quickest of all cuts by the model, and runs that fit."""

from __future__ import annotations

import itertools

from each_case import each_case
from trnfft._kernels.four_step_geometry import (
    PSUM_COLUMNS,
    Geometry,
    chunk_columns,
    even_step,
    group_columns,
    segments,
)
from trnfft._planning.choice import find_geometry, padded_length


def model_ns(g):
    """Products at 0.6 cycles a nanosecond, then 8 bytes a point at 368 bytes a nanosecond.

    Transfers in runs under 512 bytes are slower by as much. A column of a stage takes 4 passes of
    its first factor and two of the larger of twice that and its second one.
    """

    def column(first, second):
        return 4 * first + 2 * max(2 * first, second) if first > 1 else 4

    def transfer(run):
        return 8 * g.length * max(1.0, 512 / (4 * run)) / 368

    first, second = g.a * g.b, g.c * g.d
    if second == 1:
        return column(g.a, g.b) / 0.6 + transfer(g.b) + transfer(g.a)
    cycles = second * column(g.a, g.b) + first * column(g.c, g.d)
    loads = transfer(chunk_columns(g.a, g.b, second)) + transfer(g.a)
    return cycles / 0.6 + loads + 2 * transfer(chunk_columns(g.c, g.d, first))


def quickest(n):
    """The best of all cuts into two factors; if there are none, three; if there are none, four."""
    factors = [f for f in range(2, 129) if n % f == 0]
    for count in (2, 3, 4):
        cuts = []
        for head in itertools.product(factors, repeat=count - 1):
            rest = n
            for factor in head:
                rest = rest // factor if rest % factor == 0 else 0
            if 1 < rest <= 128 and (n % 2 or head[0] % 2 == 0):
                a, b, *more = (*head, rest)
                c, d = {0: (1, 1), 1: (1, *more), 2: more}[len(more)]
                cuts.append(Geometry(a, b, c, d))
        if cuts:
            return min(cuts, key=lambda g: (model_ns(g), g))
    return None


LENGTHS = [
    4, 6, 9, 100, 385, 513, 640, 1000, 1024, 2048, 4096, 5040, 9000, 127**2, 2**14,
    2**14 + 2, 2**15, 30_000, 44_100, 2**20, 128**2 * 3, 128**3, 3**10, 7**8, 2 * 127**2, 257,
    2 * 131,
]  # fmt: skip


@each_case("n", LENGTHS)
def test_the_cut_is_the_quickest_by_the_model(n):
    assert find_geometry(n) == quickest(n)


@each_case(
    ("n", "padded"), [(2, 4), (3, 8), (4, 8), (5, 16), (1031, 4096), (1025, 4096), (1024, 2048)]
)
def test_a_padded_length_holds_twice_the_points_but_one(n, padded):
    assert padded_length(n) == padded


@each_case(
    ("total", "most", "step"), [(10, 10, 10), (11, 10, 6), (20, 10, 10), (21, 10, 7), (1, 10, 1)]
)
def test_runs_are_nearly_equal(total, most, step):
    assert even_step(total, most) == step


def test_a_stage_loads_4096_elements_of_a_partition_and_multiplies_four_banks():
    assert chunk_columns(1, 128, 1024) == 1024
    assert chunk_columns(1, 128, 1025) == 513
    assert chunk_columns(64, 128, 32) == 32
    assert chunk_columns(64, 128, 33) == 17
    assert chunk_columns(128, 64, 33) == 17
    assert [group_columns(first, 1000) for first in (1, 2, 3, 64, 128)] == [1000, 512, 340, 16, 8]
    assert group_columns(2, 100) == 100


def test_the_products_of_a_group_fit_their_banks_and_so_does_its_result():
    for first in range(2, 129):
        columns = group_columns(first, 10**6)
        # Two parts of the first products in four banks, of which no column crosses one.
        assert columns // 4 * 2 * first <= 512
        assert columns * first <= PSUM_COLUMNS == 2 * 512


@each_case("g", [Geometry(4, 6), Geometry(4, 6, 1, 5), Geometry(4, 6, 3, 5)], ids=str)
def test_constants_follow_one_another(g):
    end, wanted = 0, []
    for factor in g:
        wanted.append(end if factor > 1 else -1)
        end += 3 * factor**2 if factor > 1 else 0
    for first, second in ((g.a, g.b), (g.c, g.d)):
        wanted.append(end if first > 1 else -1)
        end += 2 * first * second if first > 1 else 0
    wanted.append(end if g.d > 1 else -1)
    end += 2 * g.length if g.d > 1 else 0
    found = segments(g)
    assert [*found.matrices, *found.inner, found.outer] == wanted
    assert (found.weights, found.end) == (end, end + g.a)
