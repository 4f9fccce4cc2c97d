"""Every piece of advice for kernels with slow habits is applied to their file and judged.

The diffs are applied by this module, the file is imported, and the kernel is run, checked and
profiled as a user would: nothing of the search for advice is used.
"""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

import nkisim
from scripts import imported

from . import slow_kernels
from .slow_kernels import SLOW

FILE = Path(slow_kernels.__file__)
FAST = {
    **{"many_small_transfers": "", "tile_that_carries_data": "", "weights_that_grow": ""},
    **{"product_from_hbm": "P002 P009 P009", "two_passes": "P009 P002", "closed_over": "P009"},
    **{"softmax_in_bfloat16": "P010 P002", "polynomial": "P011 P011 P011", "one_of_three": "P002"},
    **{"two_branches": "P002", "half_of_a_tile": "P002", "weights_by_rows": "P009"},
    **{
        "stores_only": "P012",
        "functions_of_two_tables": "P013",
        "late_load_of_what_is_stored": "P014",
    },
    **{"functions_without_a_loop": "P013", "stages_in_program_order": "P002 P015"},
    **{"products_emptied_by_vector": "P007"},
}
"""Kernels of the fast run, each on one generation, and the rules whose changes gain there."""

MOST_ROUNDINGS = 8
"""Roundings to the kernel's dtype by which a result may change where the advice says so."""


def patched(text, diff):
    """The text after a unified diff."""
    lines, new, position = text.splitlines(keepends=True), [], 0
    rows = [row for row in diff.splitlines(keepends=True) if row[:4] not in ("--- ", "+++ ")]
    for row in rows:
        found = re.match(r"@@ -(\d+)", row)
        if found:
            start = int(found[1]) - 1
            new += lines[position:start]
            position = start
        elif row[0] == "+":
            new.append(row[1:])
        else:
            assert lines[position] == row[1:], (lines[position], row)
            new += [] if row[0] == "-" else [row[1:]]
            position += 1
    return "".join([*new, *lines[position:]])


def outputs(kernel, case, target, shapes, seed):
    """The results of a kernel, with the arguments after the run."""
    arguments = case.arguments(shapes, seed)
    result = nkisim.simulate(kernel, target=target)(*arguments)
    return [*(result if isinstance(result, tuple) else (result,)), *arguments]


def is_same(old, new, change, dtype):
    """Whether results are the same bits, or as near as one rounding that the advice announces."""
    if not change:
        return all(a.tobytes() == b.tobytes() for a, b in zip(old, new, strict=True))
    step = float(np.spacing(np.ones((), dtype)))
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(old, new, strict=True)]
    return all(np.abs(a - b).max() <= MOST_ROUNDINGS * step * np.abs(a).max() for a, b in pairs)


class Judged:
    """The advice for a kernel on a generation, applied."""

    def __init__(self, name, target, folder):
        self.case, self.target, self.folder = SLOW[name], target, folder
        self.arguments = self.case.arguments(self.case.shapes, 0)
        self.before = nkisim.profile(self.case.kernel, target)(*self.arguments)

    @functools.cached_property
    def rules(self):
        """Rules of the findings of the original kernel."""
        return self.found(self.case.kernel)

    def found(self, kernel):
        report = nkisim.check(kernel, target=self.target)(*self.case.arguments(self.case.shapes, 0))
        return {f.rule.id for f in report.findings if f.severity != "note"}

    def judge(self, code, promised_us, change):
        """Return what is obtained over what is promised, and whether all results are right."""
        path = self.folder / "slow_kernels_edited.py"
        path.write_text(patched(FILE.read_text(), code))
        with imported(path) as module:
            kernel = module.SLOW[self.case.name].kernel
            after = nkisim.profile(kernel, self.target, advice=False)(*self.arguments)
            right = self.found(kernel) <= self.rules
            for seed, shapes in enumerate((self.case.shapes, self.case.second or self.case.shapes)):
                old, new = (
                    outputs(k, self.case, self.target, shapes, seed)
                    for k in (self.case.kernel, kernel)
                )
                right &= is_same(old, new, change, self.case.dtype)
        return (self.before.latency_us - after.latency_us) / promised_us, right

    def pieces(self):
        """Yield the advice with code, and all of it together: code, promise and change."""
        for piece in self.before.advice:
            if piece.code:
                yield piece.rule, piece.code, piece.gain_us, piece.change
        whole = self.before.together
        if whole is not None:
            gain = self.before.latency_us - whole.latency_us
            yield "together", whole.code, gain, whole.change


def fast_target(name):
    """The generation of the fast run of a kernel; "" if it has none."""
    targets = SLOW[name].targets
    return targets[[*SLOW].index(name) % len(targets)] if name in FAST else ""


def on_generations():
    for name, case in SLOW.items():
        for target in case.targets:
            marks = () if target == fast_target(name) else pytest.mark.slow
            yield pytest.param(name, target, marks=marks)


@pytest.mark.parametrize(("name", "target"), list(on_generations()))
def test_applied_advice_is_right_and_keeps_its_promise(name, target, tmp_path):
    judged = Judged(name, target, tmp_path)
    for rule, code, gain, change in judged.pieces():
        ratio, right = judged.judge(code, gain, change)
        assert right, f"{rule}\n{code}"
        assert 0.98 <= ratio <= 1.02, f"{rule}\n{code}"
    for piece in judged.before.advice:
        assert bool(piece.code) == (piece.gain_us is not None)
    if target == fast_target(name):
        tried = [piece for piece in judged.before.advice if piece.code]
        assert [piece.rule for piece in tried] == FAST[name].split()
        together = {"polynomial": (0, 1, 2), "softmax_in_bfloat16": (0, 1)}.get(name, (0,))
        assert judged.before.together is None or judged.before.together.pieces == together


def test_stages_are_named_by_their_engines():
    """A load, then Scalar and twice Vector: the cut is before Vector."""
    case = SLOW["stages_in_program_order"]
    advice = nkisim.profile(case.kernel, "gen4")(*case.arguments(case.shapes, 0)).advice
    (piece,) = (piece for piece in advice if piece.rule == "P015")
    first, last = re.search("begins on (\\w+) after .* ended on (\\w+)", piece.cause).groups()
    assert piece.values == {"engines": [first, re.search("stage on (\\w+)", piece.action)[1]]}
    assert last in ("vector", "sync", "gpsimd")


def test_a_wrong_result_and_a_broken_promise_are_noticed(tmp_path):
    judged = Judged("weights_in_the_loop", "gen2", tmp_path)
    text = FILE.read_text()
    at = text.index("def weights_in_the_loop")
    row = text[:at].count("\n") + text[at:].split("op=nl.multiply")[0].count("\n") + 1
    line = text.splitlines()[row - 1]
    wrong = line.replace("multiply", "add")
    ratio, right = judged.judge(f"@@ -{row} +{row} @@\n-{line}\n+{wrong}\n", 10.0, 0.0)
    assert not right
    assert abs(ratio) < 0.98
