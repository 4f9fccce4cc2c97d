"""Settings of libraries for a part of a test: they read environment variables at import only."""

from contextlib import ExitStack, contextmanager
from importlib import import_module


@contextmanager
def requiring(*libraries, level="1"):
    """Make calls of the libraries raise where no kernel computes them; ``""`` lifts that."""
    with ExitStack() as stack:
        for name in libraries:
            stack.enter_context(import_module(name).LIBRARY.requiring(level))
        yield


@contextmanager
def on_simulator(*libraries):
    """Run the kernels of the libraries on the simulator."""
    with ExitStack() as stack:
        for name in libraries:
            stack.enter_context(import_module(name).backend("simulator"))
        yield
