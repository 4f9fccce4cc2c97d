"""What NKI 0.4.0, 0.5.0 and 0.6.0 changed in instructions of 0.3.0: legality and meaning.

Each case runs in every version; the expectation names the versions in which it has a finding.
"""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from releases import VERSIONS, newest
from tiles import loaded, sbuf, stored

ALL = set(VERSIONS)
LATER = ALL - {"0.3.0"}


def checked(kernel, *inputs, nki, target="gen4"):
    """Return the report and the rules of a run, without those about the source."""
    report = nkisim.check(kernel, nki=nki, target=target)(*inputs)
    return report, {code for code in report.codes if code[0] not in "LW"}


def versions_with(rule, kernel, *inputs, target="gen4"):
    """Return the versions in which a kernel has a finding of a rule; of others in none."""
    found = set()
    for version in VERSIONS:
        report, codes = checked(kernel, *inputs, nki=version, target=target)
        assert codes <= {rule}, str(report)
        found |= {version} if codes else set()
    return found


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# -- transfers -------------------------------------------------------------------------------------


def copied(x, transposes, **options):
    if transposes:
        tile = sbuf(x.shape[::-1], x.dtype)
        nisa.dma_transpose(dst=tile, src=x, **options)
    else:
        tile = sbuf(x.shape, x.dtype)
        nisa.dma_copy(dst=tile, src=x, **options)
    return stored(tile)


@each_case("transposes", [False, True])
def test_priority_is_0_to_3_on_gen4(transposes):
    x = normal(16, 128, dtype=np.float16)
    for version in sorted(LATER):
        for value in (None, 0, 1, 2, 3):
            report, codes = checked(
                lambda x, v=value: copied(x, transposes, priority=v), x, nki=version
            )
            assert not codes, str(report)
            np.testing.assert_array_equal(report.outputs, x.T if transposes else x)
        for value in (-1, 4, 1.0, True, "high"):
            run = lambda x, v=value: copied(x, transposes, priority=v)  # noqa: E731
            assert checked(run, x, nki=version)[1] == {"A025"}, value
        for target in ("gen2", "gen3"):
            run = lambda x: copied(x, transposes, priority=1)  # noqa: E731
            assert checked(run, x, nki=version, target=target)[1] == {"A033"}
            run = lambda x: copied(x, transposes, priority=None)  # noqa: E731
            assert not checked(run, x, nki=version, target=target)[1]


def test_0_4_0_has_no_priority_without_descriptor_generation():
    def kernel(x):
        return copied(x, False, priority=2, dge_mode=nisa.dge_mode.none)

    for version in sorted(LATER):
        codes = checked(kernel, normal(8, 8), nki=version)[1]
        assert codes == ({"A036"} if version == "0.4.0" else set())


def test_0_3_0_has_no_priority():
    report, codes = checked(lambda x: copied(x, False, priority=None), normal(8, 8), nki="0.3.0")
    assert codes == {"A025"}
    assert "priority" in str(report)


def test_the_destination_of_a_transpose_has_the_permuted_rank():
    x = normal(16, 1, 1, 128, dtype=np.float16)

    def kernel(x, shape):
        tile = sbuf(shape, x.dtype)
        nisa.dma_transpose(dst=tile, src=x, axes=(3, 1, 2, 0))
        return stored(tile)

    assert versions_with("S041", kernel, x, (128, 1, 1, 16)) == set()
    assert versions_with("S041", kernel, x, (128, 1, 16)) == LATER
    assert versions_with("S041", kernel, x, (128, 2, 8)) == LATER
    assert versions_with("S041", kernel, x, (64, 32)) == ALL


HWDGE = {
    (16, 128): set(),
    (16, 64): ALL - {"0.6.0", "0.7.0"},
    (8, 128): ALL,
    (32, 128): ALL,
    (16, 3, 128): set(),
    (8, 2, 128): ALL - {"0.6.0", "0.7.0"},
    (8, 3, 128): ALL,
    (1, 16, 100): ALL - {"0.6.0", "0.7.0"},
    (3, 16, 128): ALL,
    (4, 2, 4, 64): ALL - {"0.6.0", "0.7.0"},
    (4, 4, 2, 64): ALL,
}


@each_case("shape", HWDGE)
def test_shapes_that_hardware_descriptors_transpose(shape):
    permutation = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    x = normal(*shape, dtype=np.float16)

    def kernel(x):
        tile = sbuf(tuple(x.shape[i] for i in permutation), x.dtype)
        nisa.dma_transpose(dst=tile, src=x, dge_mode=nisa.dge_mode.hwdge)
        return stored(tile)

    assert versions_with("S042", kernel, x) == HWDGE[shape]
    for version in ALL - HWDGE[shape]:
        np.testing.assert_array_equal(
            nkisim.simulate(kernel, nki=version)(x), x.transpose(permutation)
        )


def gathered_sum(table, base, indices, **options):
    """``base + table[indices]``, by a DMA."""
    total, chosen = loaded(base), loaded(indices)
    rows, columns = base.shape
    view = table.ap([[columns, rows], [1, columns]], vector_offset=chosen, indirect_dim=0)
    nisa.dma_compute(total, [total, view], reduce_op=nl.add, **options)
    return stored(total)


def scattered_sum(table, base, indices, **options):
    """``table`` with ``base`` added to the rows at ``indices``, by a DMA."""
    added, chosen = loaded(base), loaded(indices)
    out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=table)
    rows, columns = base.shape
    view = out.ap([[columns, rows], [1, columns]], vector_offset=chosen, indirect_dim=0)
    nisa.dma_compute(view, [view, added], reduce_op=nl.add, **options)
    return out


@pytest.mark.parametrize("scatters", [False, True], ids=["gather", "scatter"])
def test_dma_compute_skips_indices_out_of_bounds(scatters):
    table, base = normal(6, 4), normal(5, 4, seed=1)
    indices = np.uint32([[3], [9], [0], [5], [77]])
    kernel = scattered_sum if scatters else gathered_sum

    def skipping(table, base, indices):
        return kernel(table, base, indices, oob_mode=nisa.oob_mode.skip)

    want = table.copy() if scatters else base.copy()
    for row, index in enumerate(indices[:, 0]):
        if index < len(table):
            want[index if scatters else row] = table[index] + base[row]
    for version in sorted(LATER):
        report, codes = checked(skipping, table, base, indices, nki=version)
        assert not codes, str(report)
        np.testing.assert_array_equal(report.outputs, want)
        assert checked(kernel, table, base, indices, nki=version)[1] == {"M036"}
    assert checked(skipping, table, base, indices, nki="0.3.0")[1] == {"A025"}


def test_dma_compute_skips_only_where_indices_select():
    def kernel(x):
        tile = loaded(x)
        nisa.dma_compute(tile, [tile, tile], reduce_op=nl.add, oob_mode=nisa.oob_mode.skip)
        return stored(tile)

    for version in sorted(LATER):
        assert checked(kernel, normal(4, 4), nki=version)[1] == {"A025"}


def test_scales_of_dma_compute_multiply_and_are_1_in_every_version():
    x = normal(4, 4)

    def kernel(x, factor):
        tile = loaded(x)
        out = sbuf(x.shape)
        nisa.dma_compute(out, [tile, tile], reduce_op=nl.add, scales=[1.0, factor])
        return stored(out)

    assert versions_with("D028", kernel, x, 1.0) == set()
    assert versions_with("D028", kernel, x, 0.5) == ALL
    for version in VERSIONS:
        got = checked(kernel, x, 0.5, nki=version)[0].outputs
        np.testing.assert_array_equal(got, x + np.float32(0.5) * x)


def test_gpsimd_sendrecv_of_any_number_of_partitions():
    def kernel(x):
        tile, other = loaded(x), sbuf(x.shape)
        peer = 1 - nl.program_id(0)
        nisa.sendrecv(tile, other, peer, peer, pipe_id=0, dma_engine=nisa.dma_engine.gpsimd_dma)
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[nl.program_id(0)], src=other)
        return out

    for shape, having in (((16, 8), set()), ((9, 8), {"0.3.0"}), ((16, 257), ALL)):
        launched = nkisim.jit(kernel)[2]
        assert versions_with("C015", launched, normal(*shape)) == having, shape


# -- engines ---------------------------------------------------------------------------------------


def engines_of(kernel, *inputs, nki, target="gen4"):
    seen = []
    nkisim.simulate(kernel, nki=nki, target=target, watchers=(seen.append,))(*inputs)
    return {event.instruction: event.engine.name for event in seen}


def test_nc_transpose_runs_where_it_is_told_from_0_4_0_on():
    x = normal(16, 8, dtype=np.float16)

    def kernel(x, engine, buffer="psum"):
        out = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=getattr(nl, buffer))
        nisa.nc_transpose(out, loaded(x), engine=nisa.engine[engine])
        return stored(out)

    for version in VERSIONS:
        assert engines_of(kernel, x, "vector", nki=version)["nc_transpose"] == "vector"
        assert engines_of(kernel, x, "unknown", nki=version)["nc_transpose"] == "tensor"
    # Too large for the Vector engine, which 0.3.0 does not use then.
    large = normal(64, 64, dtype=np.float16)
    assert checked(kernel, large, "vector", nki="0.3.0")[1] == {"A046"}
    for version in sorted(LATER):
        assert checked(kernel, large, "vector", nki=version)[1] == {"S039"}
        # Into SBUF, where the Tensor engine does not write and 0.3.0 takes the other.
        assert checked(kernel, x, "tensor", "sbuf", nki=version)[1] == {"M020"}
    assert checked(kernel, x, "tensor", "sbuf", nki="0.3.0")[1] == {"A046"}


def seeded():
    seed = sbuf((1, 1), nl.int32)
    nisa.memset(seed, 7)
    nisa.set_rng_seed(seed)


def test_engines_of_random_numbers():
    def drawn(x, **options):
        seeded()
        out = sbuf((4, 8), nl.uint32)
        nisa.rng(out, **options)
        return stored(out)

    def unknown(x):
        return drawn(x, engine=nisa.engine.unknown)

    x, newer = normal(1, 1), {"0.5.0", "0.6.0", "0.7.0"}
    assert versions_with("A034", drawn, x) == set()
    assert versions_with("A034", unknown, x) == newer
    assert versions_with("A034", lambda x: drawn(x, engine=nisa.engine.vector), x) == set()
    for version in VERSIONS:
        assert engines_of(drawn, x, nki=version)["rng"] == "vector"
        on_gpsimd = lambda x: drawn(x, engine=nisa.engine.gpsimd)  # noqa: E731
        assert checked(on_gpsimd, x, nki=version, target="gen2")[1] == {"A034"}


def test_states_are_those_of_gpsimd_unless_told_from_0_5_0_on():
    def kernel(words, **options):
        tile = loaded(words)
        nisa.rand_set_state(tile, **options)
        out = sbuf(words.shape, nl.uint32)
        nisa.rand_get_state(out, **options)
        return stored(out)

    small = np.arange(1, 25, dtype=np.uint32).reshape(4, 6)
    large = np.arange(1, 97, dtype=np.uint32).reshape(4, 24)
    assert versions_with("D039", kernel, small) == set()
    assert versions_with("D039", kernel, large) == {"0.5.0", "0.6.0", "0.7.0"}
    named = lambda words: kernel(words, engine=nisa.engine.vector)  # noqa: E731
    assert versions_with("D039", named, large) == set()
    assert versions_with("D039", named, small) == ALL
    unnamed = lambda words: kernel(words, engine=nisa.engine.unknown)  # noqa: E731
    assert versions_with("A034", unnamed, small) == {"0.5.0", "0.6.0", "0.7.0"}


# -- products and accumulators ---------------------------------------------------------------------

E4M3, OCP, E5M2 = ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
PRODUCTS = [
    # types of both operands, generation, versions with D005
    (E4M3, E4M3, "gen4", set()),
    (E4M3, E5M2, "gen4", set()),
    (OCP, OCP, "gen4", {"0.3.0"}),
    (OCP, E5M2, "gen4", {"0.3.0"}),
    (OCP, ml_dtypes.bfloat16, "gen4", {"0.3.0"}),
    (OCP, E4M3, "gen4", ALL),
    (E4M3, OCP, "gen4", ALL),
    (OCP, OCP, "gen3", ALL),
]


@each_case(("left", "right", "target", "having"), PRODUCTS)
@pytest.mark.parametrize("doubled", [False, True], ids=["single", "double_row"])
def test_products_of_e4m3fn(doubled, left, right, target, having):
    if doubled and right == ml_dtypes.bfloat16:
        return

    def kernel(a, b):
        total = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.psum)
        mode = nisa.matmul_perf_mode.double_row if doubled else nisa.matmul_perf_mode.none
        nisa.nc_matmul(total, loaded(a), loaded(b), perf_mode=mode)
        return stored(total)

    middle = (2,) if doubled else ()
    a, b = normal(32, *middle, 8, dtype=left), normal(32, *middle, 16, dtype=right, seed=1)
    found = set()
    for version in VERSIONS:
        report, codes = checked(kernel, a, b, nki=version, target=target)
        assert codes <= {"D005", "D006"}, str(report)
        found |= {version} if codes else set()
        if not codes:
            wide = [v.astype(np.float64).reshape(-1, v.shape[-1]) for v in (a, b)]
            # Products are exact in float32; each sum of n terms rounds n - 1 times.
            most = len(wide[0]) * 2.0**-24 * (np.abs(wide[0]).T @ np.abs(wide[1]))
            assert (np.abs(report.outputs - wide[0].T @ wide[1]) <= most).all()
    assert found == having


def test_activation_reduce_may_leave_its_result_in_the_registers_from_0_6_0_on():
    def kernel(x):
        tile, out, total = loaded(x), sbuf(x.shape), sbuf((x.shape[0], 1))
        nisa.activation_reduce(out, nl.copy, tile, nl.add, None)
        nisa.activation_reduce(out, nl.copy, tile, nl.add, total)
        return stored(total)

    assert versions_with("A025", kernel, normal(4, 4)) == ALL - {"0.6.0", "0.7.0"}


@each_case("version", VERSIONS)
def test_activation_keeps_a_reduction_in_the_registers_in_every_version(version):
    x = np.random.default_rng(3).integers(-4, 5, (4, 8)).astype(np.float32)

    def kernel(x):
        tile, out, total = loaded(x), sbuf((4, 4)), sbuf((4, 1))
        commands = (nisa.reduce_cmd.reset_reduce, None), (nisa.reduce_cmd.reduce, total)
        for i, (command, result) in enumerate(commands):
            nisa.activation(
                out,
                nl.copy,
                tile[:, 4 * i : 4 * i + 4],
                reduce_op=nl.add,
                reduce_res=result,
                reduce_cmd=command,
            )
        return stored(total)

    report, codes = checked(kernel, x, nki=version)
    assert not codes, str(report)
    np.testing.assert_array_equal(report.outputs[:, 0], x.sum(axis=1))


def test_the_mean_across_partitions():
    def kernel(x, op):
        out = sbuf((1, x.shape[1]))
        nisa.tensor_partition_reduce(out, op, loaded(x))
        return stored(out)

    x = np.random.default_rng(4).integers(-4, 5, (8, 5)).astype(np.float32)
    assert versions_with("A025", kernel, x, newest("average")) == {"0.3.0", "0.4.0"}
    assert versions_with("D027", kernel, x, nl.multiply) == ALL
    got = nkisim.simulate(kernel, nki="0.5.0")(x, newest("average"))
    np.testing.assert_array_equal(got[0], x.mean(axis=0))


def test_names_that_0_4_0_removed():
    def kernel(x):
        tile = loaded(x)
        nisa.tensor_copy_dynamic_src(tile, tile)
        return stored(tile)

    for version in VERSIONS:
        report, codes = checked(kernel, normal(4, 4), nki=version)
        assert codes == {"A021"}
        [finding] = [f for f in report.findings if f.rule.id == "A021"]
        old = version == "0.3.0"
        assert finding.severity == ("warning" if old else "error")
        assert ("deprecated in NKI 0.3.0" if old else "removed in NKI 0.4.0") in finding.message
        assert "nisa.tensor_copy" in finding.fix


def test_the_revision_of_the_target_is_known_from_0_5_0_on(monkeypatch):
    for version in VERSIONS:
        monkeypatch.setenv("NKISIM_NKI", version)
        assert hasattr(nisa, "get_nc_sub_version") is (version >= "0.5.0")
    assert nisa.get_nc_sub_version() == 0


@each_case("instruction", ["max8", "nc_find_index8"])
def test_searches_take_three_dimensions_from_0_4_0_on(instruction):
    def kernel(x, vals):
        tile, eight = loaded(x), loaded(vals)
        out = sbuf((4, 8), nl.float32 if instruction == "max8" else nl.uint32)
        more = [] if instruction == "max8" else [eight]
        getattr(nisa, instruction)(out, tile, *more)
        return stored(out)

    vals = np.zeros((4, 8), np.float32)
    assert versions_with("S048", kernel, normal(4, 4, 4), vals) == set()
    assert versions_with("S048", kernel, normal(4, 2, 2, 4), vals) == LATER


def test_products_of_blocks_reach_all_of_psum_from_0_5_0_on():
    def kernel(x, columns, dtype):
        data = nl.ndarray((32, 2), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        wide = nl.ndarray((32, columns), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scales = [sbuf((32, n), nl.uint8) for n in (2, columns)]
        for tile in (data, wide):
            nisa.memset(tile, 0)
        for tile in scales:
            nisa.memset(tile, 127)
        total = nl.ndarray((2, columns), dtype=dtype, buffer=nl.psum)
        nisa.nc_matmul_mx(total, data, wide, *scales)
        return stored(total[:, columns - 512 :])

    older = {"0.3.0", "0.4.0"}
    for columns, dtype, having in (
        (512, nl.float32, set()),
        (1024, nl.float32, older),
        (1024, nl.bfloat16, set()),
        (4096, nl.float32, older),
        (8192, nl.bfloat16, older),
    ):
        found = versions_with("S036", kernel, normal(1, 1), columns, dtype)
        assert found == having, (columns, dtype)
