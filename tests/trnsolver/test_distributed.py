"""Row shares on 1, 2 and 4 ranks of gloo, uneven and empty ones among them."""

import os

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver
from fresh_process import found_by_ranks
from trnsci.core.testing import unit_roundoff
from trnsolver import distributed

from . import ranks as problems

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forks of one process")

RANKS = (1, 2, 4)
DTYPES = (torch.float64, torch.complex128)
CONDITION = 1e3  # more than that of the problems
BOUND = 100 * CONDITION * 40 * unit_roundoff(torch.float64)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return found_by_ranks(problems.__file__, tmp_path_factory.mktemp("ranks"), RANKS)


def part(found, ranks, name, dtype, place, rows=False):
    """A result: that of rank 0, after a check that others agree, or all rows."""
    parts = []
    for rank in found[ranks]:
        values = np.asarray(rank[f"{name} {dtype}"]["parts"][place], dtype=np.float64)
        parts.append(values[..., 0] + 1j * values[..., 1] if values.size else None)
    if not rows:
        assert all(np.array_equal(parts[0], other) for other in parts)
        return parts[0]
    return np.concatenate([p for p in parts if p is not None])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
def test_results_are_those_of_one_process(found, ranks, dtype):
    a, b, spd = (value.numpy() for value in problems.problem(dtype))
    q, r = part(found, ranks, "tsqr", dtype, 0, True), part(found, ranks, "tsqr", dtype, 1)
    assert np.abs(q @ r - a).max() <= BOUND / CONDITION
    assert np.abs(q.conj().T @ q - np.eye(problems.N)).max() <= BOUND / CONDITION
    assert np.array_equal(r, np.triu(r))
    assert (np.diag(r).real >= 0).all()

    x = part(found, ranks, "lstsq", dtype, 0)
    want, squares, count, values = np.linalg.lstsq(a, b, rcond=None)
    assert np.abs(x - want).max() <= BOUND * np.abs(want).max()
    assert np.abs(part(found, ranks, "lstsq", dtype, 1) - squares).max() <= BOUND * squares.max()
    assert part(found, ranks, "lstsq", dtype, 2) == count
    assert np.abs(part(found, ranks, "lstsq", dtype, 3) - values).max() <= BOUND

    u = part(found, ranks, "rsvd", dtype, 0, True)
    s, vh = (part(found, ranks, "rsvd", dtype, place) for place in (1, 2))
    alone = trnsolver.rsvd(torch.from_numpy(a), 3, oversampling=2)
    assert np.abs(s - alone.s.numpy()).max() <= BOUND
    assert np.abs(u * s @ vh - (alone.U * alone.s @ alone.Vh).numpy()).max() <= BOUND

    sign = part(found, ranks, "msign", dtype, 0, True)
    assert np.abs(sign - scipy.linalg.polar(a)[0]).max() <= 1e-6

    x = part(found, ranks, "solve_spd", dtype, 0, True)
    want = scipy.linalg.solve(spd, b, assume_a="pos")
    assert np.abs(x - want).max() <= BOUND * np.abs(want).max()
    logdet = part(found, ranks, "solve_spd", dtype, 1)
    assert abs(logdet - np.linalg.slogdet(spd)[1]) <= BOUND


@pytest.mark.parametrize("name", ["tsqr", "rsvd", "msign", "solve_spd"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_do_not_depend_on_the_number_of_ranks(found, name, dtype):
    alone = part(found, 1, name, dtype, 0, True)
    for ranks in (2, 4):
        other = part(found, ranks, name, dtype, 0, True)
        assert np.abs(other - alone).max() <= BOUND * np.abs(alone).max()


@pytest.mark.parametrize("ranks", RANKS)
def test_every_call_sends_the_bytes_that_its_plan_states(found, ranks):
    for rank in found[ranks]:
        for name, result in rank.items():
            if name not in ("refused", "hostile", "rank deficient"):
                assert result["sent"] == result["planned"] > 0, name


@pytest.mark.parametrize("ranks", RANKS)
def test_layouts_that_do_not_fit_are_refused_on_every_rank(found, ranks):
    for rank in found[ranks]:
        columns, wide, square, definite, rows, plain = rank["refused"]
        assert columns.startswith("ShapeError")
        assert wide.startswith("ShapeError")
        assert "gathered" in wide
        assert square.startswith("ShapeError")
        assert definite.startswith("NotPositiveDefiniteError")
        assert rows.startswith("ShapeError")
        assert ranks > 1 or plain.startswith(("DTypeError", "ShapeError"))


@pytest.mark.parametrize("ranks", RANKS)
def test_what_one_rank_cannot_use_is_refused_on_every_rank(found, ranks):
    kinds = ["NotFiniteError"] * 2 + ["DTypeError"] * 2 + ["DerivativeError"] * 2
    for rank in found[ranks]:
        assert [text.partition(":")[0] for text in rank["hostile"]] == kinds


@pytest.mark.parametrize("ranks", RANKS)
def test_least_squares_of_dependent_columns_are_the_shortest(found, ranks):
    a, b, _ = problems.problem(torch.float64)
    a[:, 2] = a[:, 0] - a[:, 1]
    want = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=1e-12)
    for rank in found[ranks]:
        solution, squares, count, _ = (
            np.asarray(p)[..., 0] for p in rank["rank deficient"]["parts"]
        )
        assert int(count) == problems.N - 1
        assert np.abs(solution - want[0]).max() <= BOUND
        off = ((a.numpy() @ want[0] - b.numpy()) ** 2).sum(0)
        assert np.abs(squares - off).max() <= BOUND * off.max()


def test_plans_print_and_refuse():
    text = str(distributed.plan("lstsq", [30, 10], 6, right_sides=2))
    assert text.splitlines()[0] == "lstsq of 40 rows on 2 ranks"
    assert "triangles" in text
    # Far less than the matrix.
    assert distributed.plan("tsqr", [10**6] * 4, 50).total_bytes < 4 * 10**6 * 50 * 4 / 1000
    with pytest.raises(ValueError, match="call must be one of"):
        distributed.plan("svd", [3], 3)
    with pytest.raises(ValueError, match="square"):
        distributed.plan("solve_spd", [3, 3], 5)


def test_without_a_process_group_it_says_so():
    with pytest.raises(RuntimeError, match="process group"):
        distributed.tsqr(torch.ones(3, 2))
