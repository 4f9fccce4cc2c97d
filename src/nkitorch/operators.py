"""``nki_op`` and ``wrap_nki``: the names under which torch programs make kernels operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import torch

from nkisim.api import Kernel, as_kernel
from nkitorch.bodies import body_of

OPERATORS: list[tuple[Any, Callable[..., Any]]] = []
"""The operators that ``nki_op`` made, with their bodies."""

WHEN_MADE: list[Callable[[Any, Any], None]] = []
"""Called with every operator that ``nki_op`` makes, and its body."""


def nki_op(
    name: str, fn: Callable[..., Any] | None = None, mutates_args: Iterable[str] = ()
) -> Any:
    """Return a function that calls kernels as an operator of torch; also a decorator.

    The function serves eager calls and fake tensors alike. In a compiled graph its kernels
    appear, not the operator.

    Args:
        name: Namespace and name, ``"mylib::scale"``.
        fn: The function, with annotations of all parameters and of the result.
        mutates_args: Names of the parameters that its kernels write. What they write beyond that
            is a warning.

    Returns:
        A ``torch.library.CustomOpDef``, which has ``register_autograd`` and ``register_vmap``.

    Raises:
        ValueError: The name has no namespace, or an annotation is missing or not supported.
    """

    def made(function: Callable[..., Any]) -> Any:
        body = body_of(name, function, frozenset(mutates_args))
        schema = torch.library.infer_schema(function, mutates_args=tuple(mutates_args))
        operator = torch.library.custom_op(
            name, body, mutates_args=tuple(mutates_args), schema=schema
        )
        operator.register_fake(body)
        OPERATORS.append((operator, body))
        for react in WHEN_MADE:
            react(operator, body)
        return operator

    return made if fn is None else made(fn)


class WrappedKernel(Kernel):
    """A kernel that also takes the forms of a grid that AWS's wrapper takes: ``wrapped[(2,)](x)``.

    It is a kernel, not an object that has one, because torch.compile of 2.11 reads no attribute of
    an object that is called.
    """

    def __getitem__(self, grid: Any) -> Kernel:
        cores = _cores(grid)
        return super().__getitem__(cores) if cores else self


def wrap_nki(kernel: Any) -> WrappedKernel:
    """Return a kernel as a function of tensors that takes a grid; also a decorator.

    Args:
        kernel: A kernel of ``nki.jit`` or a plain function.
    """
    made = as_kernel(kernel)
    return WrappedKernel(**{field.name: getattr(made, field.name) for field in fields(made)})


def _cores(grid: Any) -> int:
    """Return the number of cores of a grid such as ``[(2,)]``, ``[[2]]``, ``[2]``, ``(2,)``, 2.

    Raises:
        ValueError: The grid has more than one dimension, or is not of 1 or 2 cores.
    """
    found = grid
    while isinstance(found, (list, tuple)) and len(found) == 1:
        found = found[0]
    if isinstance(found, (list, tuple)) and not found:
        return 0
    if isinstance(found, int) and not isinstance(found, bool) and found in (1, 2):
        return found
    raise ValueError(
        f"grid: got {grid!r}, accepted: the number of cores, 1 or 2, as [2], (2,), [(2,)] or "
        "[[2]]; grids of more dimensions are loops in the kernel since NKI 0.3.0"
    )
