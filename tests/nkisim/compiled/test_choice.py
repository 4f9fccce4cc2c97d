"""Whose arithmetic runs: decided by the installation, NKISIM_FAST and sizes alone.

The sizes are those of a tile and of the kernel's arguments.
"""

import pytest

from fresh_process import COMMANDS, printed_after

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


ONE_AFTER_THE_OTHER = """
import hashlib

def bits(width):
    return hashlib.sha1(run(width)[0].tobytes()).hexdigest()

first = [bits(64), bits(512)]
for _ in range(12):
    run(512), run(2048)
found = {"small": "numba" in sys.modules}
second, told = bits(8192), run(8192)[1]
found["large"] = ["numba" in sys.modules, told]
run(8193), run(1024)
found["fresh"], found["later"] = [*first, second], [bits(64), bits(512), bits(8192)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    return printed_after(COMMANDS, KERNELS + ONE_AFTER_THE_OTHER)


def test_small_runs_do_not_load_numba(found):
    assert found["small"] is False


def test_a_large_run_loads_numba_and_the_report_tells_so(found):
    assert found["large"] == [True, "compiled"]


def test_bits_do_not_depend_on_what_ran_before(found):
    assert found["later"] == found["fresh"]


def test_numpy_computes_where_it_is_asked_for():
    code = KERNELS + (
        "found, told = run(8192)\n"
        "x = np.linspace(-5, 5, 128 * 8192, dtype=np.float32).reshape(128, 8192)\n"
        "print(json.dumps(['numba' in sys.modules, told, bool((found == np.exp(x)).all())]))"
    )
    assert printed_after(COMMANDS, code, NKISIM_FAST="0") == [False, "numpy", True]


@pytest.mark.parametrize("error", ["ImportError", "AttributeError", "SystemError"])
def test_a_numba_that_cannot_be_imported_is_no_numba(tmp_path, error):
    (tmp_path / "numba.py").write_text(f"raise {error}('numba needs another NumPy')")
    code = KERNELS + (
        "found, told = run(8192)\n"
        "from click.testing import CliRunner; from nkisim.cli.information import info\n"
        "text = CliRunner().invoke(info).output\n"
        "print(json.dumps([told, float(found[0, 0]), text]))"
    )
    told, value, text = printed_after(COMMANDS, code, path=[tmp_path])
    assert (told, round(value, 6)) == ("numpy", 0.006738)
    assert f"cannot be imported: {error}: numba needs another NumPy" in " ".join(text.split())


def test_a_disabled_numba_is_not_used():
    code = KERNELS + "run(8192); print(json.dumps(run(8192)[1]))"
    assert printed_after(COMMANDS, code, NUMBA_DISABLE_JIT="1") == "numpy"
