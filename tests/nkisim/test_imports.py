"""What importing nkisim brings in, and what it does not."""

import pytest

import nkisim
from fresh_process import printed_by


def loaded_after(statement):
    """Names in ``sys.modules`` of a fresh interpreter after ``statement``, and if it finds nki."""
    code = f"""
{statement}
import importlib.util, sys
loaded = list(sys.modules)
print(json.dumps([loaded, importlib.util.find_spec("nki") is not None]))
"""
    loaded, found = printed_by(code)
    return set(loaded), found


@pytest.mark.parametrize(
    ("statement", "makes_nki_importable"),
    [
        (
            "import nkisim; nkisim.simulate\n"
            "import nkisim.language, nkisim.isa, nkisim.typing, nkisim.collectives\n"
            "import nkisim.upgrade",
            False,
        ),
        ("import nkisim; nkisim.install(); import nki, nki.dtype", True),
    ],
)
def test_the_library_needs_nothing_optional(statement, makes_nki_importable):
    loaded, found = loaded_after(statement)
    assert "numpy" in loaded
    assert loaded.isdisjoint({"torch", "matplotlib", "click", "rich"})
    assert found is makes_nki_importable


@pytest.mark.parametrize(
    "statement",
    [
        "import nkisim.pytest_plugin",
        "import nkisim.shim; nkisim.shim.install()",
    ],
)
def test_what_every_process_may_load_is_light(statement):
    loaded, _ = loaded_after(statement)
    assert "nkisim" in loaded
    assert loaded.isdisjoint({"numpy", "ml_dtypes", "nkisim.api", "nkisim.machine", "nkisim.isa"})


def test_the_public_names_are_listed_in_order_and_exist():
    assert list(nkisim.__all__) == sorted(nkisim.__all__)
    assert set(nkisim.__all__) <= set(dir(nkisim))
    assert [name for name in nkisim.__all__ if not hasattr(nkisim, name)] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        nkisim.simulat  # noqa: B018
