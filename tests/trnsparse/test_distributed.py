"""Matrices over several ranks of gloo: products, solutions, and what they send."""

import os
from pathlib import Path

import pytest
import torch

from fresh_process import found_by_ranks
from trnsparse.distributed import balanced_rows

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forks of one process")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return found_by_ranks(Path(__file__).with_name("ranks.py"), tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_products_are_those_of_the_whole_matrix_to_the_stated_bound(found, ranks):
    for rank in found[ranks]:
        assert rank["within bound"]
        assert rank["diagonal"]
        assert rank["gradient error"] < 1e-12


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_solutions_meet_the_tolerance_on_any_number_of_ranks(found, ranks):
    for rank in found[ranks]:
        assert rank["error"] < 1e-8
        assert rank["scaled error"] < 1e-8
        assert max(rank["residuals"]) <= 1e-10
        assert rank["iterations"] == found[ranks][0]["iterations"]
    for count, alone in zip(found[ranks][0]["iterations"], found[1][0]["iterations"], strict=True):
        assert abs(count - alone) <= 1


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_product_sends_the_bytes_that_its_plan_states(found, ranks):
    for rank in found[ranks]:
        assert rank["planned"] == (rank["sent"] if ranks > 1 else [0, 0])
        assert rank["total"] == sum(other["planned"][0] for other in found[ranks])
    assert sum(8 * rank["halo"] for rank in found[ranks]) == found[ranks][0]["total"]
    # Far less than every vector to every rank.
    assert found[ranks][0]["total"] < 8 * 90 * (ranks - 1) or ranks == 1


def test_shares_are_balanced_and_plans_readable(found):
    entries = [rank["entries"] for rank in found[4]]
    assert max(entries) < 1.5 * min(entries)
    assert found[2][1]["text"].startswith("rank 1 of 2: ")
    assert all(found[2][0]["refused"])


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_every_row_has_a_share(parts):
    lengths = torch.tensor([0, 0, 9, 1, 0, 2])
    starts = balanced_rows(torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]), parts)
    assert len(starts) == parts + 1
    assert starts == sorted(starts)
    assert (starts[0], starts[-1]) == (0, 6)
