"""Handles of instructions, and the edges that they add to the schedule."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from releases import VERSIONS

X = np.ones((4, 8), np.float32)


def codes(body, nki="0.6.0", **options):
    """Rules that a kernel breaks that runs ``body`` with a tile."""

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        body(tile)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return nkisim.check(kernel, source=False, lnc=1, nki=nki, **options)(X).codes


def double(tile):
    return nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)


@each_case("nki", VERSIONS)
def test_instructions_return_handles_from_0_6_on(nki, monkeypatch):
    met = []

    def body(tile):
        register = nisa.register_alloc(1)
        one = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        met.append(double(tile))
        met.append(nisa.register_move(register, 3))
        met.append(nisa.register_store(one, register))
        met.append(nisa.register_load(register, one))

    assert codes(body, nki) == set()
    if nki >= "0.6.0":
        monkeypatch.setenv("NKISIM_NKI", nki)
        assert [type(handle) for handle in met] == [nisa.NkiInstruction] * 4
    else:
        assert met == [None] * 4


@each_case("nki", VERSIONS)
def test_the_class_is_in_the_module_from_0_6_on(nki, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", nki)
    assert hasattr(nisa, "NkiInstruction") == (nki >= "0.6.0")
    assert ("NkiInstruction" in dir(nisa)) == (nki >= "0.6.0")


def chained(tile):
    a, b = double(tile), double(tile)
    c = double(tile)
    assert c.depends_on(b, a) is c
    assert c.depends_on(b).depends_on(a) is c


def in_static_loops(tile):
    first = double(tile)
    for _ in range(2):
        last = double(tile).depends_on(first)
    double(tile).depends_on(last)


def from_outside(tile):
    before = double(tile)
    nl.fori_loop(0, 3, lambda i: none(double(tile).depends_on(before)))


def in_one_iteration(tile):
    def body(i):
        first = double(tile)
        double(tile).depends_on(first)

    nl.fori_loop(0, 3, body)


def from_an_outer_loop(tile):
    def outer(i):
        first = double(tile)
        nl.fori_loop(0, 2, lambda j: none(double(tile).depends_on(first)))

    nl.fori_loop(0, 2, outer)


def none(_):
    """Nothing, whatever is passed."""


@each_case("body", [chained, in_static_loops, from_outside, in_one_iteration, from_an_outer_loop])
def test_edges_that_a_semaphore_can_implement(body):
    assert codes(body) == set()


def backwards(tile):
    first, second = double(tile), double(tile)
    first.depends_on(second)


def on_itself(tile):
    only = double(tile)
    only.depends_on(only)


def out_of_a_loop(tile):
    met = []
    nl.fori_loop(0, 2, lambda i: met.append(double(tile)))
    double(tile).depends_on(met[-1])


def between_iterations(tile):
    met = []

    def body(i):
        made = double(tile)
        if met:
            made.depends_on(met[-1])
        met.append(made)

    nl.fori_loop(0, 2, body)


def between_loops(tile):
    met = []
    nl.fori_loop(0, 1, lambda i: met.append(double(tile)))
    nl.fori_loop(0, 1, lambda i: none(double(tile).depends_on(met[0])))


def out_of_a_while_loop(tile):
    met = []

    def body(r):
        met.append(double(tile))
        nisa.register_move(r, 0)
        return r

    nl.while_loop(nisa.register_alloc(1), body)
    double(tile).depends_on(met[0])


def out_of_a_range(tile):
    met = []
    for _ in nl.dynamic_range(2):
        met.append(double(tile))
    double(tile).depends_on(met[0])


@each_case(
    "body",
    [
        backwards,
        on_itself,
        out_of_a_loop,
        between_iterations,
        between_loops,
        out_of_a_while_loop,
        out_of_a_range,
    ],
)
def test_edges_that_deadlock_or_come_to_nothing(body):
    assert codes(body) == {"R011"}


@each_case("producer", [None, 3, "name"])
def test_only_handles_can_be_waited_for(producer):
    with pytest.raises(TypeError, match="handles of instructions"):
        nkisim.simulate(lambda x: none(double(nl.load(x)).depends_on(producer)), nki="0.6")(X)


# -- order of accesses -----------------------------------------------------------------------------


def scattered(x, indices, edges):
    """Writes rows by index and reads them, with edges between the two."""
    kept, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    tile, again, where = nl.load(x), nl.load(x), nl.load(indices)
    nisa.dma_copy(dst=kept, src=tile)
    rows = kept.ap([[8, 4], [1, 8]], vector_offset=where, indirect_dim=0)
    written = nisa.dma_copy(dst=rows, src=tile)
    between = double(tile)
    read = nisa.dma_copy(dst=again, src=kept)
    if edges == "direct":
        read.depends_on(written)
    elif edges == "through another":
        read.depends_on(between)
        between.depends_on(written)
    elif edges == "to another":
        read.depends_on(between)
    nisa.dma_copy(dst=out, src=again)
    return out


@each_case(
    "edges, ordered",
    [("none", False), ("direct", True), ("through another", True), ("to another", False)],
)
def test_edges_order_accesses_by_index(edges, ordered):
    indices = np.arange(4, dtype=np.int32)[:, None]
    report = nkisim.check(scattered, source=False, lnc=1, nki="0.6.0")(X, indices, edges)
    assert ("R004" in report.codes) == (not ordered), str(report)
    for finding in report.findings:
        if finding.rule.id == "R004":
            assert finding.place.text.startswith("read = ")
            assert "depends_on" in finding.fix


def aliased(x, edges, **kind):
    """Writes a tile and reads another one at the same address."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first, second = (
        nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0)) for _ in range(2)
    )
    written = nisa.dma_copy(dst=first, src=x)
    read = nisa.dma_copy(dst=out, src=second)
    if edges:
        read.depends_on(written, **kind)
    return out


def test_edges_order_accesses_through_two_tensors():
    check = nkisim.check(aliased, source=False, lnc=1, nki="0.6.0")
    assert "R001" in check(X, False).codes
    assert "R001" not in check(X, True).codes


@each_case(
    "kind, ordered",
    [({}, True), ({"kind": "runtime"}, True), ({"kind": "schedule"}, False)],
)
def test_only_edges_of_the_device_order_two_engines(kind, ordered):
    """An edge of the schedule orders the issue: engines may still overlap."""

    def kernel(x):
        return aliased(x, True, **{key: nisa.dependency[name] for key, name in kind.items()})

    found = nkisim.check(kernel, source=False, lnc=1, nki="0.7")(X).codes
    assert ("R001" in found) == (not ordered), found
