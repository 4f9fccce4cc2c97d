"""Kernels inside of tests may use all of Python; tests of source rules ask for them."""

import logging

import pytest


@pytest.fixture(autouse=True, scope="module")
def without_source_rules():
    """Turn the rules about the source off where a check does not name them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKISIM_SOURCE_RULES", "0")
        yield


class _Dropped(logging.Handler):
    """Keeps what was dropped because an exception came."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.records = []

    def emit(self, record):
        self.records.append(self.format(record))


@pytest.fixture(autouse=True)
def dropped():
    """Fail where code to paste or a second run raises: users would only see that there is none.

    A test in which one must asks for this list and clears it.
    """
    handler = _Dropped()
    logs = {log: log.level for log in map(logging.getLogger, ("nkisim.suggestions", "nkisim.runs"))}
    for log in logs:
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
    yield handler.records
    for log, level in logs.items():
        log.removeHandler(handler)
        log.setLevel(level)
    assert not handler.records, "\n".join(handler.records)
