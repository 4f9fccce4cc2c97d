"""Programs that a stranger has written by hand are refused, with the reason."""

import contextlib
import functools
import json
import linecache
import operator
from pathlib import Path

import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from nkisim.program import ProgramError, data, replay, tape
from nkisim.program.calls import arguments_without_values

from .small import X, operations, program, scaled


def call(plain, name="tensor_scalar"):
    return operations(plain, name=name)[0]


def method(plain):
    return operations(plain, "method")[0]


def put(values, name, value):
    values[name] = value


def given(plain):
    return plain["tapes"]["0.0"]["given"][0]


def nested(depth):
    value = ["t"]
    for _ in range(depth):
        value = ["t", value]
    return value


FORGED = {
    "a function of Python": lambda p: put(call(p), 2, "builtins.eval"),
    "a function of os": lambda p: put(call(p), 2, "os.system"),
    "a function that nkisim has and NKI has not": lambda p: put(call(p), 2, "flag"),
    "a function of a later version": lambda p: put(call(p), 2, "nl.fori_loop"),
    "a version that there is not": lambda p: put(call(p), 2, "tensor_scalar 9.9.0"),
    "a name that is no text": lambda p: put(call(p), 2, 7),
    "an unknown kind of operation": lambda p: put(call(p), 0, "exec"),
    "an operation without its fields": lambda p: call(p).pop(),
    "a method that is not public": lambda p: put(method(p), 2, "tensor.__reduce__"),
    "the bytes of a tensor": lambda p: put(method(p), 2, "tensor._elements"),
    "its storage": lambda p: put(method(p), 2, "tensor.storage"),
    "a method of no class": lambda p: put(method(p), 2, "__class__.__init__"),
    "a method of another class": lambda p: put(method(p), 2, "grid.data"),
    "a method of a number": lambda p: put(method(p)[3], 0, 3),
    "an object that was not made": lambda p: put(call(p)[3], "data", ["r", 999]),
    "an object by a name": lambda p: put(call(p)[3], "data", ["r", "CORE"]),
    "a value of no kind": lambda p: put(call(p)[3], "data", ["object", "os"]),
    "a mapping in place of a value": lambda p: put(call(p)[3], "data", {"r": 1}),
    "an enum of Python": lambda p: put(call(p)[3], "engine", ["e", "HTTPStatus", "OK"]),
    "a member that an enum has not": lambda p: put(call(p)[3], "engine", ["e", "engine", "name"]),
    "an operator that there is not": lambda p: put(call(p)[3], "op0", ["o", "__class__"]),
    "an attribute of NumPy": lambda p: put(call(p)[3], "op0", ["u", "load"]),
    "a dtype of objects": lambda p: put(call(p)[3], "operand0", ["d", "object"]),
    "an array of objects": lambda p: put(
        call(p)[3], "operand0", ["a", "|O", ["l", 1], "AAAAAAAAAAA=", False]
    ),
    "an array with too few bytes": lambda p: put(
        call(p)[3], "operand0", ["a", "float32", ["l", 128, 128], "AAAA", False]
    ),
    "an array of a text": lambda p: put(call(p)[3], "operand0", ["a", "<U4", ["l", 0], "", False]),
    "a float by a text": lambda p: put(call(p)[3], "operand0", ["f", "1e308"]),
    "an index outside of a loop": lambda p: put(call(p)[3], "operand0", ["x", 0, 1, 1]),
    "an array that follows an index": lambda p: put(
        call(p)[3], "operand0", ["x", 0, ["f", "inf"], 1]
    ),
    "values nested without end": lambda p: put(call(p)[3], "operand0", nested(300)),
    "a file of the machine as a constant": lambda p: p["tapes"]["0.0"]["ops"].append(
        ["call", 0, "nl.shared_constant", {"constant": "/etc/passwd"}, None]
    ),
    "a position of no file": lambda p: put(p["places"][0], 0, 99),
    "a position without its loops": lambda p: p["places"][0].pop(),
    "a position that is no number": lambda p: put(p["places"][0], 1, "1"),
    "an operation at no position": lambda p: put(call(p), 1, 10**6),
    "more iterations than a loop has": lambda p: p["tapes"]["0.0"]["ops"].insert(
        3, operations(p, "turn")[0]
    ),
    "fewer iterations than a loop has": lambda p: p["tapes"]["0.0"]["ops"].remove(
        operations(p, "turn")[-1]
    ),
    "an end of no loop": lambda p: put(operations(p, "end")[0], 2, 12345),
    "a loop whose body was not recorded": lambda p: p["tapes"]["0.0"]["ops"].append(
        ["loop", 0, "nl.dynamic_range", {"start": 2}, 500, None]
    ),
    "a loop by another function": lambda p: p["tapes"]["0.0"]["ops"].append(
        ["loop", 0, "nl.load", {"src": ["r", 0]}, 500, [None, [], None]]
    ),
    "a result that was not made": lambda p: put(p["tapes"]["0.0"], "result", ["r", 777]),
    "a result of another shape": lambda p: put(p["tapes"]["0.0"]["ops"][0], -1, [1, 2]),
    "an end of a region": lambda p: p["tapes"]["0.0"]["ops"].append(["leave", 0]),
    "a claim of a rule that there is not": lambda p: (
        put(
            p["tapes"]["0.0"], "claim", ["Z999", "", [0, 1, []], ["", "", "", "", ""], [], None, {}]
        ),
        p["tapes"]["0.0"]["ops"].append(["stop", 0]),
    ),
    "a stop without a reason": lambda p: p["tapes"]["0.0"]["ops"].append(["stop", 0]),
    "a tape of no core": lambda p: put(p, "tapes", {}),
    "another format": lambda p: put(p, "program", 99),
    "a field more": lambda p: put(p, "code", "print(1)"),
    "a field less": lambda p: p.pop("places"),
    "a parameter that is no name": lambda p: put(p["parameters"][0], 0, "x) or eval("),
    "three cores": lambda p: put(p, "cores", 3),
    "another version": lambda p: put(p, "nki", "0.7.0"),
    "another generation": lambda p: put(p, "target", "gen2"),
    "a tensor without its dtype": lambda p: given(p).pop(),
    "a tensor of an unknown dtype": lambda p: put(given(p), 2, "float31"),
    "a tensor of a dtype that is no text": lambda p: put(given(p), 2, ["float32"]),
    "a tensor whose shape is a number": lambda p: put(given(p), 1, 128),
    "a tensor with a negative size": lambda p: put(given(p), 1, [128, -64]),
    "an argument of no kind": lambda p: put(given(p), 0, ["t"]),
    "other arguments": lambda p: put(p["tapes"]["0.0"]["given"][0], 1, [128, 32]),
}


def test_there_are_enough():
    assert len(FORGED) >= 30


@pytest.mark.parametrize("what", [what for what in FORGED if what.startswith("a tensor ")])
def test_forged_arguments_are_refused_before_a_call(what):
    """Commands make the arguments from them."""
    plain = program()
    FORGED[what](plain)
    with pytest.raises(ProgramError, match="no program"):
        nkisim.Program.load(json.dumps(plain).encode())


def leaves_of(data, path=()):
    """The numbers and texts in data, each with its path."""
    parts = data.items() if isinstance(data, dict) else enumerate(data)
    for key, part in parts:
        if isinstance(part, (dict, list)):
            yield from leaves_of(part, (*path, key))
        else:
            yield (*path, key), part


def test_a_field_of_another_type_is_refused_before_a_call():
    """Beside operations and values; numbers of files and of loops have to exist, too."""
    plain = program() | {"schedule": [["second", ["first"]]]}
    fields = {key: plain[key] for key in plain.keys() - {"tapes", "cores", "annotations"}}
    refused = 0
    for path, leaf in leaves_of(fields | {"places": plain["places"][:3]}):
        is_index = path[0] == "places" and (path[2] in (0, 2) or path[4:] == (0,))
        is_index |= path in (("defined", 0), ("parameters", 0, 1))
        others = [None, [], {}, 1.5, *([-1, 5, 10**6] if is_index else [])]
        others += [0 if isinstance(leaf, str) else "0"]
        if path[0] == "places" and path[2] == 2:
            others += [len(plain["places"][path[1]][3]) + 1]
        if path[:1] + path[2:] in (("parameters", 2), ("schedule", 1, 0)):
            continue  # a default is a value; the kernel reads what runs before an instruction
        for other in others:
            changed = json.loads(json.dumps(plain))
            functools.reduce(operator.getitem, path[:-1], changed)[path[-1]] = other
            with pytest.raises(ProgramError, match="no program"):
                nkisim.Program.from_bytes(json.dumps(changed).encode())
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("what", FORGED)
def test_it_is_refused(what):
    plain = program()
    FORGED[what](plain)
    with pytest.raises(ProgramError):
        nkisim.check(nkisim.Program.load(json.dumps(plain).encode()))(X)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"program": 1}', b"[" * 10**6])
def test_data_of_another_kind_is_refused(data):
    with pytest.raises(ProgramError, match="no program"):
        nkisim.Program.load(data)


def test_what_is_refused_computes_without_the_forgery():
    outputs = nkisim.simulate(nkisim.Program.load(json.dumps(program()).encode()))(X)
    assert np.array_equal(outputs, X * np.float32(2.0))


def test_a_program_cannot_show_a_file_that_was_not_handed_over(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("PASSWORD = 'hunter2'\n" * 50)
    plain = program()
    call(plain)[3]["operand0"] = ["t"]
    for number, folder in enumerate(("<program>", "<program 2>", "<program>")):
        plain["files"][0] = [str(secret), f"text {number % 2} of the program\n" * 50]
        loaded = nkisim.Program.load(json.dumps(plain).encode())
        report = nkisim.check(loaded, source=False)(X)
        assert {finding.file for finding in report.findings} == {f"{folder}/secret.py"}
        assert f"text {number % 2} of the program" in str(report)
        assert "hunter2" not in report.to_json() + str(report)
    assert not any(name == str(secret) for name in linecache.cache)


def test_a_program_prints_nothing(capsys):
    plain = program()
    plain["tapes"]["0.0"]["ops"].append(
        ["call", 0, "nl.device_print", {"print_prefix": "forged", "tensor": ["r", 0]}, None]
    )
    nkisim.check(nkisim.Program.load(json.dumps(plain).encode()))(X)
    assert capsys.readouterr() == ("", "")


# -- the format ------------------------------------------------------------------------------------

HBM = ["e", "MemoryRegion", "shared_hbm"]
OPERATIONS = [
    [
        "call",
        0,
        "nl.ndarray",
        {"shape": ["t", 128, 64], "dtype": ["d", "float32"], "buffer": HBM},
        1,
    ],
    ["method", 0, "tensor.__getitem__", [["r", 0], ["s", None, None, None]], {}, 2],
    ["range", 0, {"start": 2}, 3],
    ["turn", 0, 3],
    ["call", 0, "dma_copy", {"dst": ["r", 1], "src": ["r", 2]}, None],
    ["turn", 0, 3],
    ["end", 0, 3, True],
    ["free", None, 9],
]
TAPE = {"given": [["tensor", [128, 64], "float32"]], "result": ["r", 1], "claim": None}
FORMAT_1 = {
    **{"program": 1, "kernel": "copied", "target": "gen3", "nki": "0.3.0", "cores": None},
    **{"schedule": [], "parameters": [["x", 1]], "annotations": {}, "defined": [0, 1]},
    **{"files": [["copied.py", ""]], "places": [[0, 2, 0, []]]},
    **{"tapes": {"0.0": TAPE | {"ops": OPERATIONS}}},
}
GUIDE = Path(__file__).parents[3] / "docs/guides/let-a-program-write-kernels.md"


def test_what_an_earlier_version_has_saved_is_loaded():
    saved = json.dumps(FORMAT_1).encode()
    assert np.array_equal(nkisim.simulate(nkisim.Program.load(saved))(X), X)


def test_the_limits_are_those_of_the_guide():
    limits = data.MOST_BYTES >> 20, data.MOST_DEPTH, tape._MOST_OPERATIONS, replay.MOST_STEPS
    size, levels, count, steps = (f"{limit:,}" for limit in limits)
    text = " ".join(GUIDE.read_text().split())
    assert f"at most {size} MiB, is nested {levels} deep and has {count} recorded" in text
    assert f"a replay ends after {steps}." in text
    assert data.MOST_BYTES % 2**20 == 0


@pytest.mark.parametrize("levels", [60, 61])
def test_values_are_nested_up_to_the_limit(levels):
    plain = program()
    values = call(plain)[3]
    while depth(plain) < levels:
        values["data"] = ["t", values["data"]]
    with contextlib.nullcontext() if levels == 60 else pytest.raises(ProgramError, match="deeper"):
        nkisim.Program.load(json.dumps(plain).encode())


def with_options(x, scale, other, kind, name="unnamed"):
    return scaled(x)


def test_arguments_without_values_are_those_of_the_call():
    """Commands that get a program make them."""
    options = (2.5, None, nl.float32, "text")
    x, *others = arguments_without_values(nkisim.record(with_options)(X, *options))
    assert (x.shape, x.dtype, tuple(others)) == (X.shape, X.dtype, options)
    nested = nkisim.record(with_options)(X, (2.5, None), None, nl.float32, "")
    with pytest.raises(ProgramError, match="needs arguments"):
        arguments_without_values(nested)


def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


def depth(data):
    """How often lists and mappings are nested."""
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else None
    return 0 if parts is None else 1 + max(map(depth, parts), default=0)


def recorded():
    return nkisim.record(copied)(X)


def loaded():
    return nkisim.Program.load(recorded().to_bytes())


LIMITS = {
    "tape._MOST_OPERATIONS": (recorded, lambda plain: len(operations(plain))),
    "data.MOST_BYTES": (loaded, lambda plain: len(recorded().to_bytes())),
    "data.MOST_DEPTH": (loaded, depth),
    "replay.MOST_STEPS": (
        lambda: nkisim.simulate(loaded())(X),
        lambda plain: len(plain["tapes"]["0.0"]["ops"]),
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_program_may_be_as_large_as_its_limits(limit, monkeypatch):
    use, size_of = LIMITS[limit]
    size = size_of(json.loads(recorded().to_bytes()))
    monkeypatch.setattr(f"nkisim.program.{limit}", size)
    use()
    monkeypatch.setattr(f"nkisim.program.{limit}", size - 1)
    with pytest.raises(ProgramError, match=f"{size - 1:,}"):
        use()
