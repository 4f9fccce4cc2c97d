"""Each rule: its example, texts that look alike and must stay, properties of all rewrites."""

import ast
import io
import tokenize

import pytest

from each_case import each_case
from nkisim.upgrade import upgrade_text
from upgrade_examples import rules_with_examples

RULES = [rule for rule in rules_with_examples() if rule.to == "0.3.0"]

HEAD = """\
import nki
import nki.language as nl
import nki.isa as nisa
import nki.collectives as ncc
import numpy as np
"""


WHOLE = [text for rule in RULES if rule.id == "MG-101" for text in (rule.before, rule.after)]


each_rule = each_case("rule", RULES, ids=lambda rule: rule.id)


def module(text):
    return text + "\n" if text in WHOLE else HEAD + text + "\n"


def era(rule):
    return "auto" if rule.certain and not rule.refused else rule.since


def comments(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [t.string for t in tokens if t.type == tokenize.COMMENT]


@each_rule
def test_the_example_of_a_rule(rule):
    outcome = upgrade_text(module(rule.before), era(rule))
    assert outcome.problem == ""
    assert outcome.after == module(rule.after or rule.before)
    if rule.after:
        assert rule.id in {change.rule for change in outcome.changes}
    else:
        assert rule.kind == "report"
        assert rule.id in {finding.rule for finding in outcome.findings}


def commented(text):
    """Put a comment above each line and behind each one that is a whole statement."""
    out = []
    for number, row in enumerate(text.splitlines()):
        indent = row[: len(row) - len(row.lstrip())]
        if row.strip() and not row.strip().startswith(("else", ")")):
            out.append(f"{indent}# above {number}")
        out.append(row + (f"  # behind {number}" if row.strip() else ""))
    return "\n".join(out) + "\n"


ODD = "\n\n\nx  =  {  'a' :1, }  # odd\n\n\n\ndef  f( a,b ) :\n\treturn   a\n"


@each_case("rule", RULES, ids=lambda rule: rule.id, group=lambda rule: rule.id[:4])
def test_rewrites_parse_keep_comments_and_other_text_and_are_done_once(rule):
    for text in (module(rule.before) + ODD, commented(module(rule.before)) + ODD):
        first = upgrade_text(text, era(rule))
        assert first.problem == ""
        ast.parse(first.after)
        assert sorted(comments(first.after)) == sorted(comments(text))
        assert first.after.endswith(ODD)
        second = upgrade_text(first.after, era(rule))
        assert second.after == first.after
        assert second.changes == []


@each_rule
def test_line_endings_of_windows_stay(rule):
    text = module(rule.before).replace("\n", "\r\n")
    after = upgrade_text(text, era(rule)).after
    assert "\n" not in after.replace("\r\n", "")
    assert after.replace("\r\n", "\n") == module(rule.after or rule.before)


@each_rule
def test_a_name_that_is_not_nki_is_never_touched(rule):
    others = (
        "import nkiplus as nki\nimport other.language as nl\nimport other.isa as nisa\n"
        "import other.collectives as ncc\nimport other as np\n"
    )
    if rule.before.startswith(("import ", "from ")):
        return
    text = others + rule.before + "\n"
    outcome = upgrade_text(text, era(rule))
    assert outcome.after == text
    assert outcome.findings == []


LOOK_ALIKES = {
    "0.3.0 order of dma_compute": "nisa.dma_compute(dst, srcs, nl.add, scales)",
    "0.3.0 order of affine_select": "nisa.affine_select(d, p, 1, t, 0.0, nl.greater_equal)",
    "0.3.0 positions of nc_matmul": "nisa.nc_matmul(d, s, m, False, False, True, None, (0, 0))",
    "0.3.0 positions of dma_copy": "nisa.dma_copy(d, s, nisa.oob_mode.skip)",
    "register to register": "nisa.register_move(r, other)",
    "SBUF as source": "t = nl.ndarray((128, 4), dtype=nl.float32)\nnisa.dma_copy(dst=o, src=t)",
    "a tensor of unknown memory": "def f(t):\n    nisa.dma_copy(dst=o, src=t)",
    "PSUM in one branch only": (
        "def f(c, o):\n    if c:\n"
        "        t = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.psum)\n"
        "    else:\n        t = c\n    nisa.dma_copy(dst=o, src=t)"
    ),
    "float tile": "t = nl.ndarray((128, 4), dtype=nl.float32)\nnisa.memset(t, 2.0)",
    "axis of a 2-D tile": (
        "t = nl.ndarray((128, 4), dtype=nl.float32)\ns = nl.ndarray((128, 1), dtype=nl.float32)\n"
        "nisa.tensor_reduce(dst=s, op=nl.add, data=t, axis=1)"
    ),
    "second axis meant": (
        "t = nl.ndarray((128, 4, 8), dtype=nl.float32)\n"
        "s = nl.ndarray((128, 8), dtype=nl.float32)\n"
        "nisa.tensor_reduce(dst=s, op=nl.add, data=t, axis=1)"
    ),
    "is outside kernels": "def host(x):\n    return x is None",
    "star outside kernels": "def host(x, *, y=1):\n    return x",
    "list for another function": "def host(x=[1]):\n    return x\n\nhost([1])",
    "private HBM that is not returned": (
        "@nki.jit\ndef k(x):\n    t = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.hbm)\n"
        "    return x"
    ),
    "NumPy on the host": "a = np.add(np.float32(1), np.arange(4)[:, None])",
    "a string that is no buffer": 'print("sbuf", dict(buffer="sbuf"))',
    "a comment": '# nl.par_dim(128), nl.fp32.min, buffer="sbuf"',
    "a docstring": '"""import neuronxcc.nki as nki"""',
    "a slice that is no index tensor": "def f(t, k):\n    return t[k, 0:4], t[k], t[..., None]",
    "shadowed module": "def f(nl):\n    return nl.par_dim(4)",
    "own attribute": "class A:\n    nl = 1\n\nA.nl.par_dim(128)",
    "a number that is no enum": "nisa.tensor_scalar(dst=d, data=x, op0=nl.add, operand0=2)",
    "a grid of one axis": "@nki.jit\ndef k(x):\n    return x\n\nk[2](a)",
}


@pytest.mark.parametrize("text", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_look_alikes_stay(text):
    outcome = upgrade_text(module(text))
    assert outcome.after == module(text)
    assert outcome.findings == []


IMPORTS = {
    "import neuronxcc.nki as nki": "import nki",
    "import neuronxcc.nki as knl": "import nki as knl",
    "import neuronxcc.nki.isa as nisa, os": "import nki.isa as nisa, os",
    "from neuronxcc import nki": "import nki",
    "from neuronxcc.nki import language as nl": "from nki import language as nl",
    "from neuronxcc.nki.language import load, store": "from nki.language import load, store",
    "import neuronxcc.nki.language\nx = neuronxcc.nki.language.exp": (
        "import nki.language\nx = nki.language.exp"
    ),
    "try:\n    import neuronxcc.nki as nki\nexcept ImportError:\n    nki = None": (
        "try:\n    import nki\nexcept ImportError:\n    nki = None"
    ),
}


@pytest.mark.parametrize("before", IMPORTS)
def test_forms_of_imports(before):
    assert upgrade_text(before + "\n").after == IMPORTS[before] + "\n"


def test_a_module_that_a_rewrite_needs_is_imported():
    text = (
        "from nki import isa\nimport nki.language as nl\nisa.dma_copy(dst=a, src=b, dge_mode=2)\n"
    )
    assert "dge_mode=isa.dge_mode.hwdge" in upgrade_text(text).after
    text = "from nki.isa import dma_copy\ndma_copy(dst=a, src=b, dge_mode=2)\n"
    after = upgrade_text(text).after
    assert after.startswith("import nki.isa as nisa\nfrom nki.isa import dma_copy\n")
    assert "dge_mode=nisa.dge_mode.hwdge" in after


def test_a_dynamic_index_is_never_made_a_slice():
    text = (
        HEAD + "def f(x, y):\n    i_f = nl.arange(512)[None, :]\n    idx = nl.load(y)\n"
        "    return nl.load(x[idx, i_f])\n"
    )
    outcome = upgrade_text(text)
    assert outcome.after == text
    assert {finding.rule for finding in outcome.findings} == {"MG-105", "MG-110"}


@pytest.mark.parametrize(
    "use", ["stride == [1, 1]", "stride + [1]", "stride.index(1)", "isinstance(stride, list)"]
)
def test_a_list_that_is_used_as_one_is_reported(use):
    text = HEAD + f"@nki.jit\ndef k(x, stride=[1, 1]):\n    y = {use}\n    return x\n"
    outcome = upgrade_text(text)
    assert outcome.after == text
    assert {finding.rule for finding in outcome.findings} == {"MG-318"}


def test_a_tile_with_two_names_is_not_updated_in_place():
    text = HEAD + "def f(x):\n    t = nl.load(x)\n    old = t\n    t += 1.0\n    return old\n"
    outcome = upgrade_text(text)
    assert outcome.after == text
    assert {finding.rule for finding in outcome.findings} == {"MG-125"}


def test_reductions_use_the_binary_operator():
    text = HEAD + "nisa.tensor_reduce(dst=a, op=nl.max, data=b, axis=1)\n"
    assert "op=nl.maximum" in upgrade_text(text).after


def test_an_import_of_a_removed_name_goes_with_its_last_use():
    text = "from neuronxcc.nki.language import par_dim\nimport neuronxcc.nki.language as nl\n"
    use = "t = nl.ndarray(({}, 4), dtype=nl.float32)\n"
    after = upgrade_text(text + use.format("par_dim(128)")).after
    assert after == "import nki.language as nl\n" + use.format("128")


def test_an_argument_with_a_comment_is_left_as_a_finding():
    text = (
        HEAD + "nisa.dma_copy(\n    dst=a,\n    src=b,\n    unique_indices=True,  # why\n"
        "    name='n',\n)\n"
    )
    outcome = upgrade_text(text)
    assert "# why" in outcome.after
    ast.parse(outcome.after)


@pytest.mark.parametrize("text", ["import nki\ndef f(:\n", "import nki\n\x00", "nki = (\n"])
def test_what_is_not_python_is_reported_and_unchanged(text):
    outcome = upgrade_text(text)
    assert outcome.after == text
    assert "not valid Python" in outcome.problem


def test_a_release_must_be_known():
    with pytest.raises(ValueError, match="'beta3'; accepted are"):
        upgrade_text("", "beta3")


def test_notes_are_written_once_above_the_statement():
    text = HEAD + "def f(x):\n    y = [\n        nl.loop_reduce(x, 1, 2),\n    ]\n    return y\n"
    outcome = upgrade_text(text, notes=True)
    assert "    # nkisim: MG-127 nl.loop_reduce was removed" in outcome.after
    ast.parse(outcome.after)
    assert upgrade_text(outcome.after, notes=True).after == outcome.after
    assert upgrade_text(text).after == text


def test_the_release_decides_what_an_ambiguous_form_means():
    text = HEAD + "nisa.dma_copy(dst=a, src=b, dge_mode=3)\n"
    assert "dge_mode.none" in upgrade_text(text, "beta2").after
    assert "dge_mode.unknown" in upgrade_text(text, "beta1").after
    assert upgrade_text(text, "0.3").after == text
