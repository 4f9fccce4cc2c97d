"""Names of published releases, for code written for them; ``trntensor.plan`` has them too.

They are neither in ``trntensor.__all__`` nor on the reference page. ``INSTEAD`` has their
replacements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from torch import Tensor

from trntensor._planning.subscripts import parse, sizes_of

__all__ = ["_greedy_path_search", "_parse_subscripts", "_validate_subscripts"]

INSTEAD = {
    "_greedy_path_search": "plan_contraction(...).contraction_path, which needs fewer flops",
    "_parse_subscripts": "plan_contraction(...), whose fields have the indices",
    "_validate_subscripts": "plan_contraction(...), which raises the same errors",
}
"""The replacement of each name."""


def _parse_subscripts(subscripts: str) -> tuple[list[str], str]:
    """Return the terms of subscripts without an ellipsis, and the output."""
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    equation = parse("einsum", subscripts, tuple(len(term) for term in terms))
    return list(equation.inputs), equation.output


def _validate_subscripts(subscripts: str, operands: Sequence[Tensor]) -> None:
    """Raise if subscripts and operands do not match."""
    equation = parse("einsum", subscripts, tuple(x.ndim for x in operands))
    sizes_of("einsum", equation, [x.shape for x in operands])


def _greedy_path_search(
    inputs: Sequence[str], output: str, size_map: Mapping[str, int]
) -> list[tuple[int, int]]:
    """Return the path that contracts the pair with the fewest multiply-adds first."""
    labels = [set(term) for term in inputs]
    path = []
    while len(labels) > 1:
        pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels))]
        i, j = min(pairs, key=lambda p: prod(size_map[x] for x in labels[p[0]] | labels[p[1]]))
        path.append((i, j))
        second, first = labels.pop(j), labels.pop(i)
        labels.append((first | second) & set(output).union(*labels))
    return path
