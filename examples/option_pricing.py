"""The price of an Asian option by random and quasi-random paths, and the convergence of both.

python examples/option_pricing.py
python examples/option_pricing.py --plot option.png       errors over the number of paths

A call on the geometric mean of a stock at equally spaced days has a closed-form price,
so errors are known. Each path consists of independent normal numbers, one a day: from
``trnrand.normal``, or from Sobol points through the inverse normal distribution.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

import trnrand

DAYS, YEARS = 16, 1.0
SPOT, STRIKE, RATE, VOLATILITY = 100.0, 100.0, 0.05, 0.2
COUNTS = tuple(2**k for k in range(8, 17))


def payoff(numbers: Tensor) -> Tensor:
    """Return the discounted payoffs of paths made of normal numbers (paths, days)."""
    step = YEARS / DAYS
    drift = (RATE - VOLATILITY**2 / 2) * step
    logs = math.log(SPOT) + torch.cumsum(drift + VOLATILITY * math.sqrt(step) * numbers, 1)
    mean = torch.exp(logs.mean(1))
    return math.exp(-RATE * YEARS) * (mean - STRIKE).clamp_min(0)


def price() -> float:
    """Return the price in closed form: the geometric mean is lognormal."""
    step = YEARS / DAYS
    mean = math.log(SPOT) + (RATE - VOLATILITY**2 / 2) * step * (DAYS + 1) / 2
    variance = VOLATILITY**2 * step * (DAYS + 1) * (2 * DAYS + 1) / (6 * DAYS)
    deviation = math.sqrt(variance)
    d1 = (mean - math.log(STRIKE) + variance) / deviation
    forward = math.exp(mean + variance / 2)
    value = forward * _normal(d1) - STRIKE * _normal(d1 - deviation)
    return math.exp(-RATE * YEARS) * value


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def errors(seed: int = 0, repeats: int = 8) -> list[tuple[int, float, float]]:
    """Return the root mean square errors of both methods for each number of paths."""
    exact = price()
    found = []
    for count in COUNTS:
        squares = [0.0, 0.0]
        for repeat in range(repeats):
            generator = trnrand.Generator(1000 * seed + repeat)
            drawn = trnrand.normal(count, DAYS, generator=generator, dtype=torch.float64)
            points = trnrand.sobol(count, DAYS, seed=repeat, dtype=torch.float64)
            spread = torch.special.ndtri(points.clamp(2.0**-40, 1 - 2.0**-40))
            for place, numbers in enumerate((drawn, spread)):
                squares[place] += (float(payoff(numbers).mean()) - exact) ** 2
        found.append((count, *(math.sqrt(total / repeats) for total in squares)))
    return found


def plot(found: list[tuple[int, float, float]], path: str) -> None:
    """Draw the errors over the number of paths, with lines of the expected slopes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="tight")
    axes = figure.add_subplot()
    counts = [row[0] for row in found]
    axes.loglog(counts, [row[1] for row in found], "o-", label="random")
    axes.loglog(counts, [row[2] for row in found], "o-", label="scrambled Sobol")
    axes.loglog(
        counts, [found[0][1] * (counts[0] / n) ** 0.5 for n in counts], "k:", label="slope 1/2"
    )
    axes.loglog(counts, [found[0][2] * counts[0] / n for n in counts], "k--", label="slope 1")
    axes.set_xlabel("paths")
    axes.set_ylabel("root mean square error")
    axes.legend()
    figure.savefig(path)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="an Asian option by random and Sobol paths")
    parser.add_argument("--plot", metavar="FILE", help="draw the errors")
    options = parser.parse_args(arguments)
    found = errors()
    print(f"price in closed form {price():.6f}")
    print("paths    random    Sobol")
    for count, random, spread in found:
        print(f"{count:<7}  {random:.5f}   {spread:.5f}")
    gain = found[-1][1] / found[-1][2]
    print(f"with {COUNTS[-1]} paths the error of Sobol points is {gain:.0f} times smaller")
    print("passed" if gain > 5 else "FAILED")
    if options.plot:
        try:
            plot(found, options.plot)
        except (OSError, ValueError) as error:  # no such folder, or unknown image format
            sys.exit(f"--plot: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
