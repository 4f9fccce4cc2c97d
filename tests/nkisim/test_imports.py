"""What importing nkisim brings in, and what it does not."""

import pytest

import nkisim
from fresh_process import printed_by


def loaded_after(statement):
    """Names in ``sys.modules`` of a fresh interpreter that has executed ``statement``."""
    return set(printed_by(f"{statement}\nimport sys\nprint(json.dumps(list(sys.modules)))"))


@pytest.mark.parametrize(
    "statement",
    [
        "import nkisim; nkisim.simulate",
        "import nkisim.language, nkisim.isa, nkisim.typing, nkisim.collectives",
        "import nkisim; nkisim.install(); import nki, nki.dtype",
    ],
)
def test_the_library_needs_nothing_optional(statement):
    loaded = loaded_after(statement)
    assert "numpy" in loaded
    assert loaded.isdisjoint({"torch", "matplotlib", "libcst", "click", "rich"})


@pytest.mark.parametrize(
    "statement",
    [
        "import nkisim.pytest_plugin",
        "import nkisim.shim; nkisim.shim.install()",
    ],
)
def test_what_every_process_may_load_is_light(statement):
    loaded = loaded_after(statement)
    assert "nkisim" in loaded
    assert loaded.isdisjoint({"numpy", "ml_dtypes", "nkisim.api", "nkisim.machine", "nkisim.isa"})


def test_importing_nkisim_does_not_make_nki_importable():
    code = "import nkisim, nkisim.language, importlib.util as u; found = u.find_spec('nki')"
    assert printed_by(f"{code}\nprint(json.dumps(found is None))") is True


def test_the_public_names_are_listed_in_order_and_exist():
    assert list(nkisim.__all__) == sorted(nkisim.__all__)
    assert set(nkisim.__all__) <= set(dir(nkisim))
    assert [name for name in nkisim.__all__ if not hasattr(nkisim, name)] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        nkisim.simulat  # noqa: B018
