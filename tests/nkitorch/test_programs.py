"""Torch programs under each entrance, as they are written for a chip."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

import nkisim
from nkisim.api import Kernel
from nkitorch.front_end import enable

PROGRAM = """
import torch_neuronx
from torch_neuronx.nki_hop import wrap_nki
from libtorch_neuronx_lite.nki.nki_hop import wrap_nki as light_wrap_nki
from libtorch_neuronx_lite._compiler import nki_op
import torch_xla.core.xla_model as xm
import nki, nki.language as nl, torch
from torch_neuronx import nki as same_nki

@nki.jit
def twice(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out

x = torch.ones(4, 8).to("neuron")
assert torch_neuronx.nki_op is nki_op and wrap_nki is light_wrap_nki
assert same_nki is nki and not hasattr(torch_neuronx, "no_such_name")
assert str(xm.xla_device()) == "neuron:0"
torch_neuronx.synchronize()
print(twice(x).sum().item(), wrap_nki(twice)[(1,)](x).sum().item())
"""
ALONE = "import torch; print(torch.ones(2, device='neuron').sum().item())"
PLAIN = """
import sys, torch
print([name for name in sys.modules if name.startswith("nki")], hasattr(torch, "neuron"))
"""


def printed(*command, **variables):
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nkisim_run(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    assert printed("-m", "nkisim", "run", str(tmp_path / "program.py")) == "64.0 64.0\n"


def test_a_program_that_imports_torch_alone():
    install = "import nkisim; nkisim.install(); "
    assert printed("-c", install + ALONE) == "2.0\n"
    after = "import torch, nkisim; nkisim.install(); "
    assert printed("-c", after + ALONE) == "2.0\n"


def test_the_plugin_of_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {ALONE}\n")
    assert "1 passed" in printed("-m", "pytest", "-q", "--nkisim", str(tmp_path))


def test_plain_torch_loads_nothing():
    assert printed("-c", PLAIN) == "[] False\n"
    assert printed("-c", "import nkisim; nkisim.jit\n" + PLAIN).endswith("False\n")


@pytest.mark.parametrize("module", ["torch_neuronx", "torch_xla"])
def test_names_are_served_while_installed_alone(module):
    before = list(sys.meta_path)
    with pytest.raises(ModuleNotFoundError):
        import_module(module)
    nkisim.install()
    try:
        assert import_module(module).__name__ == module
        with pytest.raises(ModuleNotFoundError):
            import_module(f"{module}.unknown")
    finally:
        nkisim.uninstall()
    assert Kernel.front_end is None
    enable()
    with pytest.raises(ModuleNotFoundError):
        import_module(module)
    assert len(sys.meta_path) <= len(before) + 1
