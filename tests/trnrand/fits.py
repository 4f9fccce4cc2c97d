"""Whether samples follow a law of scipy's, by a p-value.

Seeds are fixed, so a test passes always or never. One fails where its p-value is below 1e-4: a
correct sampler would have met that with one seed in ten thousand.
"""

import numpy as np
from scipy import stats

SMALLEST_P = 1e-4


def assert_fits(samples, law):
    assert stats.kstest(samples.double().numpy(), law.cdf).pvalue > SMALLEST_P


def assert_counts_fit(samples, law):
    """Chi-squared over single counts, those expected less than ten times put together."""
    values = samples.numpy()
    first, last = int(law.ppf(1e-6)), int(law.ppf(1 - 1e-6))
    # At most 200 cells, so that large means are cut into ranges.
    step = max(1, (last - first) // 200)
    edges = np.arange(first - 1, last + step, step)
    expected = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) * len(values)
    observed = np.bincount(np.searchsorted(edges, values), minlength=len(expected))
    rare = expected < 10
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    kept = expected > 0
    assert observed[~kept].sum() == 0
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > SMALLEST_P
