"""The example that trains a transformer with kernels of its own, on the device and on the CPU."""

from pathlib import Path
from runpy import run_path

import pytest

import nkisim
from nkitorch.front_end import enable

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_transformer.py"


@pytest.fixture
def losses():
    nkisim.install()
    try:
        yield run_path(str(EXAMPLE))["losses"]
    finally:
        nkisim.uninstall()
        enable()


def test_losses_are_those_of_the_cpu(losses):
    expected = losses("cpu", 4)
    assert losses("neuron", 4) == pytest.approx(expected, rel=1e-5)  # sums in another order
    assert expected[-1] < expected[0] / 1.5
