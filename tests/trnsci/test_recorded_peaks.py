"""Recorded peaks are the same in a new process, after other work, and whenever garbage goes."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import trnsci

PLANS = """
from functools import partial
import trnblas.distributed, trnfft.distributed, trnsolver.distributed, trntensor.distributed
blas, fft = trnblas.distributed.plan, trnfft.distributed.plan
solver, tensor = trnsolver.distributed.plan, trntensor.distributed.plan
PLANS = {
    "gemm": partial(blas, "gemm", (70, 50), (50, 90), mesh=(2, 3)),
    "trsm": partial(blas, "trsm", (40, 40), (40, 6), mesh=3),
    "fftn": partial(fft, "fftn", (12, 10, 14), (2, 2)),
    "fft": partial(fft, "fft", (60,), (4,)),
    "einsum": partial(tensor, "einsum", "ij,jk,kl->il", (50, 40), (40, 60), (60, 30), mesh=(2, 2)),
    "lstsq": partial(solver, "lstsq", (40, 30), 6),
    "cholesky": partial(solver, "cholesky", (20, 20), 40),
}
"""
"""Plans whose peak is recorded."""

IN_NEW_PROCESSES = """
import gc, json, os, sys

gc.disable()
found = {}
for name in sys.argv[1:]:
    plan = PLANS[name]
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, json.dumps(plan().peak_bytes).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        found[name] = json.loads(answer.read())
    os.waitpid(child, 0)
print(json.dumps(found))
"""
"""Prints the peaks of the named plans by processes that have recorded nothing.

They collect no garbage.
"""


def _worked():
    """Use what processes keep: levels, explanations, errors with their frames, cached plans."""
    kept = []
    for level in ("bfloat16", "float32"):
        with trnsci.precision(level):
            kept.append(_peaks())
    try:
        trnsci.core.distributed.recording.peak_of(lambda: ([], None))
    except TypeError as error:
        kept.append(error)
    return kept


def _peaks():
    space = {}
    exec(PLANS, space)
    return {name: plan().peak_bytes for name, plan in space["PLANS"].items()}


# Each new process imports what torch needs for the first time, which takes 1.5 s.
@pytest.mark.skipif(not hasattr(os, "fork"), reason="new processes are forked")
@pytest.mark.parametrize(
    "names",
    [
        ("gemm", "fft", "lstsq"),
        pytest.param(("trsm", "fftn", "einsum", "cholesky"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_peak_does_not_depend_on_the_process(names):
    source = str(Path(trnsci.__file__).parents[1])
    answer = subprocess.run(
        [sys.executable, "-c", PLANS + IN_NEW_PROCESSES, *names],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    new = json.loads(answer.stdout)
    kept = _worked()
    threshold = gc.get_threshold()
    try:
        for collected in (0, 10):
            gc.set_threshold(collected)
            found = _peaks()
            for name in names:
                assert list(found[name]) == new[name], (name, collected)
    finally:
        gc.set_threshold(*threshold)
    assert len(kept) == 3
