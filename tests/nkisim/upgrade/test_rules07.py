"""Rules of 0.7.0 on other forms than their examples, and code that 0.7.0 takes as it is."""

from pathlib import Path

from each_case import each_case
from nkisim.upgrade import upgrade_text

HEAD = """\
import os

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl


"""


def upgraded(text, since="0.6"):
    outcome = upgrade_text(HEAD + text + "\n", since, "0.7.0")
    assert outcome.problem == ""
    return outcome.after.removeprefix(HEAD).rstrip("\n"), outcome


WRITTEN = {
    "nisa.scalar_store(dst=n, value=-3)": "nisa.memset(dst=n, value=-3)",
    "nisa.scalar_store(value=4, dst=n)": "nisa.memset(value=4, dst=n)",
    "def f(n, t):\n    nisa.scalar_store(n, t.shape[0] * 2)": (
        "def f(n, t):\n    nisa.memset(n, t.shape[0] * 2)"
    ),
}


@each_case("before", list(WRITTEN))
def test_a_number_is_written_by_memset(before):
    """No release takes the old form, so the release of the file does not matter."""
    for since in ("auto", "0.6"):
        assert upgraded(before, since)[0] == WRITTEN[before]


FRONTENDS = {
    'os.environ["NKI_COMPILER_FRONTEND"] = "tracer"': "pass",
    'os.environ.setdefault("NKI_COMPILER_FRONTEND", "parser")': (
        'os.environ.setdefault("NKI_COMPILER_FRONTEND", "custom")'
    ),
    'def test_it(monkeypatch):\n    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "tracer")': (
        "def test_it(monkeypatch):\n    pass"
    ),
}


@each_case("before", list(FRONTENDS))
def test_values_of_the_front_end_of_0_6(before):
    after, outcome = upgraded(before)
    assert after.replace("pass", "") == FRONTENDS[before].replace("pass", "")
    assert [change.rule for change in outcome.changes] == ["MG-712"]
    assert upgraded(before, "auto")[0] == before


LOOK_ALIKES = [
    "nisa.scalar_store(n, nisa.scalar_load(m) + 1)",
    "def f(n, value):\n    nisa.scalar_store(n, value)",
    "other.scalar_store(n, 3)",
    'os.environ["NKI_COMPILER_FRONTEND"] = "custom"',
    'os.environ["NKI_FRONTEND"] = "parser"',
    'value = os.environ.get("NKI_COMPILER_FRONTEND", "custom")',
    'if os.environ["NKI_COMPILER_FRONTEND"] == "parser":\n    pass',
    "@nki.jit\ndef k(x):\n    a, b = x.shape[0] // 128, x.shape[1] % 4\n    return x",
    "back = n % -4",
    "@nki.jit\ndef k(x):\n    t = [x]\n    t.append(x)\n    return x",
    "@nki.jit\ndef k(x, o):\n    nisa.dma_copy(dst=o[0:4], src=x[0:4])\n    return o",
    "group = ncc.ReplicaGroup([[0, 1], [2, 3]])",
    "nisa.dma_copy(dst=o, src=x.ap([[1, 4]], scalar_offset=nisa.scalar_load(n)))",
    "end = min(4, n)\npart = names[0 : min(4, n)]",
]


@each_case("text", LOOK_ALIKES)
def test_code_of_the_new_release_is_not_touched(text):
    after, outcome = upgraded(text)
    assert after == text
    assert (outcome.findings, outcome.options) == ([], [])


LISTS = "@nki.jit\ndef k(x):\n    t = [1, 2]\n    n = t.{}(1)\n    return x"


@each_case("method", ["count", "index", "remove"])
def test_methods_of_lists_that_mean_something_else_now_are_listed(method):
    after, outcome = upgraded(LISTS.format(method))
    assert after == LISTS.format(method)
    assert [f.rule for f in outcome.findings] == ["MG-719"]
    assert f"{method}()" in outcome.findings[0].message


def test_what_is_optional_leaves_nothing_to_do():
    text = "group = ncc.ReplicaGroup([[i, i + 4] for i in range(4)])"
    _, outcome = upgraded(text)
    assert outcome.findings == []
    assert [option.rule for option in outcome.options] == ["MG-716"]
    assert upgraded(text, "auto")[1].options == []


def test_the_traced_kernels_are_what_0_7_takes():
    """All forty run under 0.7.0 without a finding (``test_traced_language``)."""
    text = (Path(__file__).parents[1] / "traced_kernels.py").read_text()
    text = text.replace("import nkisim.isa as", "import nki.isa as")
    text = text.replace("import nkisim.language as", "import nki.language as")
    outcome = upgrade_text(text, "auto", "0.7.0")
    assert outcome.after == text
    assert (outcome.problem, outcome.findings) == ("", [])
