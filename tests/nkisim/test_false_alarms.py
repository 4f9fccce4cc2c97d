"""Code that NKI runs and that a check once flagged, with everything that resembles it.

The property: a public name, attribute or method of a version has no finding in the source check.
"""

import textwrap

import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.arch import GENERATIONS
from nkisim.checks.langcheck.values import OF_TARGET
from nkisim.options import variable_set
from nkisim.removed import is_deprecated as deprecated
from nkisim.versions import VERSIONS, names_of
from releases import newest
from tiles import hbm, stored

HEADER = """\
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

"""
SHORT = {"nki.collectives": "ncc", "nki.isa": "nisa", "nki.language": "nl"}
NEWEST = VERSIONS[-1]


def source_findings(folder, text, nki):
    """The warnings and errors in a file with the usual imports."""
    path = folder / "kernels.py"
    path.write_text(HEADER + textwrap.dedent(text))
    report = nkisim.check_source(path, nki=nki)
    return [f for f in report.findings if f.severity != "note"]


def kernel_of(lines, before=""):
    body = textwrap.indent("\n".join(lines), "    ")
    return f"{before}\n@nki.jit\ndef kernel(x):\n{body}\n    return x\n"


# -- every public name -----------------------------------------------------------------------------

_OWN_RULES = {"nki.language.dynamic_range": "0.7.0"}
"""Names that a rule refuses from a version on."""
_GRIDS = {
    "NkiTileGrid": (
        "nl.tiles(x, tile_shape=(16, 16))",
        "nl.tiles(x, tile_shape=(16, 16))[0, 0]",
        "nl.tiles(nl.tiles(x, tile_shape=(16, 16))[0:2], tile_shape=(16, 16))",
        "nl.alloc_tiles(tile_shape=(16, 16), element_shape=(32, 32), buffer=nl.sbuf,"
        " dtype=nl.float32)[1, 0:2]",
        "nl.empty_like(nl.tiles(x, tile_shape=(16, 16)))",
    ),
    "NkiBlockGrid": (
        "nl.blocks(x, tile_shape=(16, 16), block_shape=(1, 2))",
        "nl.blocks(x, tile_shape=(16, 16), block_shape=(1, 2))[1]",
        "nl.alloc_blocks(tile_shape=(16, 16), block_shape=(2, 1), element_shape=(32, 32),"
        " buffer=nl.sbuf, dtype=nl.float32)[0, 1]",
    ),
}
_OBJECTS = {
    "NkiTensor": (
        "x",
        "nl.load(x)",
        "nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.sbuf)",
        "nl.load(x)[0:8]",
        "nl.load(x).reshape((1, 1024))",
    ),
    "NkiScalar": ("nisa.scalar_load(nl.load(x))",),
    "VirtualRegister": ("nisa.register_alloc(1)",),
    "NkiInstruction": ("nisa.memset(dst=nl.load(x), value=0)",),
    "ReplicaGroup": ("ncc.ReplicaGroup([[0, 1]])",),
    "NKIObject": ("nl.NKIObject()",),
    **_GRIDS,
}


def public_uses(version):
    """Expressions with every public name, member, attribute and method of a version."""
    with variable_set("NKISIM_NKI", version):
        yield from _public_uses(version)


def _public_uses(version):
    for module, content in names_of(version).items():
        if module not in SHORT:
            continue
        short = SHORT[module]
        for name in (*content["functions"], *content["names"], *content["classes"]):
            if version < _OWN_RULES.get(f"{module}.{name}", "9") and not deprecated(module, name):
                yield f"{short}.{name}"
        for name, parts in content["classes"].items():
            yield from (f"{short}.{name}.{member}" for member in parts.get("members", ()))
            for member in (*parts.get("attributes", ()), *parts.get("methods", ())):
                if not member.startswith("_"):
                    yield from (f"{made}.{member}" for made in _OBJECTS.get(name, ()))
    yield from (f"nl.tile_size.{name}" for name in _sizes() if hasattr(nl.tile_size, name))


@each_case("nki", VERSIONS)
def test_no_public_name_is_flagged(tmp_path, nki):
    uses = list(dict.fromkeys(public_uses(nki)))
    assert len(uses) > 200, "the table of the version is empty"
    lines = [f"v{i} = {use}" for i, use in enumerate(uses)]
    # A name of a grid, or of a part of it, in a variable too, as code reads it.
    for i, made in enumerate(m for group in _GRIDS.values() for m in group if nki == NEWEST):
        lines.append(f"grid{i} = {made}")
        lines += [f"assert grid{i}.{a}" for a in ("shape", "element_shape", "tile_shape")]
    found = source_findings(tmp_path, kernel_of(lines), nki)
    assert [str(f) for f in found] == []


def test_the_table_of_classes_is_the_versions():
    """Every class of a version whose objects have attributes has an expression above."""
    for version in VERSIONS:
        for module in SHORT:
            for name, parts in names_of(version)[module]["classes"].items():
                public = [a for a in (*parts.get("attributes", ()), *parts.get("methods", ()))]
                if any(not a.startswith("_") for a in public):
                    made = (*_OBJECTS, "NkiGrid", "tile_size")
                    assert name in made, f"{name} of {version} has no expression"


def test_the_run_has_every_attribute_of_a_grid():
    x = np.ones((32, 32), np.float32)

    def kernel(a):
        grids = [
            newest("tiles")(a, tile_shape=(16, 16))[0, 0:1],
            newest("blocks")(a, tile_shape=(16, 16), block_shape=(1, 2))[1],
        ]
        for grid, name in zip(grids, _GRIDS, strict=True):
            for attribute in names_of(NEWEST)["nki.language"]["classes"][name]["attributes"]:
                getattr(grid, attribute)
        return stored(nl.load(a))

    assert not nkisim.check(kernel, nki=NEWEST)(x).findings


def test_an_attribute_that_no_grid_has_is_found(tmp_path):
    lines = ["grid = nl.tiles(x, tile_shape=(16, 16))[0, 0]", "y = grid.tile_sizes"]
    (finding,) = source_findings(tmp_path, kernel_of(lines), NEWEST)
    assert (finding.rule.id, finding.seen) == ("A025", "NkiGrid.tile_sizes")
    assert "tile_shape" in finding.fix


def test_the_data_of_a_grid_is_a_tensor(tmp_path):
    lines = ["tile = nl.tiles(x, tile_shape=(16, 16))[0, 0].data", "y = tile + 1"]
    (finding,) = source_findings(tmp_path, kernel_of(lines), NEWEST)
    assert finding.rule.id == "L027"


# -- A039: sizes at import -------------------------------------------------------------------------


def _sizes():
    return [n for n in dir(type(nl.tile_size)) if not n.startswith("_") and n != "mro"]


@each_case("nki", VERSIONS)
def test_only_sizes_that_differ_between_targets_are_flagged(tmp_path, nki):
    for size in _sizes():
        with variable_set("NKISIM_NKI", nki):
            if not hasattr(nl.tile_size, size):
                continue
            values = set()
            for generation in GENERATIONS:
                for reserved in ("true", "false"):
                    with (
                        variable_set("NKISIM_TARGET", generation.name),
                        variable_set("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", reserved),
                    ):
                        values.add(getattr(nl.tile_size, size))
        assert (len(values) > 1) == (size in OF_TARGET), size
        text = kernel_of(["assert x.shape[0] <= SIZE"], f"SIZE = nl.tile_size.{size}")
        found = [f for f in source_findings(tmp_path, text, nki) if f.rule.id == "A039"]
        assert [f.severity for f in found] == ["warning"] * (size in OF_TARGET), size
        assert all("NEURON_PLATFORM_TARGET_OVERRIDE" in f.fix for f in found)


@each_case(
    "constant",
    [
        "VERSION = nisa.get_nc_version()",
        "VERSION = nisa.get_nc_version() == nisa.nc_version.gen3",
        "from nki.isa import get_nc_version\nVERSION = get_nc_version()",
        "VERSION = (nisa.get_nc_version(), nl.tile_size.sbuf_fmax)",
    ],
)
def test_the_generation_at_import_is_an_error(tmp_path, constant):
    found = source_findings(tmp_path, kernel_of(["assert VERSION"], constant), NEWEST)
    assert [(f.rule.id, f.severity) for f in found] == [("A039", "error")]


# -- 0.7: generations, ranges, configurations ------------------------------------------------------


@each_case("operator", ["<", "<=", ">", ">="])
def test_generations_are_ordered_where_python_traces(tmp_path, operator):
    text = kernel_of([f"assert nisa.get_nc_version() {operator} nisa.nc_version.gen4"])
    assert not source_findings(tmp_path, text, NEWEST)
    assert [f.rule.id for f in source_findings(tmp_path, text, "0.6.0")] == ["L053"]


def test_affine_range_is_in_order_where_python_traces():
    def kernel(a):
        total = nl.zeros((16, 32), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.affine_range(2):
            nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a[i]), op=nl.add)
        return stored(total)

    x = np.ones((2, 16, 32), np.float32)
    assert nkisim.check(kernel, nki="0.6.0", source=False)(x).codes == {"R003"}
    report = nkisim.check(kernel, nki=NEWEST, source=False)(x)
    assert not report.findings
    np.testing.assert_array_equal(report.outputs, x.sum(0))


CONFIGS = "compile_config=None, specialization_config=None"


def test_jit_takes_the_configurations(tmp_path, recwarn):
    text = f"@nki.jit({CONFIGS})\ndef kernel(x):\n    return x\n"
    assert not source_findings(tmp_path, text, NEWEST)
    assert {f.rule.id for f in source_findings(tmp_path, text, "0.6.0")} == {"A020"}
    with variable_set("NKISIM_NKI", NEWEST):
        nkisim.jit(compile_config=None, specialization_config=None)(lambda x: x)
    assert not recwarn.list
    with variable_set("NKISIM_NKI", "0.6.0"), pytest.warns(DeprecationWarning, match="A020"):
        nkisim.jit(compile_config=None)(lambda x: x)


# -- what is not read ------------------------------------------------------------------------------


@each_case("values", [True, False])
@each_case("buffer", [nl.shared_hbm, nl.private_hbm, nl.sbuf], ids=lambda b: b.value)
def test_a_copy_onto_itself_reads_and_writes_nothing(buffer, values):
    def kernel(a, fenced):
        part = nl.ndarray((16, 8), nl.float32, buffer)
        nisa.dma_copy(dst=part[0:4], src=a[0:4])
        nisa.dma_copy(dst=part[2:8], src=part[2:8])
        if buffer == nl.sbuf:
            nisa.tensor_copy(dst=part, src=part)
        out = nl.ndarray((16, 8), nl.float32, nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        nisa.dma_copy(dst=out[0:4], src=part[0:4])
        nisa.dma_copy(dst=out, src=out)
        if not fenced:  # a read of what the copy has left unwritten
            nisa.dma_copy(dst=out[4:8], src=part[4:8])
        return out

    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    report = nkisim.check(kernel, values=values, target="gen3")(x, True)
    assert not report.findings
    if values:
        np.testing.assert_array_equal(report.outputs, x)
    unread = "M001" if buffer == nl.sbuf else "M005"
    assert unread in nkisim.check(kernel, values=values, target="gen3")(x, False).codes


def test_a_copy_onto_another_place_of_the_tensor_reads():
    def kernel(a):
        out = nl.ndarray((16, 8), nl.float32, nl.shared_hbm)
        nisa.dma_copy(dst=out[0:8], src=a[0:8])
        nisa.dma_copy(dst=out[0:8], src=out[8:16])
        nisa.dma_copy(dst=out[8:16], src=a[8:16])
        return out

    assert "M005" in nkisim.check(kernel)(np.ones((16, 8), np.float32)).codes


def scattered(name):
    """Return a kernel that writes 4 of 16 rows by index; the others are unwritten in the source."""

    def kernel(a, rows, written):
        out = hbm((16, 8))
        nisa.dma_copy(dst=out, src=a)
        tile = nl.ndarray((16, 8), nl.float32, nl.sbuf)
        nisa.dma_copy(dst=tile[0:written], src=a[0:written])
        there = out.ap([[8, 16], [1, 8]], vector_offset=nl.load(rows), indirect_dim=0)
        skip = nisa.oob_mode.skip
        if name == "dma_copy":
            nisa.dma_copy(dst=there, src=tile, oob_mode=skip)
        else:
            nisa.dma_compute(there, [tile, tile], nl.add, oob_mode=skip)
        return out

    return kernel


@each_case("name, nki", [("dma_copy", "0.3.0"), ("dma_copy", NEWEST), ("dma_compute", "0.4.0")])
@each_case("values", [True, False])
def test_lanes_that_a_scatter_skips_are_not_read(name, nki, values):
    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    rows = np.full((16, 1), 99, np.int32)
    rows[:4, 0] = [9, 3, 5, 7]
    report = nkisim.check(scattered(name), nki=nki, values=values)(x, rows, 4)
    assert not report.codes & {"M001", "M005"}
    if values:
        wanted = x.copy()
        wanted[rows[:4, 0]] = x[:4] * (2 if name == "dma_compute" else 1)
        np.testing.assert_array_equal(report.outputs, wanted)
        # Of the lanes that it writes, none may be unwritten.
        assert "M001" in nkisim.check(scattered(name), nki=nki)(x, rows, 3).codes


# -- metadata of all_to_all_v ----------------------------------------------------------------------


@each_case("nki", VERSIONS[1:])
@each_case("rows", [3, 4])
def test_metadata_has_three_or_four_rows(nki, rows):
    def kernel(a, metadata):
        source, received, own = hbm((8,)), hbm((8,)), hbm(metadata.shape, nl.uint32)
        nisa.dma_copy(dst=source, src=a)
        nisa.dma_copy(dst=own[0:2], src=metadata[0:2])  # row 3 is not read
        ncc.all_to_all_v([source], [received], ncc.ReplicaGroup([[0, 1]]), own)
        return received

    x = np.arange(8, dtype=np.float32)
    metadata = np.array([[4, 4], [0, 4], [9, 9], [9, 9]][:rows], np.uint32)
    short = ("C043", "C044", "C045")
    simulated = nkisim.simulate(kernel, nki=nki, target="gen3", ranks=2, ignore=short)
    outputs = simulated([(x, metadata), (x + 100, metadata)])
    assert "C029" not in simulated.report.codes
    np.testing.assert_array_equal(outputs[0], [0, 1, 2, 3, 100, 101, 102, 103])
    np.testing.assert_array_equal(outputs[1], [4, 5, 6, 7, 104, 105, 106, 107])
