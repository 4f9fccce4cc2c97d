"""The contract on public interfaces finds what it forbids, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "public_names.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("public_names", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["public_names"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["public_names"]


@pytest.fixture
def found(tool, tmp_path):
    """A function from the text of a module to the uses that are found in it."""

    def uses(text):
        package = tmp_path / "ours"
        package.mkdir()
        (package / "module.py").write_text(text)
        return list(tool.all_uses(tmp_path))

    return uses


PRIVATE = {
    "import torch\ntorch._C._functorch.level()": "torch._C._functorch.level",
    "import torch._dynamo": "torch._dynamo",
    "from torch._guards import detect": "torch._guards.detect",
    "from torch.autograd.function import _Single": "torch.autograd.function._Single",
    "import torch as t\nt.cuda._compile_kernel('')": "t.cuda._compile_kernel",
    "import os\ngetattr(os.environ, '_data')": "os.environ._data",
    "def f(tensor):\n    return tensor._version": "tensor._version",
    "def f(function):\n    function._marked = True": "function._marked",
    "import ctypes": "ctypes",
    "from ctypes import CDLL": "ctypes.CDLL",
    "exec('x = 1')": "exec()",
    "x = eval('1')": "eval()",
    "compile('x', 'file', 'exec')": "compile()",
    "import sys\nsys._getframe(1)": "sys._getframe",
    "from sys import getrefcount": "sys.getrefcount",
    "def f(frame):\n    return frame.f_lasti": "frame.f_lasti",
}


@pytest.mark.parametrize("text", PRIVATE)
def test_what_is_private_is_found_once(found, text):
    assert [use.name for use in found(text)] == [PRIVATE[text]]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.compile(f)\ntorch.func.grad(f)",
        "import re\nre.compile('x')",
        "from ours._paths import check\nimport ours._paths",
        "class A:\n    def __init__(self):\n        self._x = 1\ndef f(a):\n    return a._x",
        "class A:\n    __slots__ = ('_x',)\ndef f(a):\n    return a._x",
        "class A:\n    def _step(self): ...\ndef f(a):\n    return a._step()",
        "def f(pair):\n    return pair._replace(x=1)",
        "import os\nos._exit(1)",
        "import torch\nclass A:\n    _d = 1\n    def f(self):\n        torch.empty(self._d).to(1)",
        "def f(x):\n    return x.__class__.__name__",
    ],
)
def test_what_is_public_or_ours_is_not_found(found, text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import ctypes  # private: no other way", "no other way"),
        ("# private: no other\n# way\nimport ctypes", "no other way"),
        ("# no other way\nimport ctypes", ""),
        ("# private: of another line\n\nimport ctypes", ""),
    ],
)
def test_the_reason_is_in_the_comment_at_the_use(found, text, reason):
    assert [use.reason for use in found(text)] == [reason]
