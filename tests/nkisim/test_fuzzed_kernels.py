"""Random kernels: mistakes that are put in are found, changes that are none leave them clean.

A seed names a kernel and what happens to it. Those of ``tests/data/fuzzed-kernels.txt`` run always:
add one there when it has failed.
"""

import random
from pathlib import Path

import numpy as np
import pytest

import nkisim
from scripts import imported

from .fuzzed_kernels import HARMFUL, HARMLESS, random_kernel

RECORDED = [
    int(line.partition("#")[0])
    for line in (Path(__file__).parents[1] / "data" / "fuzzed-kernels.txt").read_text().splitlines()
    if line.partition("#")[0].strip()
]
MORE = range(1000, 1060)

each_seed = pytest.mark.parametrize(
    "seed", [*RECORDED, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MORE)]
)
TARGETS = ("gen2", "gen3", "gen4")


def checked(kernel, folder, target):
    """The report of a check of a kernel's text."""
    file = folder / f"fuzzed_{len(list(folder.iterdir()))}.py"
    file.write_text(kernel.text)
    with imported(file) as module:
        return nkisim.check(module.fuzzed, target=target, source=True)(*kernel.inputs)


def stays_right(kernel, folder, target):
    report = checked(kernel, folder, target)
    assert not report.findings, f"{report}\n{kernel.text}"
    np.testing.assert_allclose(report.outputs, kernel.wanted, rtol=2e-5, atol=2e-6)


@each_seed
def test_changes_that_are_no_mistakes_stay_clean(seed, tmp_path):
    rng = random.Random(seed)
    kernel = random_kernel(rng)
    target = TARGETS[seed % 3]
    stays_right(kernel, tmp_path, target)
    for change in rng.sample(HARMLESS, len(HARMLESS)):
        stays_right(change(kernel, rng), tmp_path, target)


@each_seed
def test_mistakes_are_found(seed, tmp_path):
    rng = random.Random(seed)
    kernel = random_kernel(rng)
    target = TARGETS[seed % 3]
    for mistake in HARMFUL:
        broken, rules = mistake(kernel, rng)
        report = checked(broken, tmp_path, target)
        said = f"{mistake.__name__}, seed {seed}\n{report}\n{broken.text}"
        assert report.codes & rules, said
        assert any(f.fix for f in report if f.rule.id in rules), said


@each_seed
def test_mistakes_are_found_beside_changes_that_are_none(seed, tmp_path):
    rng = random.Random(seed + 1)
    kernel = random_kernel(rng)
    for mistake in rng.sample(HARMFUL, 4):
        change = rng.choice([c for c in HARMLESS if c.__name__ in ("arithmetic", "named_tile")])
        broken, rules = mistake(kernel, rng)
        broken = change(broken, rng) if broken.places("make") else broken
        report = checked(broken, tmp_path, TARGETS[seed % 3])
        assert report.codes & rules, f"{mistake.__name__}, seed {seed}\n{report}\n{broken.text}"
