"""What the parent takes of answers that may be forged, and the writer of an element."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import nkisim.language as nl
from nkisim.checks import file_findings
from nkisim.filecheck.arguments import parse_shapes
from nkisim.judging.authored import arguments_asked, checked_answer, refusal_of
from nkisim.judging.child import Ended
from nkisim.judging.writers import Writers

from ...each_case import each_case
from .judged import KERNELS

TEXTS = {"rule": "M001", "severity": "note", "message": "m", "file": "f.py", "fix": ""}
FINDING = {**TEXTS, "line": 3, "rewrite": {"code": "x = 1"}}
FORGED = [
    *({"rule": "M999"}, {"message": "one\nline"}, {"file": "a\x1b[0m"}, {"fix": "\0"}),
    *({"message": 3}, {"line": True}, {"line": "3"}, {"count": np.zeros(2)}),
    *({"rewrite": {"code": 3}}, {"rewrite": "text"}, {"rewrite": {}}),
]


@each_case("forged", FORGED, ids=str)
def test_a_finding_of_the_child_is_an_error_and_has_its_form(forged):
    assert refusal_of(FINDING) == {**FINDING, "severity": "error"}
    assert refusal_of({**FINDING, "rewrite": None})["rewrite"] is None
    with pytest.raises(Ended, match="no answer") as ended, checked_answer():
        refusal_of({**FINDING, **forged})
    assert ended.value.reason == "refused"


def test_arguments_that_the_caller_asks_for_replace_those_of_the_child():
    ((kernel,), _) = file_findings(str(KERNELS / "right.py"), "matmul")
    found = arguments_asked((1, 2, 3), {"c": 4}, parse_shapes("b=f32[2,3] c=5"), kernel)
    assert (found.args[0], found.args[1].shape, found.args[2:]) == (1, (2, 3), (3,))
    assert found.kwargs == {"c": 5}
    assert arguments_asked((1,), {}, {}, SimpleNamespace(node=None)) == ((1,), {})


@each_case("part", [np.s_[:, :], np.s_[1:3, 2:], np.s_[::2, 1::3], np.s_[2, 3:4], np.s_[:, 4:1:-1]])
def test_the_last_writer_of_each_element(part):
    """Regions of bytes against NumPy's views: the second statement writes a part."""
    whole, lines, lives = np.zeros((4, 6), np.float32), np.ones((4, 6)), (object(), object())
    lines[part] = 2

    def tensor(view, life, buffer=nl.shared_hbm):
        region = (view.ctypes.data, view.shape, view.strides, view.itemsize)
        return SimpleNamespace(life=lives[life], region=region, buffer=buffer)

    writers = Writers()
    written = [tensor(whole, 0), tensor(whole[part], 0, nl.private_hbm), tensor(whole, 0, nl.sbuf)]
    for line, found in enumerate([*written, tensor(whole, 1)], 1):
        place = SimpleNamespace(file="f.py", line=line)
        writers(SimpleNamespace(writes=[("dst", found)], place=place))
    for index in itertools.product(range(4), range(6)):
        assert writers.of(tensor(whole, 0), index) == ("f.py", lines[index])
        assert writers.of(tensor(whole, 1), index) == ("f.py", 4)
    assert Writers().of(tensor(whole, 0), (0, 0)) is None
