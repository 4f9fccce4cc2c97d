"""The text of a program: a kernel that asks the same of NKI."""

import ast
import base64
import inspect
import json

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.dtypes import DType, as_dtype
from nkisim.program.calls import leaves
from nkisim.program.operations import FIELDS, names_of
from nkisim.trials.running import arrays_of
from nkisim.typing import TensorSpec
from nkisim.versions import judged_by
from scripts import imported

from .small import X, operations, program, scaled
from .test_recording import COUNT, counted, stopping_early, with_a_constant
from .test_values import OBJECT, VALUES, encoded, same


def with_views(x):
    """Writes 1, 2, ... through views of every form."""
    out, tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
    views = [
        *(tile[:, 1:63:2], tile[96:, ::4], tile[32:64], tile[0:1, -8:], tile[...], tile[:, 5]),
        *(
            tile[64:96, nl.ds(8, 16)],
            tile.ap([[64, 32], [2, 8]], 3),
            tile.reshape((128, 8, 8))[:, 1],
        ),
        *(tile.view(nl.int32)[:, 40:41], tile[()][:, 7:9]),
    ]
    for number, view in enumerate(views):
        nisa.memset(dst=view, value=number + 1)
    with nl.no_reorder():
        nisa.activation(dst=tile, op=nl.exp, data=tile, scale=-0.5)
        with nl.no_reorder():
            limits = {"op0": nl.minimum, "operand0": float("inf")}
            nisa.tensor_scalar(dst=tile, data=tile, **limits, engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=tile)
    return out


def with_loops(x, count):
    """Loops of each kind; their indices are objects, integers, or not used."""
    out, tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
    register, more = nisa.register_alloc(0), nisa.register_alloc(1)
    nisa.register_load(dst=register, src=count)
    for i in nl.dynamic_range(1, register):
        nisa.tensor_scalar(
            dst=tile[:, i : i + 2], data=tile[:, i : i + 2], op0=nl.add, operand0=1.0
        )
    for i in nl.dynamic_range(0, 8, 2):
        nisa.memset(dst=tile[8 * i : 8 * i + 8, 3 * i + 1 : 40 - i], value=i)
        for j in nl.dynamic_range(2):
            nisa.memset(dst=tile[8 * i : 8 * i + 8, 50 + j : 51 + j], value=j - i)
    for _ in nl.dynamic_range(2):
        for _ in range(3):  # one of them fits at a time
            nisa.memset(dst=nl.ndarray((128, 30_000), dtype=nl.float32, buffer=nl.sbuf), value=0)
    for _ in nl.dynamic_range(2):
        pass
    while more:
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        nisa.register_move(more, nisa.register_alloc(0))
    nisa.dma_copy(dst=out, src=tile)
    return out


def with_bodies(x):
    """Loops whose bodies are functions, handles, tiles of tensors and numbers of the device."""
    out, tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
    met = []

    def rows(i):
        first = nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.tensor_copy(dst=tile[:, 0:8], src=tile[:, 8:16]).depends_on(first)
        nl.fori_loop(0, 2, lambda j: met.append(nisa.memset(dst=tile[0:32], value=2.0)))

    def until(register):
        nisa.register_move(register, 0)
        return register

    nl.fori_loop(0, 3, rows)
    nl.while_loop(nisa.register_alloc(1), until)
    grid = nl.tiles(x, tile_shape=(64, 64))
    nisa.dma_copy(dst=tile[0:64], src=grid[1].data)
    nisa.dma_copy(dst=out, src=tile)
    return out


def of_a_list(several):
    out = nl.ndarray(X.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.load(several[1]))
    return out


def with_scalars(x, count):
    number = nisa.scalar_load(nl.load(count))
    for some in (number + 2, 2 - number, -number * 3, 7 * (number - 1), 1 + number):
        nisa.scalar_store(nl.load(count), some)
    return nl.load(x)


def made_of(kernel, tmp_path, **options):
    """Return the kernel that a program is printed as."""
    (tmp_path / "printed_program.py").write_text(kernel.source())
    with imported(tmp_path / "printed_program.py") as module:
        return getattr(module, kernel.kernel.rpartition(".")[2])


def asked(program):
    """Return the operations of a program's tape, without those that only describe the source.

    Objects and loops are numbered in their order.
    """
    tape = json.loads(program.to_bytes())["tapes"]["0.0"]
    numbers = {n: n for n, given in enumerate(tape["given"])}

    def number(part):
        if type(part) is list:
            return [number(one) for one in part]
        return numbers.setdefault(part, len(numbers)) if type(part) is int else part

    def value(part):
        if type(part) is dict:
            return {name: value(one) for name, one in part.items()}
        if type(part) is not list:
            return part
        if part[:1] in (["r"], ["x"]):
            return [part[0], number(part[1]), *map(value, part[2:])]
        return [*map(value, part)]

    def body(part):
        return part and [number(part[0]), several(part[1]), value(part[2])]

    forms = {"exact": number, "value": value, "values": value, "body": body}

    def several(ops):
        return [
            [kind, *(forms[form](part) for form, part in zip(FIELDS[kind], fields, strict=True))]
            for kind, _, *fields in ops
            if kind not in ("range", "turn", "end", "free")
        ]

    return several(tape["ops"]), value(tape["result"])


@pytest.mark.parametrize(
    ("kernel", "args", "nki"),
    [
        (scaled, (X,), "0.3.0"),
        (counted, (X, COUNT), "0.3.0"),
        (stopping_early, (X,), "0.3.0"),
        (with_a_constant, (X,), "0.3.0"),
        (with_views, (X,), "0.3.0"),
        (with_loops, (X, COUNT), "0.3.0"),
        (of_a_list, ([X, X + 1],), "0.3.0"),
        (with_bodies, (X,), "0.7.0"),
        (with_scalars, (X, COUNT), "0.7.0"),
    ],
)
def test_the_text_of_a_program_asks_the_same(kernel, args, nki, tmp_path):
    program = nkisim.record(kernel, nki=nki)(*args)
    printed = made_of(program, tmp_path)
    names = [*inspect.signature(kernel).parameters][: len(args)]
    if kernel is of_a_list:
        names = ["argument_0", "argument_1"]
    assert [parameter.name for parameter in printed.parameters] == names
    assert asked(nkisim.record(printed, nki=nki)(*leaves(args))) == asked(program)
    files = [file for file, _ in program.files]
    found, wanted = (
        nkisim.check(one, nki=nki, source=False)(*args)
        for one in (nkisim.Program.load(program, files), kernel)
    )
    assert found.stopped == wanted.stopped == ""
    assert [str(used) for used in found.memory] == [str(used) for used in wanted.memory]
    pairs = zip(arrays_of(found.outputs), arrays_of(wanted.outputs), strict=True)
    assert all(one.tobytes() == other.tobytes() for one, other in pairs)


def test_the_names_of_a_program_are_those_of_its_calls_and_loops():
    """Those of the bodies of loops, too; commands show what a program calls."""
    program = nkisim.record(with_loops)(X, COUNT)
    found = list(names_of(program.tapes["0.0"]["ops"]))
    calls = [node for node in ast.walk(ast.parse(program.source())) if isinstance(node, ast.Call)]
    called = sorted(ast.unparse(node.func).rpartition(".")[2] for node in calls)
    assert sorted(name.rpartition(".")[2] for name in found) == called


def test_each_core_has_a_function_of_its_own():
    text = nkisim.record(nkisim.jit(on_its_half)[2])(X).source()
    found = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert found.keys() == {"on_its_half_0_0", "on_its_half_0_1"}
    assert ["0:64" in ast.unparse(node) for node in found.values()] == [True, False]


def on_its_half(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = slice(64 * nl.program_id(0), 64 * nl.program_id(0) + 64)
    nl.store(out[rows], nl.load(x[rows]))
    return out


def refused_in_a_loop(x):
    for _ in nl.dynamic_range(0, 8, -1):
        nl.load(x)


def test_the_text_of_a_kernel_that_is_refused_says_where():
    text = nkisim.record(refused_in_a_loop)(X).source()
    assert "# stops here: L" in text
    ast.parse(text)


def test_a_value_is_printed_as_an_expression_of_it():
    """As the argument of a call. Dtypes print by their names in NKI."""
    names = {"np": np, "ml_dtypes": ml_dtypes, "base64": base64}
    names |= {"nl": nl, "nisa": nisa, "ncc": ncc, "v7": OBJECT}
    plain = program()
    for wanted in VALUES:
        if isinstance(wanted, TensorSpec):
            continue  # of annotations
        data = encoded(wanted, lambda part: 7 if part is OBJECT else None)
        operations(plain, name="tensor_scalar")[0][3] = {"data": data}
        tree = ast.parse(nkisim.Program.from_bytes(json.dumps(plain).encode()).source())
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and node in tree.body:
                names[node.targets[0].id] = eval(ast.unparse(node.value), names)
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        call = next(node for node in calls if ast.unparse(node.func) == "nisa.tensor_scalar")
        with judged_by("0.7.0"):
            found = eval(ast.unparse(call.keywords[0].value), names)
        if isinstance(wanted, (DType, type, np.dtype)):
            found, wanted = as_dtype(found), as_dtype(wanted)
        assert same(found, wanted), wanted
