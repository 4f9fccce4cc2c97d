"""Whose arithmetic runs: decided by the installation, NKISIM_FAST and the size of a tile alone."""

import pytest

from fresh_process import printed_after

pytest.importorskip("numba")

KERNELS = """
import sys, numpy as np, nkisim, nkisim.isa as nisa, nkisim.language as nl

def powers(x):
    tile = nl.load(x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out

def run(width):
    simulation = nkisim.simulate(powers)
    x = np.linspace(-5, 5, 128 * width, dtype=np.float32).reshape(128, width)
    return simulation(x), simulation.report.arithmetic
"""


def test_small_tiles_do_not_load_numba():
    code = KERNELS + "run(256); print(json.dumps('numba' in sys.modules))"
    assert printed_after("nkisim", code) is False


def test_large_tiles_load_numba_and_the_report_tells_so():
    code = KERNELS + "told = run(512)[1]; print(json.dumps(['numba' in sys.modules, told]))"
    assert printed_after("nkisim", code) == [True, "compiled"]


def test_numpy_computes_where_it_is_asked_for():
    code = KERNELS + (
        "found, told = run(512)\n"
        "x = np.linspace(-5, 5, 128 * 512, dtype=np.float32).reshape(128, 512)\n"
        "print(json.dumps(['numba' in sys.modules, told, bool((found == np.exp(x)).all())]))"
    )
    assert printed_after("nkisim", code, NKISIM_FAST="0") == [False, "numpy", True]


def test_bits_do_not_depend_on_what_ran_before():
    digest = "import hashlib; h = lambda a: hashlib.sha1(a.tobytes()).hexdigest()\n"
    fresh = printed_after(
        "nkisim", KERNELS + digest + "print(json.dumps([h(run(w)[0]) for w in (64, 1024)]))"
    )
    code = KERNELS + digest + "import numba; run(2048); run(1024)\n"
    later = printed_after("nkisim", code + "print(json.dumps([h(run(w)[0]) for w in (64, 1024)]))")
    assert later == fresh


@pytest.mark.parametrize("error", ["ImportError", "AttributeError", "SystemError"])
def test_a_numba_that_cannot_be_imported_is_no_numba(tmp_path, error):
    (tmp_path / "numba.py").write_text(f"raise {error}('numba needs another NumPy')")
    code = KERNELS + (
        "found, told = run(512)\n"
        "from click.testing import CliRunner; from nkisim.cli.information import info\n"
        "text = CliRunner().invoke(info).output\n"
        "print(json.dumps([told, float(found[0, 0]), text]))"
    )
    told, value, text = printed_after("nkisim", code, path=[tmp_path])
    assert (told, round(value, 6)) == ("numpy", 0.006738)
    assert f"cannot be imported: {error}: numba needs another NumPy" in " ".join(text.split())


def test_a_disabled_numba_is_not_used():
    code = KERNELS + "run(512); print(json.dumps(run(512)[1]))"
    assert printed_after("nkisim", code, NUMBA_DISABLE_JIT="1") == "numpy"
