"""Fewer cases than all combinations, for axes of which no three act together."""

from itertools import combinations, product


def pairwise(*axes):
    """Return combinations of the axes' values in which any two values of two axes meet.

    Greedy and the same in every run: of all combinations the next one taken is the first that has
    the most pairs that did not occur yet.
    """
    axes = [list(axis) for axis in axes]
    places = [range(len(axis)) for axis in axes]
    every = {case: set(_pairs(case)) for case in product(*places)}
    missing, taken = set().union(*every.values()), []
    while missing:
        best = max(every, key=lambda case: len(every[case] & missing))
        missing -= every.pop(best)
        taken.append(tuple(axis[i] for axis, i in zip(axes, best, strict=True)))
    return taken


def in_turn(values, *axes):
    """Return each value with one combination of the axes' values, which take turns."""
    combined = list(product(*axes))
    return [(value, *combined[i % len(combined)]) for i, value in enumerate(values)]


def _pairs(case):
    return combinations(enumerate(case), 2)
