"""AWS's NKI is recognised without importing it, and nothing else is taken for it."""

import pytest

from fresh_process import printed_after

ASK = """
import sys
from trnsci.core.nki import has_aws_nki, provider
print(json.dumps([has_aws_nki(), provider(), "nki" in sys.modules, "nkisim" in sys.modules]))
"""


def asked(code, **options):
    """What a process prints that has imported neither NKI nor nkisim."""
    return printed_after("trnsci.core.nki", code, **options)


@pytest.fixture
def installed(tmp_path):
    """A function that lays an ``nki`` distribution into a folder, and returns the folder."""

    def lay(version, modules=("isa", "language", "collectives")):
        package = tmp_path / "nki"
        package.mkdir()
        (package / "__init__.py").write_text("")
        for module in modules:
            (package / f"{module}.py").write_text("")
        if version is not None:
            record = tmp_path / f"nki-{version}.dist-info"
            record.mkdir()
            (record / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: nki\nVersion: {version}\n"
            )
        return [tmp_path]

    return lay


def test_nothing_installed():
    assert asked(ASK) == [False, "nkisim", False, False]


@pytest.mark.parametrize("version", ["0.3.0", "0.3.0+g1a2b", "0.10.1", "1.0.0rc1"])
def test_aws_nki_is_found_and_not_imported(installed, version):
    assert asked(ASK, path=installed(version)) == [True, "aws", False, False]


@pytest.mark.parametrize(
    ("version", "modules"),
    [("0.0.1", ()), ("0.0.1", ("isa",)), ("0.2.9", ("isa",)), ("0.3.0", ()), (None, ("isa",))],
    ids=["placeholder", "old", "older release", "without isa", "without a record"],
)
def test_what_is_not_aws_nki(installed, version, modules):
    assert asked(ASK, path=installed(version, modules))[:2] == [False, "nkisim"]


@pytest.mark.parametrize("imported", ["", "import nki, nki.isa"])
def test_nkisim_in_the_place_of_nki_does_not_count(imported):
    got = asked(f"import nkisim\nnkisim.install()\n{imported}\n{ASK}")
    assert got[:2] == [False, "nkisim"]


def test_nkisim_that_displaces_aws_nki_is_the_provider(installed):
    got = asked(f"import nkisim\nnkisim.install(force=True)\n{ASK}", path=installed("0.3.0"))
    assert got[:2] == [False, "nkisim"]


def test_nkisim_that_leaves_aws_nki_alone_is_not(installed):
    got = asked(f"import nkisim\nnkisim.install()\n{ASK}", path=installed("0.3.0"))
    assert got[:2] == [True, "aws"]


def test_the_kernel_namespace_is_the_providers(installed):
    code = "from trnsci.core.nki import nki, nisa\nprint(json.dumps([nki.__name__, nisa.__name__]))"
    assert asked(code) == ["nkisim", "nkisim.isa"]
    assert asked(code, path=installed("0.3.0")) == ["nki", "nki.isa"]
