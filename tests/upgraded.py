"""``nkisim upgrade`` on a text, and the result of a kernel of an upgraded module."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import nkisim
from nkisim.cli import commands
from scripts import imported


def upgrade_text(text, since="auto", target="0.3.0", notes=False):
    """Return ``after``, ``changes``, ``findings`` and ``problem`` of ``nkisim upgrade --write``."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.py"
        path.write_bytes(text.encode())
        options = ["upgrade", str(path), "--from", since, "--to", target, "--write"]
        options += ["--format", "json", *["--notes"] * notes]
        done = CliRunner().invoke(commands, options, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        (file,) = json.loads(done.stdout)["files"]
        after = path.read_bytes().decode()
    assert file["changed"] == file["written"] == (after != text)
    changes, findings = ([SimpleNamespace(**c) for c in file[k]] for k in ("changes", "findings"))
    return SimpleNamespace(after=after, changes=changes, findings=findings, problem=file["problem"])


def upgraded_result(text, folder, arrays, nki="0.3"):
    """Return what ``kernel`` of a module computes; its function ``launch`` is called if it has one.

    ``import nki`` resolves to nkisim meanwhile, and kernels that are called are simulated.
    """
    path = folder / "kernels.py"
    path.write_text(text)
    with imported(path) as module, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKI_SIMULATOR", "1")
        launch = getattr(module, "launch", None) or nkisim.simulate(module.kernel, nki=nki)
        return launch(*arrays)


def assert_right_after_upgrade(text, expected, folder):
    """Upgrade a module without help, compare its kernel with NumPy, and upgrade it once more."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((128, 64)).astype(np.float32) for _ in range(2)]
    outcome = upgrade_text(text)
    assert outcome.problem == ""
    assert outcome.findings == []
    result = upgraded_result(outcome.after, folder, arrays)
    # Sums of 128 products of numbers of order 1, rounded to float32 a few times.
    np.testing.assert_allclose(result, expected(*arrays), rtol=2e-5, atol=2e-5)
    assert upgrade_text(outcome.after).after == outcome.after
