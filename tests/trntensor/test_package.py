"""What the package shows, and what importing it costs."""

import pytest
import torch

import trntensor
from fresh_process import printed_after
from trntensor import plan, published


def test_the_public_names_are_listed():
    assert len(set(trntensor.__all__)) == len(trntensor.__all__)
    assert all(hasattr(trntensor, name) for name in trntensor.__all__)


def test_published_names_are_in_their_module_of_then():
    assert all(getattr(plan, name) is getattr(published, name) for name in published.__all__)


def test_internal_names_of_published_releases():
    assert published._parse_subscripts("ij, jk") == (["ij", "jk"], "ik")
    published._validate_subscripts("ij,jk", (torch.ones(2, 3), torch.ones(3, 2)))
    with pytest.raises(ValueError, match="index 'j' has size 3 in operand 0 and 4 in operand 1"):
        published._validate_subscripts("ij,jk", (torch.ones(2, 3), torch.ones(4, 2)))


def test_importing_it_imports_no_planner_and_no_simulator():
    code = (
        "import sys, torch; before = set(sys.modules); import trntensor\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "a = torch.ones(2, 2)\n"
        "trntensor.einsum('ij,jk,kl->il', a, a, a)\n"
        "used = [name for name in ('opt_einsum', 'cotengra', 'matplotlib', 'nkisim')\n"
        "        if name in set(sys.modules) - before]\n"
        "print(json.dumps([sorted(added - set(sys.stdlib_module_names)), used]))"
    )
    assert printed_after("torch", code) == [["trnsci", "trntensor"], []]


def test_residency_without_a_device():
    x = torch.ones(3)
    assert trntensor.from_xla(x) is x
    with pytest.raises(RuntimeError, match="NKI runtime"):
        trntensor.to_xla(x)
