"""Scripts of the project, which belong to no package, as modules."""

import importlib.util
import sys


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
