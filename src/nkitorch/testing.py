"""``check_op``: an operator of kernels against a reference, in the modes of torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

import nkisim
from nkisim.objects import rebuilt
from nkisim.options import variable_set
from nkitorch.launch import CHECK_VARIABLE
from nkitorch.operators import OPERATORS


def check_op(op: Any, reference: Callable[..., Any], *cases: Sequence[Any]) -> None:
    """Raise an error unless an operator is right on the device "neuron", for each case.

    The checks are, in this order:

    - eager call: no kernel has a finding, none writes an argument that ``mutates_args`` does not
      have, and there is a backward where an argument requires a gradient;
    - results: results and written arguments have the dtypes and shapes of the reference's, and are
      right as ``nkisim.compare`` judges;
    - gradients: those of the arguments that require one equal the reference's in the same way;
    - compiled: a compiled graph gives the same bits as the eager call;
    - opcheck: ``torch.library.opcheck``, on CPU tensors, for an operator of ``nki_op``.

    Args:
        op: A function of ``nki_op``, a kernel, or a function that calls some.
        reference: Function of torch with the same parameters, which changes the same arguments.
        *cases: The positional arguments of one call each, with tensors on any device.

    Raises:
        ValueError: There is no case.
        AssertionError: The operator is not right; the text names the case and the check.
    """
    if not cases:
        raise ValueError("check_op: got no case, accepted: the arguments of one call or more")
    for number, case in enumerate(cases):
        start = f"check_op, case {number}"
        given = _copied(case, "cpu")
        with _failing(f"{start}, eager call"), _findings_raise():
            eager = _Outcome(op, case)
        with _failing(f"{start}, results"):
            _compare(eager.results, _results_of(reference), given)
        with _failing(f"{start}, gradients"):
            if eager.leaves:
                function = _gradients_of(reference, eager.leaves, eager.smooth)
                _compare(eager.gradients, function, [given, eager.weights])
        with _failing(f"{start}, compiled"):
            compiled = _Outcome(torch.compile(op, backend="neuron", fullgraph=True), case)
            for found, expected in (
                (compiled.results, eager.results),
                (compiled.gradients, eager.gradients),
            ):
                assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        with _failing(f"{start}, opcheck"):
            if any(op is made for made, _ in OPERATORS):
                with warnings.catch_warnings():  # torch 2.15 reads .grad of what is no leaf there
                    warnings.filterwarnings("ignore", "The .grad attribute of a Tensor")
                    torch.library.opcheck(op, tuple(given))


class _Outcome:
    """A call on the device, and its gradients for random weights of its results.

    Attributes:
        results: The results, then the tensors among the arguments as the call left them, on the
            CPU.
        leaves: Numbers of the tensors among the arguments that require a gradient.
        smooth: Numbers of the results that have one.
        weights: Weights of these results, in their dtypes.
        gradients: The gradients of the leaves.
    """

    def __init__(self, op: Callable[..., Any], case: Sequence[Any]) -> None:
        args = _copied(case, "neuron")
        inputs = _tensors(args)
        results = _tensors(op(*args))
        self.results = [t.detach().cpu() for t in (*results, *inputs)]
        self.leaves = [n for n, t in enumerate(inputs) if t.requires_grad]
        self.smooth = [n for n, t in enumerate(results) if t.requires_grad]
        draw = torch.Generator().manual_seed(0)
        self.weights = [
            torch.randn(results[n].shape, generator=draw).to(results[n].dtype) for n in self.smooth
        ]
        self.gradients = _gradients(
            [results[n] for n in self.smooth],
            [inputs[n] for n in self.leaves],
            [weight.to("neuron") for weight in self.weights],
        )


def _gradients(results: list[Tensor], leaves: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    if not leaves:
        return []
    if not results:
        raise AssertionError("an argument requires a gradient, and no result has one")
    found = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    pairs = zip(found, leaves, strict=True)
    return [torch.zeros_like(t).cpu() if g is None else g.cpu() for g, t in pairs]


# ``nkisim.compare`` gives torch tensors to functions of a module that has torch and not NumPy.


def _results_of(reference: Callable[..., Any]) -> Callable[..., Any]:
    def results(*args: Any) -> list[Tensor]:
        found = _tensors(reference(*args))
        return [*found, *_tensors(args)]

    return results


def _gradients_of(
    reference: Callable[..., Any], leaves: list[int], smooth: list[int]
) -> Callable[..., Any]:
    def gradients(args: list[Any], weights: list[Tensor]) -> list[Tensor]:
        inputs = _tensors(args)
        wanted = [inputs[n].requires_grad_() for n in leaves]
        results = _tensors(reference(*args))
        outputs = [results[n] for n in smooth]
        pairs = zip(weights, outputs, strict=True)
        return _gradients(outputs, wanted, [weight.to(t.dtype) for weight, t in pairs])

    return gradients


def _compare(outputs: list[Tensor], reference: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise an error unless outputs have the reference's dtypes and shapes, and are right."""
    expected = reference(*_copied(args, "cpu"))
    forms = [[f"{t.dtype} {list(t.shape)}" for t in tensors] for tensors in (outputs, expected)]
    if forms[0] != forms[1]:
        raise AssertionError(f"got {', '.join(forms[0])}, expected {', '.join(forms[1])}")
    floats = [t.dtype for t in expected if t.is_floating_point()]
    coarsest = max(floats, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)
    name = str(coarsest).removeprefix("torch.")
    found = nkisim.compare(outputs, reference, out_dtype=name)(*args)
    if not found.passed:
        raise AssertionError(str(found))


@contextmanager
def _failing(start: str) -> Iterator[None]:
    """Context manager that makes every error an ``AssertionError`` that begins with ``start``."""
    try:
        yield
    except (Exception, nkisim.NkiFindingWarning) as error:
        raise AssertionError(f"{start}: {error}") from error


@contextmanager
def _findings_raise() -> Iterator[None]:
    with warnings.catch_warnings(), variable_set(CHECK_VARIABLE, "always"):
        warnings.simplefilter("error", nkisim.NkiFindingWarning)
        yield


def _copied(case: Sequence[Any], device: str) -> list[Any]:
    """Return a copy of arguments on a device, with new leaves."""

    def copied(_: str, part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        copy = part.detach().clone(memory_format=torch.preserve_format).to(device)
        return copy.requires_grad_(part.requires_grad)

    found: list[Any] = rebuilt(list(case), copied)
    return found


def _tensors(value: Any) -> list[Tensor]:
    found: list[Tensor] = []
    rebuilt(value, lambda _, part: found.append(part) if isinstance(part, Tensor) else part)
    return found
