"""Files that belong to no package, as modules: scripts of the project, and kernels of tests."""

import importlib.util
import sys
from contextlib import contextmanager

import pytest

import nkisim


def loaded(path):
    """Return the module that a file is; it is not left among the imported ones."""
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


@contextmanager
def imported(path):
    """Import a file of kernels; inside of the context ``import nki`` resolves to nkisim."""
    with pytest.MonkeyPatch.context() as patch:
        # Python would use bytecode for a file of the same size that is written again soon.
        patch.setattr(sys, "dont_write_bytecode", True)
        nkisim.install()
        try:
            yield loaded(path)
        finally:
            nkisim.uninstall()
