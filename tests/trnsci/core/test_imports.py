"""What importing the core brings in, and what the torch path leaves out."""

import pytest

import trnsci.core
from fresh_process import printed_after, printed_by

LOADED = "import sys\nprint(json.dumps(sorted(sys.modules)))"


WITHOUT_TORCH = """
    counters errors nki
    backend.device backend.environment backend.explanation backend.fallback backend.plan
"""


def test_what_needs_no_torch_does_not_import_it():
    modules = ", ".join(f"trnsci.core.{name}" for name in WITHOUT_TORCH.split())
    loaded = set(printed_by(f"import {modules}\n{LOADED}"))
    assert loaded.isdisjoint({"torch", "numpy", "nkisim"})


def test_the_torch_path_imports_no_nki():
    code = f"""
import torch
from torch import Tensor
from trnsci.core import explain, from_device, to_device
from trnsci.core.backend.library import Library
from trnsci.core.backend.operation import Operation
import trnsci.core.testing

def double(x: Tensor) -> Tensor:
    return 2 * x

library = Library("trntoy")
operation = Operation(library, "double", reference=double, launch="no.such.module:double")
x = to_device(torch.ones(2))
assert torch.equal(from_device(operation(x)), 2 * x)
assert explain(operation, x).path == "pytorch"
{LOADED}
"""
    loaded = set(printed_after("torch", code))
    assert loaded.isdisjoint({"nki", "nkisim", "scipy", "torch_xla"})


def test_the_public_names_exist():
    assert trnsci.core.__all__ == sorted(trnsci.core.__all__)
    assert all(callable(getattr(trnsci.core, name)) for name in trnsci.core.__all__)
    assert set(trnsci.core.__all__) <= set(dir(trnsci.core))
    with pytest.raises(AttributeError, match="explane"):
        trnsci.core.explane  # noqa: B018


@pytest.mark.parametrize(
    "library", ["trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor"]
)
def test_a_library_without_torch_says_how_to_get_it(library):
    code = f"""
import sys
sys.modules["torch"] = None
try:
    import {library}
except ModuleNotFoundError as error:
    print(json.dumps(str(error)))
"""
    said = printed_after("trnsci.core.nki", code)  # which does not import torch
    assert "pip install 'nkisim[torch]'" in said
