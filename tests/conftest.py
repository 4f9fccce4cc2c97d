import os
from tempfile import TemporaryDirectory

from hypothesis import settings

# The same examples in every run and on every worker, no time limit on a loaded machine, and no
# database: a test leaves no files behind.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

# What numba kept of a module is not to be trusted after a change of another that it uses, so tests
# compile anew. The folder goes when the process does.
_compiled = TemporaryDirectory()
os.environ["NUMBA_CACHE_DIR"] = _compiled.name
