"""Kernels inside of tests may use all of Python; tests of source rules ask for them."""

import pytest

from nkisim.options import SOURCE_VARIABLE


@pytest.fixture(autouse=True, scope="module")
def without_source_rules():
    """Turn the rules about the source off where a check does not name them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOURCE_VARIABLE, "0")
        yield
