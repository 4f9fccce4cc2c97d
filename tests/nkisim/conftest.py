"""Kernels inside of tests may use all of Python; tests of source rules ask for them."""

import logging

import pytest

from nkisim.options import SOURCE_VARIABLE


@pytest.fixture(autouse=True, scope="module")
def without_source_rules():
    """Turn the rules about the source off where a check does not name them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOURCE_VARIABLE, "0")
        yield


class _Failed(logging.Handler):
    """Keeps what mends could not cope with."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.records = []

    def emit(self, record):
        self.records.append(self.format(record))


@pytest.fixture(autouse=True)
def every_mend_copes():
    """Fail where making code to paste raises: users would only see that there is none."""
    log, handler = logging.getLogger("nkisim.suggestions"), _Failed()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield
    log.removeHandler(handler)
    log.setLevel(level)
    assert not handler.records, "\n".join(handler.records)
