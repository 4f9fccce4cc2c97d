"""Examples for torchrun: on the ranks of a pool, and as torchrun starts them."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ranks import pool
from scripts import loaded

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name, *arguments):
    """Return what an example prints on this rank; it ends the process if its check fails."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        loaded(EXAMPLES / name).main(list(arguments))
    return text.getvalue()


@pytest.mark.parametrize("ranks", [2, 3])
def test_conjugate_gradients_on_several_ranks(ranks):
    first, *others = pool(ranks).run(printed, "distributed_cg.py", "--grid", "6", "--tol", "1e-6")
    lines = first.splitlines()
    assert lines[0].startswith(f"order 216 on {ranks} ranks")
    # A rank needs the layer of points on either side of its part: 36 with two ranks, 72 with three.
    assert f"halo of all ranks: {8 * 36 * 2 * (ranks - 1):,} bytes a product" in first
    assert lines[-1] == "passed"
    assert set(others) == {""}


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_energy_on_several_ranks(ranks):
    sizes = ("--occupied", "4", "--virtual", "6", "--auxiliary", "15")
    first, *others = pool(ranks).run(printed, "distributed_df_mp2.py", *sizes)
    assert first.splitlines()[0].endswith(f"on {ranks} ranks")
    assert first.splitlines()[-1] == "passed"
    assert set(others) == {""}


@pytest.mark.slow
def test_torchrun_starts_it():
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", "2", EXAMPLES / "distributed_cg.py", "--grid", "8"],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "order 512 on 2 ranks" in done.stdout
    assert done.stdout.splitlines()[-1] == "passed"
