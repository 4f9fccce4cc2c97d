"""What comes of reading what nobody wrote: a warning while nobody uses it, else an error.

Every kernel marks with ``# here`` the line at which garbage is read first. The finding is always
there; its severity is that of the consequence.
"""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from each_case import each_case

GOOD, ROWS, COLUMNS = 20, 32, 64
X = np.random.default_rng(7).standard_normal((GOOD, COLUMNS)).astype(np.float32)
EITHER = pytest.mark.parametrize("values", [True, False], ids=["values", "no-values"])


def sbuf(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def hbm(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def ragged(x, rows=ROWS):
    """A tile of which only the first rows are loaded."""
    tile = sbuf(rows, COLUMNS)
    nisa.dma_copy(dst=tile[0 : x.shape[0]], src=x)
    return tile


def stored(tile):
    out = hbm(*tile.shape, dtype=tile.dtype)
    nisa.dma_copy(dst=out, src=tile)
    return out


def marked_line(kernel):
    lines, first = inspect.getsourcelines(kernel)
    (found,) = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    return found


def birth(kernel, *inputs, rule="M001", **options):
    """The one finding of a run, which must be at the marked line."""
    report = nkisim.check(kernel, **options, detect=())(*inputs)
    (finding,) = report.findings
    assert (finding.rule.id, finding.line) == (rule, marked_line(kernel)), str(report)
    return finding


# -- without a consequence -------------------------------------------------------------------------


def unread(x):
    tile, result = ragged(x), sbuf(ROWS, COLUMNS)
    nisa.tensor_scalar(dst=result, data=tile, op0=nl.add, operand0=1.0)  # here
    return stored(tile[0:GOOD])


def only_good_rows_are_stored(x):
    tile, total = sbuf(ROWS, COLUMNS), sbuf(ROWS, 1)
    nisa.tensor_scalar(dst=tile, data=ragged(x), op0=nl.add, operand0=3.0)  # here
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    return stored(tile[0:GOOD])


def only_good_columns_are_stored(x):
    tile, result = sbuf(GOOD, 2 * COLUMNS), sbuf(GOOD, 2 * COLUMNS)
    nisa.dma_copy(dst=tile[:, 0:COLUMNS], src=x)
    nisa.activation(dst=result, op=nl.exp, data=tile)  # here
    nisa.tensor_tensor(dst=result, data1=result, data2=result, op=nl.add)
    return stored(result[:, 0:COLUMNS])


def a_tensor_that_is_not_returned(x):
    tile = ragged(x)
    nisa.dma_copy(dst=hbm(ROWS, COLUMNS), src=tile)  # here
    return stored(tile[0:GOOD])


def overwritten_later(x):
    tile, result = ragged(x), sbuf(ROWS, COLUMNS)
    nisa.tensor_copy(dst=result, src=tile)  # here
    nisa.memset(dst=result, value=0.0)
    return stored(result)


def overwritten_output(x):
    tile, out = ragged(x), hbm(ROWS, COLUMNS)
    nisa.dma_copy(dst=out, src=tile)  # here
    nisa.memset(dst=tile, value=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


def good_rows_of_a_product(x):
    tile, turned = ragged(x), nl.ndarray((COLUMNS, ROWS), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile, engine=nisa.tensor_engine)  # here
    left, right = sbuf(COLUMNS, ROWS), sbuf(COLUMNS, 16)
    nisa.tensor_copy(dst=left, src=turned)
    nisa.memset(dst=right, value=1.0)
    product = nl.ndarray((ROWS, 16), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right, accumulate=False)
    nisa.nc_matmul(dst=product, stationary=left, moving=right, accumulate=True)
    result = sbuf(ROWS, 16)
    nisa.tensor_copy(dst=result, src=product)
    return stored(result[0:GOOD])


def good_columns_of_a_product(x):
    left, right = sbuf(GOOD, 16), sbuf(GOOD, 2 * COLUMNS)
    nisa.memset(dst=left, value=1.0)
    nisa.dma_copy(dst=right[:, 0:COLUMNS], src=x)
    product = nl.ndarray((16, 2 * COLUMNS), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)  # here
    result = sbuf(16, 2 * COLUMNS)
    nisa.tensor_copy(dst=result, src=product)
    return stored(result[:, 0:COLUMNS])


def garbage_as_an_integer(x):
    tile, result = ragged(x), sbuf(ROWS, COLUMNS, dtype=nl.int32)
    nisa.tensor_copy(dst=result, src=tile)  # here
    return stored(result[0:GOOD])


def a_chain_that_is_begun_again(x):
    tile, sink, total = ragged(x), sbuf(ROWS, COLUMNS), sbuf(ROWS, 1)
    command = nisa.reduce_cmd.reset_reduce
    nisa.activation(dst=sink, op=nl.exp, data=tile, reduce_op=nl.add, reduce_cmd=command)  # here
    nisa.memset(dst=tile, value=0.0)
    nisa.activation(
        dst=sink, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total, reduce_cmd=command
    )
    return stored(total)


HARMLESS = [
    unread,
    only_good_rows_are_stored,
    only_good_columns_are_stored,
    a_tensor_that_is_not_returned,
    overwritten_later,
    overwritten_output,
    good_rows_of_a_product,
    good_columns_of_a_product,
    garbage_as_an_integer,
    a_chain_that_is_begun_again,
]


@EITHER
@each_case("kernel", HARMLESS, ids=lambda kernel: kernel.__name__)
def test_garbage_that_nobody_uses_is_a_warning(kernel, values):
    finding = birth(kernel, X, values=values)
    assert finding.severity == "warning"
    assert "nothing has written" in finding.message


@each_case("kernel", HARMLESS, ids=lambda kernel: kernel.__name__)
def test_strict_goes_on_and_the_outputs_are_whole(kernel):
    out = nkisim.simulate(kernel, strictness="strict")(X)
    assert np.isfinite(out).all()


def test_the_good_rows_are_computed():
    out = nkisim.simulate(only_good_rows_are_stored)(X)
    shifted = X.astype(np.float64) + 3
    np.testing.assert_allclose(out, shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("buffer", ["psum", "private_hbm"])
@EITHER
def test_every_memory(buffer, values):
    def kernel(x):
        tile = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=getattr(nl, buffer))
        move = nisa.tensor_copy if buffer == "psum" else nisa.dma_copy
        copied = sbuf(ROWS, COLUMNS)
        move(dst=copied, src=tile)  # here
        return stored(nl.load(x))

    rule = {"psum": "M002", "private_hbm": "M005"}[buffer]
    assert birth(kernel, X, rule=rule, values=values).severity == "warning"


# -- with one --------------------------------------------------------------------------------------


def through_three_instructions(x):
    tile, total, scaled = ragged(x), sbuf(ROWS, 1), sbuf(ROWS, COLUMNS)
    nisa.tensor_reduce(dst=total, op=nl.maximum, data=tile, axis=1)  # here
    nisa.reciprocal(dst=total, data=total)
    nisa.memset(dst=scaled, value=1.0)
    nisa.tensor_scalar(dst=scaled, data=scaled, op0=nl.multiply, operand0=total)
    return stored(scaled)


def through_a_product(x):
    left, right = sbuf(ROWS, 16), sbuf(ROWS, COLUMNS)
    nisa.memset(dst=left, value=1.0)
    nisa.dma_copy(dst=right[0:GOOD], src=x)
    product, result = nl.ndarray((16, COLUMNS), dtype=nl.float32, buffer=nl.psum), sbuf(16, COLUMNS)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)  # here
    nisa.tensor_copy(dst=result, src=product)
    return stored(result)


def through_a_sum(x):
    left, right, good = sbuf(ROWS, 16), sbuf(ROWS, COLUMNS), sbuf(ROWS, COLUMNS)
    nisa.memset(dst=left, value=1.0)
    nisa.memset(dst=good, value=1.0)
    nisa.dma_copy(dst=right[0:GOOD], src=x)
    product, result = nl.ndarray((16, COLUMNS), dtype=nl.float32, buffer=nl.psum), sbuf(16, COLUMNS)
    nisa.nc_matmul(dst=product, stationary=left, moving=right, accumulate=False)  # here
    nisa.nc_matmul(dst=product, stationary=left, moving=good, accumulate=True)
    nisa.tensor_copy(dst=result, src=product)
    return stored(result)


def through_a_transpose(x):
    tile, turned = ragged(x), sbuf(32, 32)
    nisa.nc_transpose(dst=turned, data=tile[:, 0:32], engine=nisa.vector_engine)  # here
    return stored(turned)


def through_another_shape(x):
    tile, scratch = ragged(x), hbm(ROWS * 2, COLUMNS // 2)
    nisa.dma_copy(dst=scratch, src=tile)  # here
    again = sbuf(ROWS * 2, COLUMNS // 2)
    nisa.dma_copy(dst=again, src=scratch)
    return stored(again)


def through_a_shuffle(x):
    tile, moved = ragged(x), sbuf(ROWS, COLUMNS)
    nisa.nc_stream_shuffle(dst=moved, src=tile, shuffle_mask=list(range(31, -1, -1)))  # here
    return stored(moved[0:4])


def through_the_registers_of_an_engine(x):
    tile, sink, total = ragged(x), sbuf(ROWS, COLUMNS), sbuf(ROWS, 1)
    first, then = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce
    nisa.activation(dst=sink, op=nl.exp, data=tile, reduce_op=nl.add, reduce_cmd=first)  # here
    nisa.memset(dst=tile, value=0.0)
    nisa.activation(
        dst=sink, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total, reduce_cmd=then
    )
    return stored(total)


def into_an_argument(x):
    tile = ragged(x, 2 * GOOD)
    nisa.dma_copy(dst=x, src=tile[GOOD : 2 * GOOD])  # here
    return x


HARMFUL = [
    through_three_instructions,
    through_a_product,
    through_a_sum,
    through_a_transpose,
    through_another_shape,
    through_a_shuffle,
    through_the_registers_of_an_engine,
    into_an_argument,
]


@EITHER
@each_case("kernel", HARMFUL, ids=lambda kernel: kernel.__name__)
def test_garbage_that_reaches_an_output_is_an_error_where_it_was_read(kernel, values):
    finding = birth(kernel, X.copy(), values=values)
    assert finding.severity == "error"
    assert any("output 0" in note for note in finding.notes)


@each_case("kernel", HARMFUL, ids=lambda kernel: kernel.__name__)
def test_strict_stops_where_garbage_comes_out(kernel):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(kernel, strictness="strict")(X.copy())
    assert caught.value.rule_id == "M001"
    assert caught.value.finding.line == marked_line(kernel)
    assert "output 0" in str(caught.value)
    assert not any("M001" in note for note in getattr(caught.value, "__notes__", []))


def test_simulate_warns_of_errors_only():
    nkisim.simulate(only_good_rows_are_stored)(X)  # a warning would fail the test
    with pytest.warns(nkisim.NkiFindingWarning):
        nkisim.simulate(through_three_instructions)(X)


def test_an_argument_that_is_not_returned_is_seen_by_the_caller():
    def kernel(x):
        nisa.dma_copy(dst=x, src=ragged(x, 2 * GOOD)[GOOD : 2 * GOOD])  # here
        return stored(nl.load(x))

    report = nkisim.check(kernel, detect=())(X.copy())
    assert {(f.rule.id, f.severity) for f in report} == {("M001", "error"), ("M029", "warning")}


def test_only_the_place_that_reached_the_output_is_an_error():
    def kernel(x):
        tile, unused, used = ragged(x), sbuf(ROWS, COLUMNS), sbuf(ROWS, COLUMNS)
        nisa.tensor_copy(dst=unused, src=tile)
        nisa.tensor_scalar(dst=used, data=tile, op0=nl.add, operand0=1.0)  # here
        return stored(used)

    report = nkisim.check(kernel, detect=())(X)
    assert [(f.instruction, f.severity) for f in report] == [
        ("tensor_copy", "warning"),
        ("tensor_scalar", "error"),
    ]


def test_the_rows_of_a_shared_tile_have_their_own_origin():
    def kernel(x):
        tile, both = ragged(x, 64), sbuf(64, COLUMNS)
        nisa.tensor_copy(dst=both[0:32], src=tile[0:32])
        nisa.tensor_copy(dst=both[32:64], src=tile[32:64])  # here
        return stored(both[32:64])

    report = nkisim.check(kernel, detect=())(X)
    assert [(f.line - marked_line(kernel), f.severity) for f in report] == [
        (-1, "warning"),
        (0, "error"),
    ]


def test_more_places_than_the_map_has_numbers():
    lines = "".join(
        f"    nisa.tensor_copy(dst=result[:, {i}:{i + 1}], src=tile[:, {i}:{i + 1}])\n"
        for i in range(300)
    )
    scope = {"nisa": nisa, "nl": nl}
    source = (
        "def kernel(x):\n"
        "    tile = nl.ndarray((4, 300), dtype=nl.float32, buffer=nl.sbuf)\n"
        "    result = nl.ndarray((4, 300), dtype=nl.float32, buffer=nl.sbuf)\n"
        f"{lines}"
        "    out = nl.ndarray((4, 300), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=out, src=result)\n"
        "    return out\n"
    )
    exec(compile(source, "<kernel>", "exec"), scope)
    report = nkisim.check(scope["kernel"], detect=())(X)
    assert len(report.errors) == len(report.findings) == 300


# -- what is an error at once ----------------------------------------------------------------------


def an_index_tile(x):
    index, tile = sbuf(8, 1, dtype=nl.uint32), sbuf(8, COLUMNS)
    view = x.ap([[COLUMNS, 8], [1, COLUMNS]], vector_offset=index)
    nisa.dma_copy(dst=tile, src=view)  # here
    return stored(nl.load(x))


def a_made_index_tile(x):
    raw, index, tile = sbuf(8, 1, dtype=nl.uint32), sbuf(8, 1, dtype=nl.uint32), sbuf(8, COLUMNS)
    nisa.tensor_copy(dst=index, src=raw)  # here
    view = x.ap([[COLUMNS, 8], [1, COLUMNS]], vector_offset=index)
    nisa.dma_copy(dst=tile, src=view)
    return stored(nl.load(x))


def an_index_operand(x):
    index, tile, found = sbuf(GOOD, 8, dtype=nl.uint32), nl.load(x), sbuf(GOOD, 8)
    nisa.nc_n_gather(dst=found, data=tile, indices=index)  # here
    return stored(tile)


def an_index_of_cores(x):
    index, tile, found = sbuf(ROWS, 1, dtype=nl.uint16), sbuf(ROWS, COLUMNS), sbuf(ROWS, 16)
    nisa.memset(dst=tile, value=1.0)
    nisa.local_gather(dst=found, src_buffer=tile, index=index)  # here
    return stored(nl.load(x))


@EITHER
@each_case("kernel", [an_index_tile, a_made_index_tile, an_index_operand, an_index_of_cores])
def test_an_index_is_an_error_at_once(kernel, values):
    assert birth(kernel, X, values=values).severity == "error"


def a_register(x):
    word, register = sbuf(1, 1, dtype=nl.int32), nisa.register_alloc()
    nisa.register_load(register, word)  # here
    return stored(nl.load(x))


def a_register_of_made_garbage(x):
    word, made, register = sbuf(1, 1), sbuf(1, 1, dtype=nl.int32), nisa.register_alloc()
    nisa.tensor_copy(dst=made, src=word)  # here
    nisa.register_load(register, made)
    return stored(nl.load(x))


@pytest.mark.parametrize("kernel", [a_register, a_register_of_made_garbage])
def test_a_register_is_an_error_at_once(kernel):
    assert birth(kernel, X).severity == "error"
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(kernel, strictness="strict")(X)
    assert caught.value.rule_id == "M001"


def test_a_line_in_a_loop_is_one_finding_also_after_its_consequence():
    def kernel(x):
        for _ in range(3):
            word, made, register = sbuf(1, 1), sbuf(1, 1, dtype=nl.int32), nisa.register_alloc()
            nisa.tensor_copy(dst=made, src=word)  # here
            nisa.register_load(register, made)
        return stored(nl.load(x))

    finding = birth(kernel, X)
    assert (finding.severity, finding.count) == ("error", 3)


def test_a_rule_that_the_caller_made_an_error_stays_one():
    finding = birth(unread, X, errors=("M001",))
    assert finding.severity == "error"


# -- predicates ------------------------------------------------------------------------------------


def test_garbage_that_a_predicate_leaves_out_changes_nothing():
    def kernel(x, mask):
        tile, kept, chosen = ragged(x), sbuf(ROWS, COLUMNS), sbuf(ROWS, COLUMNS, dtype=nl.uint8)
        nisa.memset(dst=kept, value=0.0)
        nisa.dma_copy(dst=chosen, src=mask)
        nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=chosen)  # here
        return stored(kept)

    mask = np.zeros((ROWS, COLUMNS), np.uint8)
    mask[:GOOD] = 1
    assert birth(kernel, X, mask).severity == "warning"
    mask[GOOD, 3] = 1
    assert birth(kernel, X, mask).severity == "error"


def test_a_select_that_leaves_garbage_out():
    def kernel(x, limit):
        tile, result = sbuf(GOOD, 2 * COLUMNS), sbuf(GOOD, 2 * COLUMNS)
        nisa.dma_copy(dst=tile[:, 0:COLUMNS], src=x)
        first, last, most = sbuf(GOOD, 1), sbuf(GOOD, 1), sbuf(GOOD, 1)
        nisa.memset(dst=first, value=0.0)
        nisa.memset(dst=last, value=float(limit))
        nisa.range_select(
            dst=result,
            on_true_tile=tile,
            comp_op0=nl.greater_equal,
            comp_op1=nl.less,
            bound0=first,
            bound1=last,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
            reduce_res=most,
            reduce_op=nl.maximum,
        )
        return stored(most)

    def severity(limit, **options):
        (finding,) = nkisim.check(kernel, target="gen3", **options, detect=())(X, limit).findings
        return finding.severity

    assert severity(COLUMNS) == "warning"
    assert severity(COLUMNS + 1) == "error"
    assert severity(COLUMNS + 1, values=False) == "warning"  # the bounds are not known


@EITHER
def test_an_affine_select_reads_what_it_keeps(values):
    def kernel(x, kept):
        tile, result = sbuf(GOOD, 2 * COLUMNS), sbuf(GOOD, 2 * COLUMNS)
        nisa.dma_copy(dst=tile[:, 0:COLUMNS], src=x)
        nisa.affine_select(
            dst=result,
            pattern=[[-1, 2 * COLUMNS]],
            channel_multiplier=0,
            on_true_tile=tile,
            on_false_value=0.0,
            cmp_op=nl.greater,
            offset=kept,
        )
        return stored(result)

    assert not nkisim.check(kernel, values=values, detect=())(X, COLUMNS).findings
    report = nkisim.check(kernel, values=values, detect=())(X, COLUMNS + 1)
    (finding,) = report.errors
    assert (finding.rule.id, finding.instruction) == ("M001", "affine_select")
    assert f"{GOOD} of" in finding.message


def test_rows_that_are_scattered():
    def kernel(x, order, first):
        tile, out = ragged(x), hbm(ROWS, COLUMNS)
        table = hbm(ROWS, COLUMNS)
        index = nl.load(order)
        nisa.dma_copy(
            dst=table.ap([[COLUMNS, ROWS], [1, COLUMNS]], vector_offset=index), src=tile
        )  # here
        back = sbuf(16, COLUMNS)
        nisa.dma_copy(dst=back, src=table[first : first + 16])
        nisa.memset(dst=tile, value=0.0)
        nisa.dma_copy(dst=out, src=tile)
        nisa.dma_copy(dst=out[0:16], src=back)
        return out

    order = np.arange(ROWS, dtype=np.uint32)[::-1].reshape(ROWS, 1).copy()
    # The rows that nobody loaded go to the first rows of the table.
    for first, severity in ((16, "warning"), (0, "error")):
        (finding,) = nkisim.check(kernel, detect=())(X, order, first).findings
        assert (finding.rule.id, finding.severity) == ("M001", severity)


# -- several cores ---------------------------------------------------------------------------------


def from_one_core_to_the_other(x, reads_all):
    core = nl.program_id(0)
    shared, out = hbm(ROWS, COLUMNS), hbm(ROWS, COLUMNS)
    tile = sbuf(ROWS, COLUMNS)
    if core == 0:
        nisa.dma_copy(dst=tile[0:GOOD], src=x)
        nisa.dma_copy(dst=shared, src=tile)  # here
    nisa.core_barrier(data=shared, cores=(0, 1))
    if core == 1:
        nisa.memset(dst=tile, value=0.0)
        rows = ROWS if reads_all else GOOD
        nisa.dma_copy(dst=tile[0:rows], src=shared[0:rows])
        nisa.dma_copy(dst=out, src=tile)
    return out


@EITHER
@pytest.mark.parametrize(("reads_all", "severity"), [(True, "error"), (False, "warning")])
def test_garbage_is_followed_from_core_to_core(reads_all, severity, values):
    kernel = nkisim.jit(from_one_core_to_the_other)[2]
    report = nkisim.check(kernel, target="gen3", values=values, detect=())(X, reads_all)
    (finding,) = report.findings
    assert (finding.rule.id, finding.severity) == ("M001", severity)
    assert finding.line == marked_line(from_one_core_to_the_other)


def test_garbage_that_is_sent_to_the_other_core_is_an_error_at_once():
    def kernel(x):
        core, out = nl.program_id(0), hbm(2 * ROWS, COLUMNS)
        mine, other = ragged(x), sbuf(ROWS, COLUMNS)
        nisa.sendrecv(
            src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0
        )
        nisa.memset(dst=other, value=0.0)
        nisa.dma_copy(dst=out[core * ROWS : (core + 1) * ROWS], src=other)
        return out

    report = nkisim.check(nkisim.jit(kernel)[2], target="gen3", detect=())(X)
    (finding,) = report.findings
    assert (finding.rule.id, finding.severity) == ("M001", "error")
    assert (finding.instruction, finding.count) == ("sendrecv", 2)


# -- any program -----------------------------------------------------------------------------------

SIZE = 32  # of the square tiles that programs work on
TILES = st.integers(0, 3)
SPANS = st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(
    lambda span: (span[0], min(SIZE, span[0] + span[1]))
)
STEPS = st.one_of(
    st.tuples(st.just("load"), TILES, SPANS, SPANS),
    st.tuples(st.sampled_from(["add", "product"]), TILES, TILES, TILES),
    st.tuples(st.sampled_from(["copy", "transpose", "scale", "reshape"]), TILES, TILES),
    st.tuples(st.just("rows"), TILES, TILES, SPANS),
)


def take(step, x, tiles):
    """One step of a program; a NaN goes wherever garbage goes."""
    kind, dst, *rest = step
    target = tiles[dst]
    if kind == "load":
        rows, columns = (slice(*span) for span in rest)
        nisa.dma_copy(dst=target[rows, columns], src=x[rows, columns])
        return
    source = tiles[rest[0]]
    if kind == "add":
        nisa.tensor_tensor(dst=target, data1=source, data2=tiles[rest[1]], op=nl.add)
    elif kind == "product":
        total = nl.ndarray((SIZE, SIZE), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=source, moving=tiles[rest[1]])
        nisa.tensor_scalar(dst=target, data=total, op0=nl.multiply, operand0=1 / 1024)
    elif kind == "copy":
        nisa.tensor_copy(dst=target, src=source)
    elif kind == "transpose":
        turned = sbuf(SIZE, SIZE)
        nisa.nc_transpose(dst=turned, data=source, engine=nisa.vector_engine)
        nisa.tensor_copy(dst=target, src=turned)
    elif kind == "scale":
        total = sbuf(SIZE, 1)
        nisa.tensor_reduce(dst=total, op=nl.add, data=source, axis=1)
        nisa.tensor_scalar(dst=target, data=target, op0=nl.add, operand0=total)
    elif kind == "reshape":
        scratch = hbm(SIZE // 2, 2 * SIZE)
        nisa.dma_copy(dst=scratch, src=source)
        nisa.dma_copy(dst=target, src=scratch)
    else:
        rows = slice(*rest[1])
        nisa.dma_copy(dst=target[rows], src=source[rows])


def program(x, steps, kept):
    tiles = [sbuf(SIZE, SIZE) for _ in range(4)]
    for step in steps:
        take(step, x, tiles)
    rows, columns = (slice(*span) for span in kept)
    return stored(tiles[0][rows, columns])


@examples(60)
@given(st.lists(STEPS, max_size=8).map(tuple), st.tuples(SPANS, SPANS))
def test_errors_are_where_the_output_has_a_nan(steps, kept):
    x = np.random.default_rng(3).uniform(0, 1, (SIZE, SIZE)).astype(np.float32)
    report = nkisim.check(program, detect=())(x, steps, kept)
    assert {f.rule.id for f in report} <= {"M001"}
    assert bool(report.errors) == bool(np.isnan(report.outputs).any())
    without = nkisim.check(program, values=False, detect=())(x, steps, kept)
    assert [(f.line, f.operand, f.severity, f.count) for f in report] == [
        (f.line, f.operand, f.severity, f.count) for f in without
    ]
