"""Syntax trees: made in several threads at once, and none where the text is no Python."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nkisim.diagnostics.syntax import parsed


@pytest.fixture
def often():
    """Collects garbage often, and lets other threads go on meanwhile."""
    threshold = gc.get_threshold()

    def give_way(phase, info):
        time.sleep(0)

    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks.remove(give_way)


@pytest.mark.usefixtures("often")
def test_threads_make_trees_at_the_same_time():
    """Without a lock this raises SystemError in Python 3.11."""
    source = "".join(f"x{n} = [f({n}, (a + {n}) * b) for a in range({n})]\n" for n in range(100))
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(lambda _: parsed(source), range(12)))
    assert all(len(tree.body) == 100 for tree in trees)


@pytest.mark.parametrize("text", ["x = (", "x = 'a\x00'", "(" * 500])
def test_what_is_no_python_has_no_tree(text):
    assert parsed(text) is None
