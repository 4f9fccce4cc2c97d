"""Paths: the best of few tensors, of many no worse than those of cotengra, the same every time."""

from __future__ import annotations

import sys
import warnings

import opt_einsum
import pytest
import torch

import trntensor
from each_case import each_case
from fresh_process import printed_after
from trnsci.core.testing import random_tensor
from trntensor import plan_contraction
from trntensor._planning.annealing import Network, linear_path, tree_of
from trntensor.plan import _greedy_path_search

from .networks import cost, find_path, hyper, lattice, layers, network, ring, tree

cotengra = pytest.importorskip("cotengra")


def regular(degree, largest, seed):
    """Return cotengra's own example: 40 tensors with ``degree`` random neighbours on average."""
    terms, output, _, sizes = cotengra.utils.rand_equation(
        40, degree, n_out=2, d_min=2, d_max=largest, seed=seed
    )
    return ["".join(term) for term in terms], "".join(output), sizes


def preset(name, inputs, output, sizes):
    """Return the tree of cotengra's preset ``"auto"`` or ``"auto-hq"``, searched in one process."""
    terms = [tuple(term) for term in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # auto-hq asks for kahypar
        if name == "auto":  # all of its trials, however long this machine takes for one
            search = cotengra.AutoOptimizer(parallel=False, cache=False, max_time=None)
        else:
            search = cotengra.AutoHQOptimizer(parallel=False, cache=False)
        return search.search(terms, tuple(output), sizes)


def against_cotengra(inputs, output, sizes, presets=("auto",)):
    """Return our flops, and those of the best preset."""
    ours = cost(inputs, output, find_path(inputs, output, sizes)[0], sizes)
    trees = [preset(name, inputs, output, sizes) for name in presets]
    return ours, min(cost(inputs, output, found.get_path(), sizes) for found in trees)


STRUCTURED = {
    "lattice": lattice(6, 6, output=(0, 35)),
    "wide lattice": lattice(4, 10, high=3, output=(0, 17)),
    "tree": tree(40, output=(3, 30)),
    "ring": ring(40, output=(0, 20)),
    "open ring": ring(40, high=8),
    "state and operators": layers(4, 10, high=4, output=(0,)),
    "hyper": hyper(40, output=(1, 2)),
    "unequal": lattice(5, 8, low=1, high=9, seed=2, output=(4, 11, 30)),
}


@each_case("count", range(3, 9))
@each_case("seed", range(3))
def test_no_path_of_few_operands_has_fewer_flops(count, seed):
    inputs, output, sizes = network(count, seed)
    path, _ = find_path(inputs, output, sizes)
    sets = [frozenset(term) for term in inputs]
    best = opt_einsum.paths.optimal(sets, frozenset(output), sizes)
    assert cost(inputs, output, path, sizes) <= cost(inputs, output, best, sizes)


@pytest.mark.parametrize("seed", range(2))
def test_annealing_finds_the_best_order_of_tensors_that_can_be_compared_all(seed):
    inputs, output, sizes = network(10, seed)
    sets = [frozenset(term) for term in inputs]
    best = opt_einsum.DynamicProgramming(minimize="flops", search_outer=True)
    want = cost(inputs, output, best(sets, frozenset(output), sizes), sizes)
    path, found = find_path(inputs, output, sizes)
    assert "annealed" in found
    assert cost(inputs, output, path, sizes) <= want


@pytest.mark.parametrize(("degree", "largest"), [(3, 4), (4, 3), (5, 2)])
@pytest.mark.slow
def test_paths_of_large_networks_are_no_worse_than_those_of_cotengra(degree, largest):
    ours, theirs = against_cotengra(*regular(degree, largest, 0))
    assert ours <= 1.1 * theirs


@pytest.mark.parametrize("name", ["lattice", "hyper"])
@pytest.mark.slow
def test_paths_of_structured_networks_are_no_worse_than_those_of_cotengra(name):
    ours, theirs = against_cotengra(*STRUCTURED[name])
    assert ours <= 1.1 * theirs


HELD_OUT = [
    *((3, 4, seed) for seed in (7, *range(20, 26))),
    *((4, 3, seed) for seed in (7, *range(20, 26))),
    *((5, 3, seed) for seed in (7, 20, 21)),  # for which auto-hq takes a quarter of a minute each
]


@pytest.mark.slow
@pytest.mark.parametrize(("degree", "largest", "seed"), HELD_OUT)
def test_paths_of_held_out_networks_beside_all_presets_of_cotengra(degree, largest, seed):
    ours, theirs = against_cotengra(*regular(degree, largest, seed), ("auto", "auto-hq"))
    assert ours <= 1.1 * theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURED)
def test_paths_of_structured_networks_beside_all_presets_of_cotengra(name):
    ours, theirs = against_cotengra(*STRUCTURED[name], ("auto", "auto-hq"))
    assert ours <= 1.1 * theirs


# -- slices ----------------------------------------------------------------------------------------


def in_slices(p, slices):
    """Return a program in slices of given sizes."""
    return type(p)(p.equation, p.shapes, p.sizes, p.itemsize, p.unaries, p.path, slices, "")


def beside_slices(inputs, output, sizes, share):
    """Return our flops and those of cotengra in as much memory as its slices take."""
    theirs = preset("auto", inputs, output, sizes)
    theirs = theirs.slice(target_size=max(theirs.max_size() * share, 2), seed=0)
    tensors = [torch.empty([sizes[x] for x in term], device="meta") for term in inputs]
    text = f"{','.join(inputs)}->{output}"
    path = [tuple(pair) for pair in theirs.get_path()]
    p = plan_contraction(text, *tensors, path=path).program
    cut = tuple((label, 1) for label in theirs.sliced_inds)
    whole = in_slices(p, cut)
    ours = plan_contraction(text, *tensors, memory_limit=whole.peak_bytes)
    assert ours.peak_bytes <= whole.peak_bytes
    flops = cost(inputs, output, path, {**sizes, **dict(cut)}) * whole.slice_count
    return ours.program.flops, flops


@pytest.mark.parametrize("share", [0.3, 0.02])
@pytest.mark.slow
def test_slices_cost_no_more_than_those_of_cotengra(share):
    ours, theirs = beside_slices(*lattice(5, 5, output=(0, 24)), share)
    assert ours <= 1.1 * theirs


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
@pytest.mark.parametrize(("degree", "largest"), [(3, 4), (4, 3), (5, 2)])
@pytest.mark.parametrize("seed", [20, 21])
def test_slices_of_held_out_networks_beside_those_of_cotengra(degree, largest, seed, share):
    ours, theirs = beside_slices(*regular(degree, largest, seed), share)
    assert ours <= 1.1 * theirs


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.03])
@pytest.mark.parametrize("name", STRUCTURED)
def test_slices_of_structured_networks_beside_those_of_cotengra(name, share):
    ours, theirs = beside_slices(*STRUCTURED[name], share)
    assert ours <= 1.1 * theirs


# Both have slices that are joined again after later cuts.
SMALL = {
    "small lattice": lattice(3, 4, output=(0,)),
    "small and unequal": lattice(3, 4, low=1, high=9, seed=1, output=(0,)),
}


@pytest.mark.parametrize(
    "name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in STRUCTURED)]
)
def test_no_slice_is_smaller_than_needed(name):
    inputs, output, sizes = (SMALL | STRUCTURED)[name]
    tensors = [torch.empty([sizes[x] for x in term], device="meta") for term in inputs]
    text = f"{','.join(inputs)}->{output}"
    limit = plan_contraction(text, *tensors).peak_bytes // 3
    p = plan_contraction(text, *tensors, memory_limit=limit).program
    assert p.slices
    for at, (label, part) in enumerate(p.slices):
        joined = (*p.slices[:at], (label, min(2 * part, sizes[label])), *p.slices[at + 1 :])
        other = in_slices(p, joined)
        assert other.peak_bytes > limit


def test_slices_are_counted_without_being_listed():
    inputs, output, sizes = ring(30, low=4, high=4)
    tensors = [torch.empty([sizes[x] for x in term], device="meta") for term in inputs]
    plan = plan_contraction(f"{','.join(inputs)}->{output}", *tensors)
    p = plan.program
    every = tuple((label, 1) for label in sizes)
    cut = in_slices(p, every)
    assert cut.slice_count == 4**30
    assert cut.flops == 4**30 * 2 * 29


# -- the same every time ---------------------------------------------------------------------------


def test_a_path_is_the_same_in_every_process():
    inputs, output, sizes = net = lattice(4, 4, output=(0, 15))
    program = f"""
import torch, trntensor
tensors = [torch.empty([{sizes!r}[x] for x in term], device="meta") for term in {inputs!r}]
plan = trntensor.plan_contraction({",".join(inputs)!r} + "->" + {output!r}, *tensors)
print(json.dumps([hash("label"), repr(plan.contraction_path)]))
"""
    seeded, path = printed_after("torch", program)
    assert seeded != hash("label")
    assert path == repr(find_path(*net)[0])


def test_a_path_needs_nobody_else(monkeypatch):
    for name in ("cotengra", "opt_einsum"):
        monkeypatch.setitem(sys.modules, name, None)
    inputs, output, sizes = network(13, 5)
    trntensor.clear_plan_cache()
    path, found = find_path(inputs, output, sizes)
    assert found.startswith("the best of")
    assert len(path) == 12


def test_a_network_in_two_parts():
    left, _, sizes = ring(9)
    right = [term.upper() for term in left]
    sizes = {**sizes, **{label.upper(): size for label, size in sizes.items()}}
    path, _ = find_path([*left, *right], "", sizes)
    alone = cost(left, "", find_path(left, "", sizes)[0], sizes)
    assert cost([*left, *right], "", path, sizes) <= 2 * alone + 1


@pytest.mark.parametrize("size", [1, 0])
def test_sizes_of_one_and_none_have_a_path(size):
    inputs, output, sizes = ring(12, low=size, high=size)
    path, _ = find_path(inputs, output, sizes)
    assert len(path) == 11


def test_a_long_train_is_contracted_from_one_end():
    inputs, output, sizes = layers(2, 150, low=2, high=2)
    path, _ = find_path(inputs, output, sizes)
    assert cost(inputs, output, path, sizes) < 300 * 2 * 2**4


def test_the_side_that_holds_less_memory_goes_first():
    # ab of 2,500 elements would wait while bl and the other ab are made, 7,000 together.
    inputs = ["ai", "ib", "bk", "kl", "la"]
    sizes = {"a": 50, "b": 50, "i": 2, "k": 40, "l": 40}
    network = Network(inputs, "", sizes)
    tree = tree_of(network, [(0, 1), (0, 1), (0, 2), (0, 1)])
    path = linear_path(network, tree)
    assert path == ((2, 3), (2, 3), (0, 1), (0, 1))
    assert cost(inputs, "", path, sizes) == tree.total(network.flops)


# -- objectives and paths of others ----------------------------------------------------------------


def largest(inputs, output, path, sizes):
    sets, most = [frozenset(term) for term in inputs], 0
    for i, j in path:
        b, a = sets.pop(j), sets.pop(i)
        sets.append((a | b) & frozenset(output).union(*sets))
        elements = 1
        for label in sets[-1]:
            elements *= sizes[label]
        most = max(most, elements)
    return most


def test_the_greedy_helper_contracts_the_cheapest_pair():
    sizes = {"i": 100, "j": 200, "k": 5, "l": 50, "m": 3}
    assert _greedy_path_search(["ij", "jk", "kl"], "il", sizes)[0] == (1, 2)
    assert _greedy_path_search(["ij", "jk", "kl", "lm"], "im", sizes)[0] == (2, 3)


def test_time_knows_tiles_and_size_knows_memory():
    inputs, output, sizes = network(7, 4)
    for minimize in ("time", "size"):
        path, _ = find_path(inputs, output, sizes, minimize)
        assert len(path) == 6
    # Thin first: the intermediate (a, c) of 400 elements, not (b, d) of 10,000.
    sizes = {"a": 20, "b": 100, "c": 20, "d": 100}
    path, _ = find_path(["ab", "bc", "cd"], "ad", sizes, "size")
    assert path[0] == (0, 1)


def test_objectives_hold_for_many_tensors_too():
    inputs, output, sizes = lattice(4, 4, output=(0, 15))
    by_flops, by_size = (
        largest(inputs, output, find_path(inputs, output, sizes, goal)[0], sizes)
        for goal in ("flops", "size")
    )
    assert by_size <= by_flops
    assert len(find_path(inputs, output, sizes, "time")[0]) == 15


def test_a_plan_takes_the_path_of_another_planner():
    inputs, output, sizes = network(12, 3)
    tensors = [
        random_tensor(*(sizes[x] for x in term), dtype=torch.float64, seed=at)
        for at, term in enumerate(inputs)
    ]
    text = f"{','.join(inputs)}->{output}"
    want = trntensor.einsum(text, *tensors)
    written = opt_einsum.contract_path(text, *tensors, optimize="greedy")[0]
    finders = (
        written,
        opt_einsum.RandomGreedy(max_repeats=4, parallel=False),
        cotengra.HyperOptimizer(max_repeats=2, parallel=False, methods=("greedy",)),
    )
    for finder in finders:
        plan = plan_contraction(text, *tensors, path=finder)
        assert "11 steps, by flops: given" in str(plan)
        got = plan.execute(*tensors)
        assert torch.allclose(got, want, rtol=1e-10, atol=1e-10 * float(want.abs().max()))
    plan = plan_contraction(text, *tensors, path=written)
    assert plan.contraction_path == tuple(tuple(sorted(pair)) for pair in written)
    assert plan_contraction(text, *tensors) is not plan


@each_case(
    "path", [[(0, 1)], [(0, 1), (0, 2)], [(0, 0), (0, 1)], [(0, 1, 2)], [(-1, 0), (0, 1)], []]
)
def test_a_path_that_is_none_is_refused(path):
    a = torch.ones(2, 2)
    with pytest.raises(ValueError, match=r"path must have 2 pairs of different positions") as info:
        plan_contraction("ij,jk,kl->il", a, a, a, path=path)
    assert "ij,jk,kl->il" in str(info.value)
