"""The one inference of what values are, as the language rules and as ``upgrade`` read a file."""

import ast
import textwrap

from each_case import each_case
from nkisim.source import Kinds, LiveGlobals, Names, file_globals, nki_arguments

HEAD = """\
import math
import numpy as np
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
"""

# The value of ``probe`` in each function: as the rules read it, and as ``upgrade`` does.
CASES = {
    "allocation": ("probe = nl.ndarray((4, 8), nl.float32)", "tensor", "tile"),
    "function of nki.language": ("probe = nl.exp(x)", "tensor", "tile"),
    "no tensor": ("probe = nl.program_id(0)", None, None),
    "part": ("t = nl.load(x)\nprobe = t[0:4]", "tensor", "tile"),
    "view": ("probe = nl.load(x).reshape((8, 4))", "tensor", "tile"),
    "method of something else": ("probe = other.reshape((8, 4))", None, None),
    "either way": (
        "probe = nl.load(x) if flag else nl.zeros((4, 8), nl.float32)",
        "tensor",
        "tile",
    ),
    "one way": ("probe = nl.load(x) if flag else None", None, None),
    "two values": ("probe = nl.load(x)\nif flag:\n    probe = nl.load(y)", "tensor", "tile"),
    "two kinds": ("probe = nl.load(x)\nif flag:\n    probe = 1", None, None),
    "of itself": (
        "probe = nl.load(x)\nfor i in range(4):\n    probe = nl.exp(probe)",
        "tensor",
        "tile",
    ),
    "operator": ("probe = nl.load(x) + 1", None, "tile"),
    "operator on itself": (
        "probe = nl.load(x)\nfor i in range(4):\n    probe = probe * other",
        None,
        "tile",
    ),
    "unknown of itself": ("probe = nl.load(x)\nprobe = other(probe)", None, None),
    "two of each other": (
        "a = nl.load(x)\nfor i in range(4):\n    probe = a\n    a = probe",
        "tensor",
        "tile",
    ),
    "only of itself": ("for i in range(4):\n    probe = probe", None, None),
    "augmented": ("probe = nl.load(x)\nprobe += other", "tensor", "tile"),
    "augmented number": ("probe = 1\nprobe += 2", "number", "number"),
    "number with something": ("probe = 1\nprobe += other", None, None),
    "unpacked": ("probe, b = nl.load(x), 1", "tensor", "tile"),
    "unpacked, unknown": ("probe, b = other", None, None),
    "unpacked with a star": ("probe, *b = nl.load(x), 1, 2", None, None),
    "size": ("probe = x.shape[0]", "number", "number"),
    "sizes": ("probe, b = x.shape", "number", "number"),
    "some sizes": ("probe = x.shape[0:1]", None, None),
    "index": ("for probe in nl.dynamic_range(4):\n    pass", "index", "index"),
    "unrolled index": ("for probe in nl.affine_range(4):\n    pass", "number", "number"),
    "rows": ("for probe in x:\n    pass", None, None),
    "instruction": ("probe = nisa.tensor_copy(x)", None, "tile"),
    "instruction with dst": ("probe = nisa.tensor_copy(dst=x, src=y)", None, None),
    "enum of nki.isa": ("probe = nisa.engine(1)", None, None),
    "register": ("probe = nisa.register_alloc(0)", "register", "register"),
    "rank": ("probe = ncc.rank_id()", "rank", "rank"),
    "enum": ("probe = nisa.get_nc_version()", "enum", "enum"),
    "list": ("probe = [1, 2]", "list", "list"),
    "element": ("a = [nl.load(x)]\na.append(nl.load(y))\nprobe = a[0]", None, "tile"),
    "element of a changed list": ("a = [nl.load(x)]\na.extend(other)\nprobe = a[0]", None, None),
    "text": ("probe = f'{x}'", "text", "text"),
    "numpy": ("probe = np.exp(x)", None, None),
    "result of a helper": ("probe = helper(x)", None, "tile"),
    "helper with two results": ("a, probe = pair(x)", None, "tile"),
    "a name that is not NKI's here": ("nl = other\nprobe = nl.load(x)", None, None),
}
HELPERS = """\
def helper(a):
    return nl.load(a)


def pair(a):
    return 1, nl.load(a)
"""


def _module(statements, parameters="x, y, flag, other"):
    body = textwrap.indent(statements, "    ")
    return Names(f"{HEAD}\n\n{HELPERS}\n\ndef kernel({parameters}):\n{body}\n    use(probe)\n")


def _kind(module, *, beta1):
    (node,) = [
        call.args[0]
        for call in module.all(ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id == "use"
    ]
    return Kinds(module, module.path, beta1=beta1).of(node)


@each_case("name", CASES)
def test_kind_of_a_name(name):
    statements, for_rules, for_upgrade = CASES[name]
    module = _module(statements)
    assert _kind(module, beta1=False) == for_rules
    assert _kind(module, beta1=True) == for_upgrade


# A function whose parameter ``p`` is used; the rest of the file; and both readings of it.
PARAMETERS = {
    "operand": ("nisa.tensor_copy(dst=p, src=other)", "", "tensor", "tensor"),
    "sliced operand": ("nisa.tensor_copy(dst=other, src=p[0:4])", "", "tensor", "tensor"),
    "element of an operand": ("nisa.tensor_copy(dst=other, src=p[0])", "", None, None),
    "operand by position": ("nisa.tensor_copy(p, other)", "", "tensor", "tensor"),
    "hidden by a star": ("nisa.tensor_copy(*other, p)", "", None, None),
    "number of an instruction": ("nisa.memset(other, p)", "", None, None),
    "register": ("nisa.register_load(p, other)", "", None, None),
    "loaded": ("nl.load(p)", "", "tensor", "tensor"),
    "passed a tile": ("pass", "function(nl.load(x), 1)", None, "tile"),
    "passed two kinds": ("pass", "function(nl.load(x), 1)\nfunction(1, 1)", None, None),
    "passed elsewhere": ("pass", "function(nl.load(x), 1)\nother(function)", None, None),
    "counter": ("pass", "nl.fori_loop(0, 4, function)", "counter", "counter"),
    "condition": ("pass", "nl.while_loop(0, body_fun=function)", "register", "register"),
}


@each_case("name", PARAMETERS)
def test_kind_of_a_parameter(name):
    statement, calls, for_rules, for_upgrade = PARAMETERS[name]
    function = f"def function(p, other):\n    {statement}\n    use(p)\n"
    module = Names(f"{HEAD}\n\n{function}\n\n{calls}\n")
    assert _kind(module, beta1=False) == for_rules
    assert _kind(module, beta1=True) == for_upgrade


def test_long_sums_are_read():
    module = _module("probe = " + " + ".join(["x"] * 600))
    assert _kind(module, beta1=False) is None


NAMES = {
    "nl.load": "nki.language.load",
    "nisa.engine.vector": "nki.isa.engine.vector",
    "ncc.rank_id": "nki.collectives.rank_id",
    "nki.jit": "nki.jit",
    "np.exp": "numpy.exp",
    "math.ceil": "math.ceil",
    "len": "len",
    "missing": "",
    "local": "",
    "local.load": "",
}


def test_names_have_one_meaning(tmp_path):
    """In the text alone, in a file, and in the module that was made of it."""
    uses = "\n".join(f"    {name}" for name in NAMES)
    text = f"{HEAD}\n\ndef kernel(local):\n{uses}\n".replace("import nki", "import nkisim")
    text = text.replace("import nkisim\n", "import nkisim as nki\n")
    file = tmp_path / "names.py"
    file.write_text(text)
    source = file_globals(str(file))
    live = {}
    exec(compile(text, str(file), "exec"), live)
    body = source.tree.functions[0].body
    nki = Names(text.replace("import nkisim as nki\n", "import nki\n").replace("nkisim", "nki"))
    for statement, twin in zip(body, nki.functions[0].body, strict=True):
        wanted = NAMES[ast.unparse(statement)]
        assert source.of(statement.value).path == wanted
        assert nki.path(twin.value) == wanted
        root = ast.unparse(statement).partition(".")[0]
        if root != "local":
            assert source.meaning(root).path == LiveGlobals(live).meaning(root).path


def test_arguments_are_those_of_the_version_or_unknown():
    def bound(text, path="nki.isa.tensor_copy"):
        found = nki_arguments(ast.parse(text, mode="eval").body, path)
        return {name: ast.unparse(value) for name, value in found.items()}

    assert bound("f(a, src=b)") == {"dst": "a", "src": "b"}
    assert bound("f(a, dst=b)") == bound("f(*a)") == bound("f(dst=a, **b)") == {}
    assert bound("f(a, b)", "nki.language.load") == {"src": "a", "dtype": "b"}
    assert bound("f(a)", "numpy.exp") == bound("f(a)", "nki.isa.missing") == {}
