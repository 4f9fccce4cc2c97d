"""Source rules that differ between NKI versions, each beside code that only resembles it."""

import textwrap

from each_case import each_case
from nkisim import check_source
from nkisim.spec.signatures import CALLS
from nkisim.versions import parameters
from releases import VERSIONS

HEADER = """\
import nki
import nki.isa as nisa
import nki.language as nl

"""
V3, V4, V5, V6, V7 = VERSIONS


def found(folder, text, nki, header=HEADER):
    """Return the findings in a file with kernels, by rule and the text of the line."""
    path = folder / "kernels.py"
    path.write_text(header + textwrap.dedent(text))
    return [(f.rule.id, f.place.text) for f in check_source(path, nki=nki).findings]


def rules(folder, text, nki):
    return {rule for rule, _ in found(folder, text, nki)}


def kernel(body):
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return f"@nki.jit\ndef kernel(x, y):\n{lines}\n    return y\n"


# -- body functions --------------------------------------------------------------------------------

FORI = kernel("""
    tile = nl.load(x)
    def body(i):
        nisa.dma_copy(dst=tile, src=x.ap([[8, 1], [1, 8]], scalar_offset=i, indirect_dim=0))
        nisa.dma_copy(dst=y, src=tile)
    nl.fori_loop(0, 4, body)
""")
WHILE = kernel("""
    tile = nl.load(x)
    reg = nisa.register_alloc(3)
    def body(r):
        nisa.register_load(r, tile)
        return r
    nl.while_loop(init=reg, body_fun=body)
""")
NESTED = kernel("""
    tile = nl.load(x)
    def inner(j):
        nisa.dma_copy(dst=y, src=tile)
    def outer(i):
        nl.fori_loop(0, i, inner)
    nl.fori_loop(0, 4, outer)
""")


@each_case("text", [FORI, WHILE, NESTED], ids=["fori", "while", "nested"])
def test_bodies_of_loops_may_be_nested_and_use_the_kernels_variables(tmp_path, text):
    assert rules(tmp_path, text, V6) == set()
    for nki in (V3, V4, V5):
        assert {"L001", "A025"} <= rules(tmp_path, text, nki)


OTHERS = {
    "a nested function that is called": (
        "def twice(t):\n    return nl.add(t, t)\nnl.store(y, twice(nl.load(x)))",
        {"L001"},
    ),
    "a nested function that another function gets": (
        "def twice(t):\n    return nl.add(t, t)\nhelper(twice, x)",
        {"L001"},
    ),
    "a nonlocal name": (
        "n = 0\ndef body(i):\n    nonlocal n\n    n = 1\nnl.fori_loop(0, 4, body)",
        {"L009"},
    ),
    "a comprehension in a body": (
        "def body(i):\n    t = [nl.load(x) for _ in range(2)]\nnl.fori_loop(0, 4, body)",
        {"L006"},
    ),
    "an operator on a tile of the kernel": (
        "t = nl.load(x)\ndef body(i):\n    nl.store(y, t + 1)\nnl.fori_loop(0, 4, body)",
        {"L027"},
    ),
    "arithmetic with the index": (
        "def body(i):\n    nl.store(y, nl.load(x[i * 8]))\nnl.fori_loop(0, 4, body)",
        {"L033"},
    ),
    "an index in a branch": (
        "def body(i):\n    if i:\n        nl.store(y, nl.load(x))\nnl.fori_loop(0, 4, body)",
        {"L031"},
    ),
    "a compared condition": (
        "r = nisa.register_alloc(1)\n"
        "def body(c):\n    assert c > 0\n    return c\nnl.while_loop(r, body)",
        {"L031"},
    ),
    "a written index": (
        "def body(i):\n    nisa.register_move(i, 3)\nnl.fori_loop(0, 4, body)",
        {"L035"},
    ),
    "a step": ("def body(i):\n    pass\nnl.fori_loop(0, 4, body, -1)", {"L034"}),
    "a step by name": ("def body(i):\n    pass\nnl.fori_loop(0, 4, body, step=0)", {"L034"}),
    "a region": (
        "def body(i):\n    pass\nwith nl.no_reorder():\n    nl.fori_loop(0, 4, body)",
        {"L036"},
    ),
    "a result": ("def body(i):\n    return x\nnl.fori_loop(0, 4, body)", {"L070"}),
    "no condition": (
        "r = nisa.register_alloc(1)\ndef body(c):\n    pass\nnl.while_loop(r, body)",
        {"L070"},
    ),
    "a return of nothing": ("def body(i):\n    return None\nnl.fori_loop(0, 4, body)", set()),
    "a region in a body": (
        "def body(i):\n    with nl.no_reorder():\n        nl.store(y, nl.load(x))\n"
        "nl.fori_loop(0, 4, body)",
        set(),
    ),
    "a parameter of another name": (
        "def body(row):\n    pass\nfor i in range(4):\n    n = i * 8\nnl.fori_loop(0, 4, body)",
        set(),
    ),
}


@each_case("body, wanted", OTHERS.values(), ids=list(OTHERS))
def test_what_a_body_may_do(tmp_path, body, wanted):
    assert rules(tmp_path, kernel(body), V6) == wanted


def test_names_of_functions_around_the_kernel_stay_closures(tmp_path):
    text = """
    def factory(n):
        @nki.jit
        def kernel(x):
            def body(i):
                nl.store(x, nl.zeros((n, 1), dtype=nl.float32))
            nl.fori_loop(0, 4, body)
            return x
        return kernel
    """
    assert rules(tmp_path, text, V6) == {"L040"}


# -- indices and registers -------------------------------------------------------------------------


@each_case(
    "line",
    [
        "nl.store(y, nl.load(x[i * 8 : i * 8 + 8]))",
        "nisa.dma_copy(dst=y, src=x.ap([[1, 1]], scalar_offset=i))",
    ],
)
def test_the_index_of_a_range_is_an_offset_from_0_4_on(tmp_path, line):
    text = kernel(f"for i in nl.dynamic_range(4):\n    {line}")
    for nki in VERSIONS[:4]:
        assert rules(tmp_path, text, nki) - {"A045"} == ({"L033"} if nki == V3 else set()), nki
    assert rules(tmp_path, text, V7) == {"L031"}


@each_case("call", ["register_move(i, 1)", "register_load(dst=i, src=x)"])
def test_instructions_cannot_write_the_index_from_0_4_on(tmp_path, call):
    text = kernel(f"for i in nl.dynamic_range(4):\n    nisa.{call}")
    for nki in VERSIONS[:4]:
        assert rules(tmp_path, text, nki) - {"A045"} == (set() if nki == V3 else {"L035"}), nki
    other = kernel(f"i = nisa.register_alloc(0)\nfor _ in nl.dynamic_range(4):\n    nisa.{call}")
    for nki in VERSIONS[:4]:
        assert rules(tmp_path, other, nki) - {"A045"} == set(), nki


@each_case("line", ["n = int(r)", "for k in range(r):\n    pass"])
def test_registers_are_no_integers_where_kernels_are_traced(tmp_path, line):
    text = kernel(f"r = nisa.register_alloc(2)\n{line}")
    for nki in VERSIONS:
        assert ("L031" in rules(tmp_path, text, nki)) == (nki >= V6), nki
    assert rules(tmp_path, text.replace("r = nisa.register_alloc(2)", "r = 2"), V6) == set()


# -- deprecated names ------------------------------------------------------------------------------

DEPRECATED = {
    "for i in nl.affine_range(2):\n    pass": V6,
    "for i in nl.static_range(2):\n    pass": V6,
    "for i in nl.sequential_range(2):\n    pass": V6,
    "for i in nl.dynamic_range(2):\n    pass": V6,
    "r = nisa.register_alloc(1)\nwhile r:\n    nisa.register_load(r, x)": V6,
    "nisa.tensor_copy(dst=y, src=x, engine=nisa.vector_engine)": V6,
    "n = nl.tile_size.total_available_sbuf_size": V4,
    "n = nl.tile_size.psum_fmax": V4,
}
CURRENT = [
    "for i in range(2):\n    pass",
    "n = 3\nwhile n:\n    n = n - 1",
    "nisa.tensor_copy(dst=y, src=x, engine=nisa.engine.vector)",
    "n = nl.tile_size.pmax",
]


@each_case("body, since", DEPRECATED.items())
def test_names_are_deprecated_from_a_version_on(tmp_path, body, since):
    for nki in VERSIONS:
        gone = nki == V7 and ("dynamic_range" in body or "while" in body)
        noted = [rule for rule, _ in found(tmp_path, kernel(body), nki) if rule in ("A045", "L031")]
        wanted = ["L031" if gone else "A045"] if nki >= since else []
        assert noted == wanted, nki
    found(tmp_path, kernel(body), V6)
    path = tmp_path / "kernels.py"
    (note,) = [f for f in check_source(path, nki=V6).findings if f.rule.id == "A045"]
    assert note.severity == "note"
    assert V6 in note.message
    assert note.fix.startswith("use ")


@each_case("body", CURRENT)
def test_current_names_are_not_deprecated(tmp_path, body):
    for nki in VERSIONS:
        assert found(tmp_path, kernel(body), nki) == [], nki


# -- positions -------------------------------------------------------------------------------------


def moved(name, version):
    """The first position whose meaning differs in a later version, from the texts of these."""
    texts = [parameters(v, "nki.isa", name) for v in VERSIONS[VERSIONS.index(version) :]]
    lists = [[p.partition("=")[0] for p in text.split(", ")] for text in texts if text]
    shifted = [
        i
        for later in lists[1:]
        for i, (here, there) in enumerate(zip(lists[0], later, strict=False))
        if here != there
    ]
    return min(shifted, default=None)


def test_positions_that_later_versions_changed_are_noted(tmp_path):
    checked = 0
    for name in ("dma_copy", "dma_transpose", "dma_compute", "tensor_scalar_reduce", "tensor_copy"):
        for version, call in CALLS[name].items():
            count = len(call.signature.parameters)
            first = moved(name, version)
            for given in range(1, count + 1):
                line = f"nisa.{name}({', '.join(['x'] * given)})"
                noted = "A040" in rules(tmp_path, kernel(line), version)
                assert noted == (first is not None and given > first), (line, version)
                checked += noted
    assert checked > 10


# -- decorators and old names ----------------------------------------------------------------------


@each_case("argument", ["mode='torchxla'", "func=None"])
def test_arguments_of_jit_that_0_4_refuses(tmp_path, argument):
    text = f"@nki.jit({argument})\ndef kernel(x):\n    return x\n"
    path = tmp_path / "kernels.py"
    path.write_text(HEADER + text)
    for nki in VERSIONS:
        (finding,) = check_source(path, nki=nki).findings
        assert (finding.rule.id, nki in finding.message) == ("A020", True)
        assert finding.severity == ("warning" if nki == V3 else "error")


def test_old_names_are_refused_from_0_4_on(tmp_path):
    text = "import neuronxcc.nki.language as old\n" + kernel("nl.store(y, old.load(x))")
    path = tmp_path / "kernels.py"
    path.write_text(HEADER + text)
    for nki in VERSIONS:
        (finding,) = check_source(path, nki=nki).findings
        assert finding.rule.id == "L061"
        assert ("refuses" in finding.message) == (nki != V3)


def test_a_checked_file_is_checked_again_by_another_version(tmp_path):
    """Findings are cached until a file changes, for each version."""
    assert rules(tmp_path, FORI, V3) != rules(tmp_path, FORI, V6) == set()
    path = tmp_path / "kernels.py"
    for nki, clean in ((V3, False), (V6, True), (V3, False), (V6, True)):
        assert (check_source(path, nki=nki).codes == set()) == clean


def test_calls_without_a_destination_are_refused_where_instructions_return_handles(tmp_path):
    text = kernel("t = nisa.tensor_tensor(x, y, op=nl.add)")
    path = tmp_path / "kernels.py"
    path.write_text(HEADER + text)
    for nki in VERSIONS:
        (finding,) = [f for f in check_source(path, nki=nki).findings if f.rule.id == "A026"]
        assert ("return nothing" in finding.message) == (nki < V6)
    handle = kernel("t = nisa.tensor_tensor(dst=y, data1=x, data2=y, op=nl.add)\nt.depends_on(t)")
    assert found(tmp_path, handle, V6) == []
