"""Names and calls that the source alone shows to be wrong, and code that only resembles them."""

import textwrap

import pytest

from nkisim import check_source
from nkisim.spec.signatures import CALLS, home_of
from releases import VERSIONS

HEADER = """\
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

"""


def written(folder, text, header=HEADER, name="kernels.py"):
    """Return the path of a new file."""
    path = folder / name
    path.write_text(header + textwrap.dedent(text))
    return path


def found(folder, body, header=HEADER):
    """Return the findings in a kernel with a body."""
    lines = textwrap.indent(textwrap.dedent(body), "    ")
    text = f"@nki.jit\ndef kernel(x, y, flag):\n{lines}\n    return x\n"
    return check_source(written(folder, text, header)).findings


@pytest.mark.parametrize(
    ("line", "rule", "fix"),
    [
        ("nl.arange(4)", "A029", "slices"),
        ("nl.ndarray((4, 4), dtype=nl.fp32, buffer=nl.sbuf)", "A025", "nl.float32"),
        ("nl.ndarray((4, 4), dtype=nl.floot32, buffer=nl.sbuf)", "A025", "mean nl.float32?"),
        ("nisa.dma_copy(dst=x, source=y)", "A025", "did you mean src=?"),
        ("nisa.tensor_copy(src=x)", "A026", "allocate dst"),
        ("nisa.tensor_tensor(x, y, op=nl.add)", "A026", "allocate dst"),
        ("nisa.tensor_copy(x, y, nisa.engine.unknown, None, 4)", "A025", "call tensor_copy("),
        ("nisa.dma_copy(x, y, dst=x)", "A025", "remove dst="),
        ("nisa.tensor_multiply(dst=x, data1=x, data2=y)", "A025", "nisa.tensor_tensor("),
        ("nisa.zzz(dst=x)", "A025", "dir(nisa)"),
        ("nisa.tensor_copy(dst=x, src=y, engine=nisa.engine.vectr)", "A025", "vector"),
        ("n = nl.tile_size.pmx", "A025", "pmax"),
        ("ncc.all_reduced(x)", "A025", "ncc.all_reduce?"),
        ("nisa.tensor_copy(dst=x, src=y, mask=None)", "A027", "slice"),
        ("nl.load(x, mask=None)", "A027", "slice"),
        ("if flag:\n    nl.arange(4)", "A029", "slices"),
        ("t = nl.load(x)\nu = t.astype(nl.bfloat16)", "A025", "nisa.tensor_copy"),
        ("t = nl.load(x)\nu = t.colour", "A025", "a function of nki.language"),
    ],
)
def test_the_source_alone_shows_it(tmp_path, line, rule, fix):
    (finding,) = [f for f in found(tmp_path, line) if f.rule.id != "A040"]
    assert (finding.rule.id, finding.severity) == (rule, "error")
    assert fix in finding.fix
    assert finding.line == 8 + line.count("\n")


@pytest.mark.parametrize("size", ["128", "(128, 512)", "4 * 128"])
@pytest.mark.parametrize(
    "body",
    [
        "if x.shape == SIZE:\n    nl.arange(4)",
        "assert x.shape == SIZE\nnl.arange(4)",
        "if x.shape != SIZE:\n    return x\nnl.arange(4)",
        "if isinstance(x, nl.NkiTensor) and helper(x) > SIZE:\n    nl.arange(4)",
    ],
)
def test_conditions_on_sizes_excuse_nothing(tmp_path, body, size):
    header = f"{HEADER}SIZE = {size}\n\ndef helper(x):\n    return x.shape[0]\n\n"
    assert [f.rule.id for f in found(tmp_path, body, header)] == ["A029"]


MEMBERS = {
    "t.permute((1, 0))": ("0.5.0", "0.6.0", "0.7.0"),
    "t.slice(0, 0, 2).expand_dim(1)": ("0.5.0", "0.6.0", "0.7.0"),
    "t.is_identity()": ("0.4.0",),
    "t.sim_value": ("0.4.0",),
    "t.ap([[1, 1]])": VERSIONS,
    "t.reshape((2, 2)).get_pattern()": VERSIONS,
    "nl.tile_size.sbuf_fmax": ("0.4.0", "0.5.0", "0.6.0", "0.7.0"),
    "nl.tile_size.pmax": VERSIONS,
    "nl.float8_e8m0fnu": ("0.5.0", "0.6.0", "0.7.0"),
    "nl.DType": ("0.6.0", "0.7.0"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_members_of_other_versions_are_found(tmp_path, monkeypatch, version):
    monkeypatch.setenv("NKISIM_NKI", version)
    for text, there in MEMBERS.items():
        rules = {f.rule.id for f in found(tmp_path, f"t = nl.load(x)\nu = {text}")}
        assert ("A025" in rules) == (version not in there), text


def test_views_are_tensors_to_the_source(tmp_path, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.6.0")
    (finding,) = found(tmp_path, "t = nl.load(x)\nu = t.permute((1, 0)).select(1, 0).colour")
    assert (finding.rule.id, finding.operand) == ("A025", "colour")


def test_names_in_defaults_constants_and_imports(tmp_path):
    text = """
    from nki.language import bf16
    TYPE = nl.fp32

    @nki.jit
    def kernel(x, dtype=nl.f16):
        return nl.load(x, dtype=bf16)
    """
    report = check_source(written(tmp_path, text))
    assert sorted(f.operand for f in report.errors) == ["bf16", "f16", "fp32"]


def calls(version):
    """Return, for a version's functions, the text of the name and of the required arguments."""
    for name, in_version in CALLS.items():
        call = in_version.get(version)
        if call is None:
            continue
        home = "" if name.startswith("nl.") else HOMES[home_of(name)[0]]
        needed = [p.name for p in call.signature.parameters.values() if p.default is p.empty]
        yield f"{home}{name}", [f"{p}=x" for p in needed], len(call.signature.parameters)


HOMES = {"nki.collectives": "ncc.", "nki.isa": "nisa."}


def api_findings(folder, lines):
    """Return the lines of a kernel that have a finding about a call."""
    rules = ("A025", "A026", "A037", "A044")
    return {f.line - 7 for f in found(folder, "\n".join(lines)) if f.rule.id in rules}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_function_is_known_with_its_signature(tmp_path, monkeypatch, version):
    monkeypatch.setenv("NKISIM_NKI", version)
    every = list(calls(version))
    assert len(every) > 150
    whole = [f"{name}({', '.join(needed)})" for name, needed, _ in every]
    assert api_findings(tmp_path, whole) == set()
    unknown = [f"{name}({', '.join([*needed, 'zzz=x'])})" for name, needed, _ in every]
    assert api_findings(tmp_path, unknown) == set(range(1, len(every) + 1))
    many = [f"{name}({', '.join(['x'] * (count + 1))})" for name, _, count in every]
    assert api_findings(tmp_path, many) == set(range(1, len(every) + 1))
    fewer = [f"{name}({', '.join(needed[1:])})" for name, needed, _ in every if needed]
    assert api_findings(tmp_path, fewer) == set(range(1, len(fewer) + 1))
    opened = [f"{name}(*x, **y)" for name, _, _ in every]
    assert api_findings(tmp_path, opened) == set()


def test_arguments_of_jit_are_read(tmp_path):
    text = """
    @nki.jit(platform_target="trn2", mode="jax")
    def kernel(x):
        return x
    """
    found = check_source(written(tmp_path, text)).findings
    assert [(f.rule.id, f.severity) for f in found] == [("A019", "error"), ("A020", "warning")]


OWN = "from mine import nl\nimport nki\nimport nki.isa as nisa\n"
PATCHED = f"{HEADER}nl.fp32 = nl.float32\n"
ADDED = f"{HEADER}setattr(nisa, 'copy', nisa.tensor_copy)\n"
FLAG = f'{HEADER}NEW = nki.__version__ >= "0.4"\n'
EITHER = """\
import nki
import nki.isa as nisa
try:
    from mine import nl
except ImportError:
    import nki.language as nl
"""


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (OWN, "nl.fp32"),
        (EITHER, "nl.fp32"),
        (PATCHED, "nl.fp32"),
        (ADDED, "nisa.copy(x, y)"),
        (FLAG, "if NEW:\n    nl.arange(4)"),
        (FLAG, "if NEW and flag:\n    nisa.dma_copy(x, y, source=x)"),
        (FLAG, "if not NEW:\n    return x\nnl.arange(4)"),
        (FLAG, "new = NEW\nif new:\n    nl.arange(4)"),
        (FLAG, "t = nl.fp32 if NEW else nl.float32"),
        (HEADER, 'if nki.__version__ >= "0.4":\n    nl.arange(4)'),
        (HEADER, "nl = y\nnl.fp32"),
        (HEADER, "for nl in range(4):\n    nl.fp32"),
        (f"{HEADER}nl = nl.wrapped\n", "nl.fp32"),
        (f"{HEADER}def swap():\n    global nl\n    nl = 1\n", "nl.fp32"),
        (f"{HEADER}HAS = hasattr(nl, 'fp32')\n", "nl.fp32"),
        (HEADER, "t = nl.load(x)\nif flag:\n    t = y\nu = t.colour"),
        (HEADER, "t = nl.load(x)\nt.colour = 3\nu = t.colour"),
        (HEADER, "t = nl.load(x)\nu = (t.shape, t.dtype, t.buffer, t.ap, t.reshape, t.view)"),
        (HEADER, "if nisa.get_nc_version() > nisa.nc_version.gen4:\n    nisa.fast_copy(x, y)"),
        (f"import functools\n{HEADER}copy = functools.partial(nisa.dma_copy, dst=1)\n", "copy()"),
    ],
)
def test_code_that_only_resembles_a_mistake_is_clean(tmp_path, header, body):
    assert not [f for f in found(tmp_path, body, header) if f.rule.id.startswith("A")]


def test_a_module_of_the_user_that_is_called_nl_is_his(tmp_path):
    written(tmp_path, "def arange(n):\n    return n\n", "", "nl.py")
    header = "import nki\nimport nki.isa as nisa\nimport nl\n"
    assert not found(tmp_path, "nl.arange(4)\nnl.fp32", header)


def test_a_name_in_a_try_statement_is_left_to_it(tmp_path):
    body = "try:\n    nl.arange(4)\nexcept AttributeError:\n    pass"
    assert {f.rule.id for f in found(tmp_path, body)} == {"L007"}
