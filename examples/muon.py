"""Muon: optimizer steps with all singular values near one.

    python examples/muon.py

The momentum of a weight matrix is dominated by few directions; an orthogonalized update has the
same size in all of them. Here a network of two layers learns a random network of the same kind,
with orthogonalized steps and with plain ones of the same size.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

import trnsolver


def muon_step(
    weights: Sequence[Tensor],
    momenta: list[Tensor],
    learning_rate: float,
    momentum: float = 0.95,
    dtype: torch.dtype | None = torch.bfloat16,
) -> None:
    """Move weight matrices along their orthogonalized momenta, which are updated in place.

    Args:
        weights: Matrices with gradients.
        momenta: One for each, of its shape.
        learning_rate: Length of a step, in units of the root of the longer side over the shorter.
        momentum: Decay factor of the momentum.
        dtype: Dtype of the products in the orthogonalization.
    """
    with torch.no_grad():
        for weight, average in zip(weights, momenta, strict=True):
            assert weight.grad is not None
            average.mul_(momentum).add_(weight.grad)
            update = weight.grad.add(average, alpha=momentum)
            rows, columns = weight.shape
            scale = max(1.0, rows / columns) ** 0.5
            step = trnsolver.orthogonalize(update, dtype=dtype)
            weight.add_(step, alpha=-learning_rate * scale)


def plain_step(weights: Sequence[Tensor], momenta: list[Tensor], learning_rate: float) -> None:
    """Move weight matrices along their momenta by steps of the norm that Muon's have."""
    with torch.no_grad():
        for weight, average in zip(weights, momenta, strict=True):
            assert weight.grad is not None
            average.mul_(0.95).add_(weight.grad)
            size = min(weight.shape) ** 0.5
            weight.add_(average, alpha=-learning_rate * size / float(average.norm()))


def losses(steps: int, orthogonal: bool, learning_rate: float = 0.02, seed: int = 0) -> list[float]:
    """Return the loss before every step of training a network to match another."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) / shape[-1] ** 0.5

    # Inputs with a condition number of a hundred, which slows down plain steps.
    x = draw(256, 32) * torch.logspace(1, -1, 32)
    teacher = draw(64, 32), draw(16, 64)
    y = torch.tanh(x @ teacher[0].mT) @ teacher[1].mT
    weights = [draw(64, 32).requires_grad_(), draw(16, 64).requires_grad_()]
    momenta = [torch.zeros_like(weight) for weight in weights]
    found = []
    for _ in range(steps):
        loss = ((torch.tanh(x @ weights[0].mT) @ weights[1].mT - y) ** 2).mean()
        found.append(float(loss.detach()))
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        (muon_step if orthogonal else plain_step)(weights, momenta, learning_rate)
    return found


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="orthogonalized gradient steps")
    parser.add_argument("--demo", action="store_true", help="train both ways (default)")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args(arguments)
    for name, orthogonal in (("Muon", True), ("plain", False)):
        found = losses(options.steps, orthogonal)
        print(f"{name:>6}: loss {found[0]:.4f} -> {found[-1]:.5f} in {options.steps} steps")


if __name__ == "__main__":
    main(sys.argv[1:])
