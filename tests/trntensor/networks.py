"""Networks of tensors that the tests of paths and plans share, and what an order of them costs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import opt_einsum
import torch

from trntensor import plan_contraction

SYMBOLS = [opt_einsum.get_symbol(at) for at in range(400)]


def network(count, seed, low=2, high=6):
    """Return a random connected network: inputs, output and sizes."""
    rng = np.random.default_rng(seed)
    letters = SYMBOLS[: 4 * count]
    terms = [[] for _ in range(count)]
    used = 0
    for at in range(1, count):  # a tree, and as many edges again
        for other in {int(rng.integers(at)), int(rng.integers(count))} - {at}:
            terms[at].append(letters[used])
            terms[other].append(letters[used])
            used += 1
    output = letters[used : used + 2]
    for label in output:
        terms[int(rng.integers(count))].append(label)
    sizes = {label: int(rng.integers(low, high + 1)) for label in letters[: used + 2]}
    return ["".join(term) for term in terms], "".join(output), sizes


def joined(edges, count, output=(), low=2, high=5, seed=0):
    """Return the network with an index for each edge, a tuple of the tensors that have it.

    Tensors of ``output`` have an index of the result each.
    """
    rng = np.random.default_rng(seed)
    terms = [""] * count
    for label, members in zip(SYMBOLS, [*edges, *((at,) for at in output)], strict=False):
        for at in members:
            terms[at] += label
    total = len(edges) + len(output)
    sizes = {label: int(rng.integers(low, high + 1)) for label in SYMBOLS[:total]}
    return terms, "".join(SYMBOLS[len(edges) : total]), sizes


def lattice(rows, columns, **options):
    """Return a lattice of tensors, each joined to its neighbours."""
    at = np.arange(rows * columns).reshape(rows, columns)
    across = zip(at[:, :-1].ravel(), at[:, 1:].ravel(), strict=True)
    down = zip(at[:-1].ravel(), at[1:].ravel(), strict=True)
    edges = [(int(a), int(b)) for a, b in (*across, *down)]
    return joined(edges, rows * columns, **options)


def ring(count, **options):
    """Return a ring of tensors."""
    return joined([(at, (at + 1) % count) for at in range(count)], count, **options)


def tree(count, seed=0, **options):
    """Return a random tree of tensors."""
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(at)), at) for at in range(1, count)]
    return joined(edges, count, seed=seed, **options)


def layers(depth, length, **options):
    """Return a matrix product state, operators on it, and a state again: ``depth`` layers."""
    at = np.arange(depth * length).reshape(depth, length)
    bonds = [(int(a), int(b)) for row in at for a, b in pairwise(row)]
    legs = [(int(a), int(b)) for column in at.T for a, b in pairwise(column)]
    return joined([*bonds, *legs], depth * length, **options)


def hyper(count, seed=0, **options):
    """Return a network of indices that three or four tensors share, beside a ring."""
    rng = np.random.default_rng(seed)
    shared = [
        tuple(int(x) for x in rng.choice(count, int(rng.integers(3, 5)), replace=False))
        for _ in range(count // 3)
    ]
    edges = [(at, (at + 1) % count) for at in range(count)]
    return joined([*edges, *shared], count, seed=seed, **options)


def find_path(inputs, output, sizes, minimize="flops"):
    """Return the path of a plan, and the method of its search."""
    tensors = [torch.empty([sizes[x] for x in term], device="meta") for term in inputs]
    plan = plan_contraction(f"{','.join(inputs)}->{output}", *tensors, minimize=minimize)
    return plan.contraction_path, plan.program.searched


def cost(inputs, output, path, sizes):
    """Return the flops of a path, as opt_einsum counts them."""
    sets = [frozenset(term) for term in inputs]
    total = 0
    for pair in path:
        i, j = sorted(pair)
        b, a = sets.pop(j), sets.pop(i)
        kept = (a | b) & frozenset(output).union(*sets)
        elements = 1
        for label in a | b:
            elements *= sizes[label]
        total += elements * (2 if kept != a | b else 1)
        sets.append(kept)
    assert len(sets) == 1
    return total
