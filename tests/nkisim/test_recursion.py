"""Functions that call themselves: a finding with the chain of calls, at every entry point."""

import importlib
import sys
import textwrap
import traceback
from pathlib import Path

import numpy as np
import pytest

import nkisim
from fresh_process import nkisim_command

X = np.ones((8, 16), np.float32)

MAIN = """
    import nkisim as nki
    import nkisim.isa as nisa
    import nkisim.language as nl
    import recursive_other as other

    def stored(tile):
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    def alone(tile, n):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        return tile if n == 0 else alone(tile, n + 1)  # alone

    def forth(tile, n):
        return other.back(tile, n)

    class Scale(nl.NKIObject):
        def one(self, tile, n):
            return self.two(tile, n)

        def two(self, tile, n):
            return self.one(tile, n)  # method

    class Nested(nl.NKIObject):
        def __init__(self):
            self.inner = Nested()  # constructor

    @nki.jit
    def k_alone(x):
        return stored(alone(nl.load(x), 1))

    @nki.jit
    def k_module(x):
        return stored(forth(nl.load(x), 1))

    @nki.jit
    def k_method(x):
        return stored(Scale().two(nl.load(x), 1))

    @nki.jit
    def k_constructor(x):
        Nested()
        return stored(nl.load(x))

    @nki.jit
    def k_kernel(x):
        return k_kernel(x)  # kernel
"""
OTHER = """
    import recursive_main as main

    def back(tile, n):
        return main.forth(tile, n)  # module
"""
CHAINS = {
    "alone": "alone -> alone",
    "module": "forth -> back -> forth",
    "method": "Scale.one -> Scale.two -> Scale.one",
    "constructor": "Nested.__init__ -> Nested.__init__",
    "kernel": "k_kernel -> k_kernel",
}
IN_SOURCE = sorted(set(CHAINS) - {"alone"})  # there a condition decides

each_chain = pytest.mark.parametrize("name", CHAINS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the two modules, importable in the tests of this file."""
    folder = tmp_path_factory.mktemp("recursive")
    for name, text in (("main", MAIN), ("other", OTHER)):
        (folder / f"recursive_{name}.py").write_text(textwrap.dedent(text).lstrip())
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in ("recursive_main", "recursive_other"):
        sys.modules.pop(name, None)


@pytest.fixture
def main(folder):
    return importlib.import_module("recursive_main")


def marked(folder, name):
    """File and line of the call that closes a cycle, which begins where it is written first."""
    for file in sorted(folder.glob("*.py")):
        for number, text in enumerate(file.read_text().splitlines(), 1):
            if text.endswith(f"# {name}"):
                return str(file), number
    raise AssertionError(name)


def assert_is(finding, folder, name):
    assert finding.rule.id == "L038"
    assert finding.severity == "error"
    assert finding.seen == CHAINS[name]
    assert (finding.file, finding.line) == marked(folder, name)


@each_chain
@pytest.mark.parametrize("strictness", ["simulate", "strict"])
def test_a_simulation_raises_the_finding(main, folder, name, strictness):
    kernel = nkisim.simulate(getattr(main, f"k_{name}"), strictness=strictness)
    with pytest.raises(nkisim.NkiValidationError) as caught:
        kernel(X)
    assert not isinstance(caught.value, RecursionError)
    assert_is(caught.value.finding, folder, name)
    # Not the thousand lines of the stack.
    assert len(traceback.format_exception(caught.value)) < 20


@each_chain
@pytest.mark.parametrize("source", [False, True])
def test_a_check_has_one_finding(main, folder, name, source):
    report = nkisim.check(getattr(main, f"k_{name}"), source=source)(X)
    found = [f for f in report.findings if f.rule.id == "L038"]
    assert len(found) == 1, str(report)
    assert_is(found[0], folder, name)
    assert report.stopped.startswith("L038")


@each_chain
def test_a_profile_refuses(main, folder, name):
    with pytest.raises(nkisim.ProfileError) as caught:
        nkisim.profile(getattr(main, f"k_{name}"))(X)
    found = [f for f in caught.value.report.findings if f.rule.id == "L038"]
    assert len(found) == 1
    assert_is(found[0], folder, name)


@pytest.mark.parametrize("name", IN_SOURCE)
def test_the_source_alone_shows_what_no_condition_ends(folder, name):
    report = nkisim.check_source(folder / "recursive_main.py", f"k_{name}")
    (found,) = [f for f in report.findings if f.rule.id == "L038"]
    assert_is(found, folder, name)


def test_a_check_of_the_file_has_each_once(folder):
    file = folder / "recursive_main.py"
    done = nkisim_command("check", f"{file}::k_alone", "--shapes", "x=f32[8,16]")
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("error[L038]") == 1
    assert CHAINS["alone"] in done.stdout
    done = nkisim_command("check", file)
    assert done.stdout.count("error[L038]") == len(IN_SOURCE), done.stdout
    for name in IN_SOURCE:
        assert CHAINS[name] in done.stdout


def test_two_cores_find_it_too(main, folder):
    report = nkisim.check(main.k_alone[2], source=False)(X)
    found = [f for f in report.findings if f.rule.id == "L038"]
    assert len(found) == 1, str(report)
    assert_is(found[0], folder, "alone")


# -- recursion that ends ---------------------------------------------------------------------------

ENDS = """
    import nkisim as nki
    import nkisim.isa as nisa
    import nkisim.language as nl

    def stored(tile):
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    def halves(tile, n):
        if n == 1:
            return
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        halves(tile, n // 2)

    def even(tile, n):
        return tile if n == 0 else odd(tile, n - 1)

    def odd(tile, n):
        assert n >= 0
        return even(tile, n - 1)

    class Step(nl.NKIObject):
        def apply(self, tile):
            return self.inner(tile)

        def inner(self, tile):
            return self.apply(tile)

    class Last(Step):
        def inner(self, tile):
            return tile

    def lazy(tile, n):
        n > 0 and lazy(tile, n - 1)
        return [lazy(tile, i) for i in range(n)] and tile

    @nki.jit
    def k_ends(x):
        tile = nl.load(x)
        halves(tile, 8)
        even(tile, 8)
        Last().apply(tile)
        lazy(tile, 2)
        return stored(tile)
"""


def test_recursion_that_ends_is_no_finding(tmp_path, monkeypatch):
    Path(tmp_path, "recursion_ends.py").write_text(textwrap.dedent(ENDS).lstrip())
    monkeypatch.syspath_prepend(tmp_path)
    kernel = importlib.import_module("recursion_ends").k_ends
    monkeypatch.delitem(sys.modules, "recursion_ends")
    report = nkisim.check(kernel, source=True)(X)
    assert "L038" not in report.codes, str(report)
    assert report.outputs is not None


def test_a_stack_that_no_function_fills_is_left_as_it_is():
    def kernel(x):
        raise RecursionError("too deep for another reason")

    with pytest.raises(RecursionError, match="another reason"):
        nkisim.check(kernel)(X)
