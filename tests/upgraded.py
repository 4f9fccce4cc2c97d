"""Runs a kernel of an upgraded module."""

import importlib.util
import sys

import numpy as np
import pytest

import nkisim
from nkisim.upgrade import upgrade_text


def upgraded_result(text, folder, arrays, nki="0.3"):
    """Return what ``kernel`` of a module computes; its function ``launch`` is called if it has one.

    ``import nki`` resolves to nkisim meanwhile, and kernels that are called are simulated.
    """
    path = folder / "kernels.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("upgraded_kernels", path)
    loaded = importlib.util.module_from_spec(spec)
    nkisim.install()
    try:
        with pytest.MonkeyPatch.context() as patch:
            # Python would use bytecode for a file of the same size that is written again soon.
            patch.setattr(sys, "dont_write_bytecode", True)
            patch.setenv("NKI_SIMULATOR", "1")
            spec.loader.exec_module(loaded)
            launch = getattr(loaded, "launch", None) or nkisim.simulate(loaded.kernel, nki=nki)
            return launch(*arrays)
    finally:
        nkisim.uninstall()


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
