"""Forgeries: files whose code changes what the recording child does or sends, each with its fate.

A forgery is text behind the kernels of ``right.py``. Its fate is a kind of fault, ``NO_VERDICT``,
or ``HONEST``: it changed nothing in what was recorded, and passes with the honest kernel's results
and time.
"""

NO_VERDICT = "no verdict"
HONEST = "honest"

AS_IT_IS = """
@nki.jit
def cheat(a, b):
    return matmul(a, b)
"""

#: A kernel that writes the answer into a tensor's inside, found by ``inside``.
BY_INSIDE = """
@nki.jit
def cheat(a, b):
    tile = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    out = stored(tile, a.dtype)
    inside(out)[...] = inside(a).T @ inside(b)
    return out
"""

CHILD = AS_IT_IS + "\nimport nkisim.judging.author as author\n"

#: Replaces the answer that has the program by one that ``edit`` changes.
EDITED = (
    CHILD
    + """
import json
import numpy as np

def forged(args, kwargs):
    data = json.loads(honest(args, kwargs)["program"].tobytes())
    edit(data, data["tapes"]["0.0"]["ops"])
    return {"program": np.frombuffer(json.dumps(data).encode(), np.uint8)}

honest = author._ANSWERS["record"]
author._ANSWERS["record"] = forged
"""
)


def answered(text):
    """A forgery that answers every recording with an expression."""
    return CHILD + f"\nauthor._ANSWERS['record'] = lambda args, kwargs: {text}\n"


ZEROS = """
import numpy as np

@nki.jit
def zeros(a, b):
    tile = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return stored(tile, a.dtype)
"""

INSIDES = {
    "the inside by attrgetter": "import operator\ninside = operator.attrgetter('_elements')",
    "the inside by a formatter": (
        "import string\n"
        "def inside(x):\n"
        "    return string.Formatter().get_field('0._elements', (x,), {})[0]"
    ),
    "the inside by an alias": "read = getattr\ndef inside(x):\n    return read(x, '_elements')",
    "the inside by a partial": (
        "import functools\n"
        "read = functools.partial(getattr)\n"
        "def inside(x):\n"
        "    return read(x, '_elements')"
    ),
    "the inside by a pattern": (
        "def inside(x):\n"
        "    match x:\n"
        "        case object(_elements=found):\n"
        "            return found"
    ),
    "the inside by an annotation": (
        "import typing\n"
        "def inside(x):\n"
        "    global now\n"
        "    now = x\n"
        "    hints = typing.get_type_hints(Holder, globals())\n"
        "    return hints['x'].__args__[0]\n"
        "class Holder:\n"
        "    x: 'typing.Annotated[typing.Literal[now._elements], 0]'"
    ),
}

#: A name of a table is out of sight of the rules about the source.
HIDDEN = "\ninside = {'inside': inside}['inside']\n"
FORGERIES = {name: ("result", f"\n{text}\n{HIDDEN}{BY_INSIDE}") for name, text in INSIDES.items()}
FORGERIES |= {
    "an instruction replaced in the else of a main": (
        "M002",
        AS_IT_IS
        + """
if __name__ == "__main__":
    pass
else:
    nisa.nc_matmul = lambda **given: None
""",
    ),
    "code in an annotation": (
        "result",
        CHILD
        + ZEROS
        + """
import typing

class Holder:
    x: "author._LOADED.append(author._Loaded(author.as_kernel(zeros), OPTIONS)) or int"

class Loaded(list):
    def append(self, found):
        global OPTIONS
        OPTIONS = found.options
        super().append(found)
        if len(self) == 1:
            typing.get_type_hints(Holder, globals())
            self.reverse()

author._LOADED = Loaded()
""",
    ),
    "an answer of no time": (
        HONEST,
        CHILD
        + """
author._ANSWERS["profile"] = lambda **given: {"latency_us": 0.0}
author._ANSWERS["run"] = lambda **given: {"outputs": [], "findings": []}
author.profile = lambda *given, **options: lambda *args, **kwargs: None
""",
    ),
    "the costs replaced": (
        HONEST,
        AS_IT_IS
        + """
import dataclasses
import nkisim.arch.timing as timing

for name, value in vars(timing).copy().items():
    if type(value) in (int, float):
        setattr(timing, name, 0)
""",
    ),
    "the program of another kernel": (
        "result",
        CHILD
        + ZEROS
        + """
import nkisim

author._ANSWERS["record"] = lambda args, kwargs: {
    "program": np.frombuffer(nkisim.record(zeros)(*args, **kwargs).to_bytes(), np.uint8)
}
""",
    ),
    "the run replaced": (
        "result",
        CHILD
        + ZEROS
        + """
class Other(author.Recording):
    def __init__(self, kernel, *given):
        super().__init__(author.as_kernel(zeros), *given)

author.Recording = Other
""",
    ),
    "a recorder that leaves the products out": (
        "M002",
        AS_IT_IS
        + """
from nkisim.program.tape import Tape

def finished(self):
    return [op for op in whole(self) if "nc_matmul" not in op]

whole, Tape.finished = Tape.finished, finished
""",
    ),
    "a recorder of other values": (
        "result",
        AS_IT_IS
        + """
import nkisim.program.tape as tape
from nkisim.spec.ops import Op

@nki.jit
def cheat(a, b):
    return stored(nl.multiply(product(a, b, a.dtype), 2.0), a.dtype)

def other(value, number_of):
    return whole(0.5 if value == 1.0 else value, number_of)

whole, tape.encoded = tape.encoded, other
""",
    ),
    "bytes of another program": (
        "no verdict",
        AS_IT_IS
        + """
from nkisim.program import Program

Program.to_bytes = lambda self: b'{"program": 1}'
""",
    ),
    "a function that NKI does not have": (
        NO_VERDICT,
        EDITED + "\ndef edit(data, ops):\n    ops.append(['call', 0, 'os.system', {}, None])\n",
    ),
    "a method that NKI does not have": (
        NO_VERDICT,
        EDITED
        + """
def edit(data, ops):
    ops.append(["method", 0, "tensor._elements", [["r", 0]], {}, 90000])
""",
    ),
    "a value that NKI does not have": (
        NO_VERDICT,
        EDITED
        + """
def edit(data, ops):
    ops.append(["call", 0, "nl.load", {"src": ["pickle", "cos"]}, None])
""",
    ),
    "functions of a later version": (
        NO_VERDICT,
        EDITED
        + """
def edit(data, ops):
    for op in ops:
        if op[0] == "call":
            op[2] += " 0.7.0"
""",
    ),
    "a constant that is a file": (
        NO_VERDICT,
        EDITED
        + """
def edit(data, ops):
    ops.insert(0, ["call", 0, "nl.shared_constant", {"constant": "/tmp/reference.npy"}, 90000])
""",
    ),
    "tiles that are freed and used": (
        NO_VERDICT,
        EDITED
        + """
def edit(data, ops):
    for at, op in reversed([*enumerate(ops)]):
        if op[0] == "call":
            ops.insert(at + 1, ["free", None, op[-1]])
""",
    ),
    "a program without cores": (
        NO_VERDICT,
        EDITED + "\ndef edit(data, ops):\n    data['tapes'] = {}\n",
    ),
    "a program for another version": (
        NO_VERDICT,
        EDITED + "\ndef edit(data, ops):\n    data['nki'] = '0.7.0'\n",
    ),
    "a program of a kernel that prints as code": (
        NO_VERDICT,
        EDITED + "\ndef edit(data, ops):\n    data['kernel'] = 'x():\\n    import os\\ndef y'\n",
    ),
    "a program without end": (
        "time",
        EDITED
        + """
def edit(data, ops):
    body = [None, [], None]
    ops.insert(0, ["loop", 0, "nl.dynamic_range", {"start": 0, "stop": 10**9}, 90000, body])
""",
    ),
    "every position at a comment that ignores": (
        "M006",
        """
@nki.jit
def cheat(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0:63], src=product(a, b, a.dtype)[0:63])
    return out  # nkisim: ignore[M006]
"""
        + EDITED[len(AS_IT_IS) :]
        + """
def edit(data, ops):
    last = max(op[1] for op in ops if op[1] is not None)
    for op in ops:
        op[1] = last
""",
    ),
    "a stop that is only a note": (
        "stopped",
        EDITED
        + """
def edit(data, ops):
    ops[:] = [["stop", 0]]
    claim = ["M006", "text", [0, 1, []], [""] * 5, [], "note", {}]
    data["tapes"]["0.0"]["claim"] = claim
""",
    ),
    "smaller arguments than asked for": (
        HONEST,
        CHILD
        + """
import numpy as np

def small(module, source, shapes):
    call, missing = whole(module, source, shapes)
    one = np.ones((1, 1), np.float32)
    return call._replace(kwargs={"a": one, "b": one}), missing

whole, author.generated_call = author.generated_call, small
""",
    ),
    "an answer before its question": (
        NO_VERDICT,
        CHILD
        + """
import numpy as np
import nkisim.judging.boot as boot

one = np.ones((128, 1), np.float32)
boot.send(boot._CHANNEL[0], {"answer": {"cases": [[((one, one), {})]]}})
""",
    ),
    "values that are read while tracing": (
        "result",
        "\nimport operator\nimport numpy as np\ninside = operator.attrgetter('_elements')\n"
        + """
def of(a, b):
    return np.ascontiguousarray(np.array(inside(a)).T @ np.array(inside(b)))

answer = {"answer": of}["answer"]

@nki.jit
def cheat(a, b):
    return stored(nl.load(nl.shared_constant(answer(a, b))), a.dtype)
""",
    ),
    "results that are remembered": (
        "result",
        """
import numpy as np

A, B = np.random.default_rng(1).uniform(-1, 1, (2, 256, 64)).astype(np.float32)
KNOWN = np.ascontiguousarray(A.T @ B)

@nki.jit
def cheat(a, b):
    return stored(nl.load(nl.shared_constant(KNOWN)), a.dtype)

def nkisim_examples():
    return [(cheat, (A, B))]
""",
    ),
}
NO_ANSWERS = {
    "no answer": "None",
    "a text as the program": "{'program': 'text'}",
    "an exception on no line": "{'raised': 5, 'line': 'x'}",
    "findings that are no errors": "{'findings': []}",
    "a finding of no rule": (
        "{'findings': [{'rule': 'X', 'file': '', 'line': 1, 'message': '', 'fix': '', "
        "'rewrite': None, 'severity': 'note'}]}"
    ),
}
FORGERIES |= {name: (NO_VERDICT, answered(text)) for name, text in NO_ANSWERS.items()}
