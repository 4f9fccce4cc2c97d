"""Runs a kernel of an upgraded module."""

import importlib.util
import sys

import pytest

import nkisim


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
