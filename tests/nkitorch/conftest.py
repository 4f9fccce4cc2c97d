"""The device stays in the process; calls of kernels go through torch in these tests alone."""

import sys

import pytest
import torch

if torch.cuda.device_count():  # the device is refused beside CUDA
    collect_ignore_glob = ["test_*.py"]
else:
    from nkitorch.front_end import disable, enable

    disable()


@pytest.fixture(autouse=True, scope="module")
def front_end():
    enable()
    yield
    disable()


@pytest.fixture(autouse=True)
def no_graphs():
    """Forget compiled graphs, whose number is limited."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
