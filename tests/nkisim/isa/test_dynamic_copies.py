"""``tensor_copy_dynamic_src`` and ``_dst``: they run in NKI 0.3.0, which deprecates them."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
from each_case import each_case
from nkisim.isa import tensor_copy_dynamic_dst, tensor_copy_dynamic_src
from releases import VERSIONS
from tiles import loaded, sbuf, stored

TABLE = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
OFFSETS = np.array([[4, 0, 60, 17]], np.uint32)


@nkisim.jit
def gathered(table, offsets):
    """Columns of a table, four at a time, from starts that are data."""
    tile, starts = loaded(table), loaded(offsets)
    out = sbuf((128, 16))
    for i in range(4):
        source = tile.ap([[64, 128], [1, 4]], scalar_offset=starts[0:1, i : i + 1], indirect_dim=1)
        tensor_copy_dynamic_src(dst=out[:, 4 * i : 4 * i + 4], src=source)
    return stored(out)


@nkisim.jit
def scattered(table, offsets):
    """The first columns of a table, put to starts that are data."""
    tile, starts = loaded(table), loaded(offsets)
    out = sbuf((128, 64))
    nisa.memset(out, 0.0)
    for i in range(4):
        target = out.ap([[64, 128], [1, 4]], scalar_offset=starts[0:1, i : i + 1], indirect_dim=1)
        tensor_copy_dynamic_dst(target, tile[:, 4 * i : 4 * i + 4], nisa.engine.vector, "put")
    return stored(out)


def expected(kernel):
    starts = OFFSETS[0]
    if kernel is gathered:
        return np.concatenate([TABLE[:, s : s + 4] for s in starts], axis=1)
    out = np.zeros((128, 64), np.float32)
    for i, start in enumerate(starts):
        out[:, start : start + 4] = TABLE[:, 4 * i : 4 * i + 4]
    return out


@each_case("kernel", [gathered, scattered])
@each_case("strictness", ["simulate", "strict", "check"])
def test_they_run_with_a_warning(kernel, strictness):
    run = nkisim.simulate(kernel, strictness=strictness, nki="0.3.0")
    np.testing.assert_array_equal(run(TABLE, OFFSETS), expected(kernel))
    assert run.report.codes == {"A021", "M053"}  # tensor_copy with an address of run time
    finding = next(f for f in run.report.findings if f.rule.id == "A021")
    assert (finding.severity, finding.count) == ("warning", 4)
    assert "deprecated in NKI 0.3.0" in finding.message
    assert finding.file == __file__


@each_case("version", ["0.4.0", "0.5.0", "0.6.0"])
def test_later_versions_do_not_have_them(version):
    """Also where the name was imported before the version was chosen."""
    report = nkisim.check(gathered, nki=version)(TABLE, OFFSETS)
    assert report.outputs is None
    [finding] = [f for f in report.findings if f.rule.id == "A021"]
    assert finding.severity == "error"
    assert "removed in NKI 0.4.0" in finding.message


def test_a_call_without_a_destination_names_it():
    def kernel(table):
        tile = loaded(table)
        out = tensor_copy_dynamic_src(tile)
        return stored(out)

    with pytest.raises(nkisim.NkiValidationError, match="dst comes first"):
        nkisim.simulate(kernel)(TABLE)


@each_case("version", VERSIONS)
def test_the_source_alone_shows_them(version):
    report = nkisim.check_source(__file__, "scattered", version)
    [finding] = [f for f in report.findings if f.rule.id == "A021"]
    assert finding.severity == ("warning" if version == "0.3.0" else "error")
