"""Code in format strings: changed where Python knows its place, else reported."""

import sys

import pytest

from upgraded import upgrade_text

POSITIONS_ARE_EXACT = sys.version_info >= (3, 12)
HEAD = "import nki.language as nl\n"
STRINGS = [
    'f"{nl.tile_size.psum_fmax}"',
    'f"é {(nl.tile_size.psum_fmax)!r:>8}" "x"',
    "f'''\n{nl.tile_size.psum_fmax}\n'''",
]


@pytest.mark.parametrize("string", STRINGS)
def test_a_renamed_attribute(string):
    text = f"{HEAD}print({string}, nl.tile_size.psum_fmax)\n"
    outcome = upgrade_text(text, "0.3", "0.4.0")
    found = [finding.message for finding in outcome.findings]
    if POSITIONS_ARE_EXACT:
        assert outcome.after == text.replace("psum_fmax", "psum_bank_fmax")
        assert found == []
        return
    assert outcome.after == f"{HEAD}print({string}, nl.tile_size.psum_bank_fmax)\n"
    assert found == [
        "in a format string, which needs Python 3.12 to be changed: "
        "tile_size.psum_fmax is now psum_bank_fmax"
    ]


@pytest.mark.parametrize(
    ("since", "text", "after"),
    [
        ("0.3", 'print(f"{nisa.dma_copy(a, b, mode)}")\n', "nisa.dma_copy(a, b, oob_mode=mode)"),
        ("0.3", 'print(f"{nki.jit(func=a)}")\n', "nki.jit(a)"),
        ("beta1", 'import neuronxcc.nki\nprint(f"{neuronxcc.nki.x}")\n', "{nki.x}"),
    ],
)
def test_an_edit_in_a_format_string(since, text, after):
    text = f"import nki\nimport nki.isa as nisa\n{text}" if since == "0.3" else text
    outcome = upgrade_text(text, since, "0.4.0")
    if POSITIONS_ARE_EXACT:
        assert after in outcome.after
    else:
        assert outcome.after == text
        assert len(outcome.findings) == 1
        assert "format string" in outcome.findings[0].message


def test_a_call_around_a_format_string_is_changed():
    text = f'{HEAD}t = nl.load(x)\nnl.device_print(prefix=f"{{k}} (", x=t)\n'
    outcome = upgrade_text(text, "beta1", "0.3.0")
    assert 'nl.device_print(print_prefix=f"{k} (", tensor=t)\n' in outcome.after


def test_a_name_that_only_a_format_string_reads_stays():
    text = f'{HEAD}i = nl.arange(4)[None, :]\nprint(f"{{i}}")\n'
    outcome = upgrade_text(text, "beta1", "0.3.0")
    assert outcome.after == text
    assert [finding.rule for finding in outcome.findings] == ["MG-105"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import nki\nx = (\n", "line 2: not valid Python: '(' was never closed"),
        ("import nki\nx = " + "-" * 5000 + "1\n", "too deeply nested"),
        ("import nki\0\n", "not valid Python"),
    ],
)
def test_a_text_that_cannot_be_read_is_named(text, problem):
    outcome = upgrade_text(text)
    assert outcome.after == text
    assert problem in outcome.problem
