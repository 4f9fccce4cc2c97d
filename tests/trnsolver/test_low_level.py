"""The functions of ``trnsolver.nki``: results on both paths, and what they refuse."""

import pytest
import torch

import trnsolver
import trnsolver.nki as low_level
from each_case import each_case
from required import requiring
from trnsci.core.counters import counts
from trnsci.core.errors import ShapeError
from trnsci.core.testing import random_tensor

CALLS = {
    "rotate_pairs": (
        low_level.nki_rotate_pairs,
        (random_tensor(3, 4), random_tensor(3, 4, seed=1), torch.ones(3, 1), torch.ones(3, 1) / 2),
        lambda x, y, c, s: (c * x - s * y, s * x + c * y),
    ),
    "matvec": (
        low_level.nki_matvec,
        (random_tensor(3, 4), random_tensor(4, 1, seed=1)),
        lambda a, v: a @ v,
    ),
    "rank2_update": (
        low_level.nki_rank2_update,
        (random_tensor(4, 4), random_tensor(4, 1, seed=1), random_tensor(4, 1, seed=2)),
        lambda a, u, v: a - u @ v.T - v @ u.T,
    ),
}


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("path", ["pytorch", "simulator"])
@pytest.mark.parametrize("name", CALLS)
def test_results(name, path, lower):
    function, arguments, formula = CALLS[name]
    before = counts()
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=lower)
    with requiring("trnsolver"), trnsolver.backend(path), autocast:
        got = function(*arguments)
    launches = (counts() - before).launches[f"{name}_kernel"]
    assert launches == (path == "simulator")
    torch.testing.assert_close(got, formula(*arguments), rtol=0, atol=1e-5)


@each_case(
    ("name", "place", "wrong"),
    [
        ("rotate_pairs", 1, torch.ones(3, 5)),
        ("rotate_pairs", 2, torch.ones(3)),
        ("matvec", 0, torch.ones(4)),
        ("matvec", 1, torch.ones(3, 1)),
        ("rank2_update", 0, torch.ones(4, 3)),
        ("rank2_update", 2, torch.ones(1, 4)),
    ],
)
def test_shapes_that_do_not_fit(name, place, wrong):
    function, arguments, _ = CALLS[name]
    with pytest.raises(ShapeError, match=f"nki_{name}: "):
        function(*arguments[:place], wrong, *arguments[place + 1 :])
