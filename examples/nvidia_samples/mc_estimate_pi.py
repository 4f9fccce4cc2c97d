"""Pi by counting points inside of a circle, random and quasi-random: cuRAND's sample.

python examples/nvidia_samples/mc_estimate_pi.py
python examples/nvidia_samples/mc_estimate_pi.py --plot pi.png      convergence of both
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

from torch import Tensor

import trnrand

COUNTS = (1_000, 10_000, 100_000, 1_000_000)


def share_inside(points: Tensor) -> float:
    """Return four times the share of points (n, 2) inside of a quarter of the unit circle."""
    return 4.0 * float((points.square().sum(1) < 1).double().mean())


def estimates(seed: int = 0) -> list[tuple[int, float, float]]:
    """Return the estimates of random and of Sobol points for each number of points."""
    found = []
    for count in COUNTS:
        drawn = trnrand.uniform(count, 2, generator=trnrand.Generator(seed))
        spread = trnrand.sobol(count, 2, seed=seed)
        found.append((count, share_inside(drawn), share_inside(spread)))
    return found


def plot(found: list[tuple[int, float, float]], path: str) -> None:
    """Draw the errors of both over the number of points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="tight")
    axes = figure.add_subplot()
    for place, name in ((1, "random"), (2, "Sobol")):
        errors = [abs(row[place] - math.pi) for row in found]
        axes.loglog([row[0] for row in found], errors, "o-", label=name)
    axes.set_xlabel("points")
    axes.set_ylabel("|estimate - pi|")
    axes.legend()
    figure.savefig(path)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="pi by counting points")
    parser.add_argument("--demo", action="store_true", help="10^3 to 10^6 points (default)")
    parser.add_argument("--plot", metavar="FILE", help="draw the errors")
    options = parser.parse_args(arguments)
    found = estimates()
    print("points    random    Sobol")
    for count, random, spread in found:
        print(f"{count:<8}  {random:.5f}   {spread:.5f}")
    count, random, spread = found[-1]
    # Four standard deviations of a share of pi / 4.
    limit = 4 * 4 * math.sqrt(math.pi / 4 * (1 - math.pi / 4) / count)
    near = abs(random - math.pi) < limit and abs(spread - math.pi) < limit
    print("passed" if near else "FAILED")
    if options.plot:
        try:
            plot(found, options.plot)
        except (OSError, ValueError) as error:  # no such folder, or unknown image format
            sys.exit(f"--plot: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
