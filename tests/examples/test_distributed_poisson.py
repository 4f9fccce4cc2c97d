"""The spectral Poisson solver over ranks: in this process's pool of ranks, and by torchrun."""

import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from runpy import run_path

import pytest

from ranks import pool

SCRIPT = Path(__file__).parents[2] / "examples" / "distributed_poisson.py"


def _printed(grid, pencils):
    printed = io.StringIO()
    with redirect_stdout(printed):
        run_path(str(SCRIPT))["run"](grid, pencils)
    return printed.getvalue()


@pytest.mark.parametrize(("ranks", "pencils"), [(2, False), (4, True)])
def test_the_answer_is_checked_on_rank_0(ranks, pencils):
    first, *others = pool(ranks).run(_printed, 10, pencils)
    assert f"10^3 points on {ranks} ranks" in first
    assert "passed" in first
    assert first.count("all_to_all") == (4 if pencils else 2)
    assert "irfftn" in first
    assert others == [""] * (ranks - 1)


@pytest.mark.slow
def test_torchrun_starts_its_ranks():
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node", "2", str(SCRIPT), "--grid", "10"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "on 2 ranks" in done.stdout
    assert "passed" in done.stdout
