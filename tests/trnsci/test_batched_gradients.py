"""Gradients of several cotangents at once (``is_grads_batched``): right, or refused by name."""

from __future__ import annotations

import warnings

import pytest
import torch

from trnsci.core.errors import DerivativeError, TrnsciError
from trnsci.core.examples import examples_of, function_of
from trnsci.validation import LIBRARIES


def tracked(value):
    """Return a tensor, or a sparse matrix, whose values have gradients."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().clone().requires_grad_()
    if hasattr(value, "with_values") and value.values.is_floating_point():
        return value.with_values(tracked(value.values))
    return value


def first_result(result):
    while isinstance(result, tuple | list):
        result = result[0]
    return result


@pytest.mark.parametrize("library", LIBRARIES)
def test_batched_cotangents_give_each_ones_gradient_or_an_error_of_ours(library):
    wrong = []
    for name in examples_of(library):
        function = function_of(library, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                given = examples_of(library)[name].of(torch.float64)
                args = [tracked(x) for x in given.args]
                result = first_result(function(*args, **given.options))
            except TrnsciError:
                continue
            found = [getattr(x, "values", x) if hasattr(x, "with_values") else x for x in args]
            leaves = [x for x in found if isinstance(x, torch.Tensor) and x.requires_grad]
            if not (isinstance(result, torch.Tensor) and result.requires_grad and leaves):
                continue
            sides = torch.randn(3, *result.shape, dtype=result.dtype)
            options = {"retain_graph": True, "allow_unused": True}
            try:
                got = torch.autograd.grad(result, leaves, sides, is_grads_batched=True, **options)
            except DerivativeError as error:
                if not str(error).partition(":")[0]:
                    wrong.append(f"{name}: {error}")
                continue
            except Exception as error:
                wrong.append(f"{name}: {type(error).__name__}: {str(error)[:90]}")
                continue
            for at in range(3):
                want = torch.autograd.grad(result, leaves, sides[at], **options)
                for g, w in zip(got, want, strict=True):
                    if w is not None and not torch.allclose(g[at], w, rtol=1e-9, atol=1e-9):
                        wrong.append(name)
    assert not wrong, "\n".join(wrong)
