"""Many cases in one test.

A parametrized test costs about 2.5 ms of pytest and xdist for each case, which is most of the time
where a case takes less. ``each_case`` takes the arguments of ``pytest.mark.parametrize`` and runs
the cases one after another in one test. All of them run; those that fail are reported together,
each with its traceback and its name. Fixtures are those of the one test, shared by its cases, but
for ``tmp_path``: each case has a folder of its own. A fixture that is made of ``tmp_path`` is
refused, because all cases would find each other's files there.

``pytest --case NAME`` runs the cases whose names contain NAME, and the summary of a run counts the
cases that were skipped in tests that were not.
"""

import inspect
from functools import wraps

import pytest

SELECTED = ""
"""Part of the names of the cases to run, of the option ``--case``."""
SKIPPED = []
"""Reasons of the cases that the current test has skipped."""


def each_case(names, values, ids=None, group=None):
    """Return a decorator that calls a test with each of the values, as ``parametrize`` names them.

    ``ids`` is a function from a value to its name, or a list of names. Decorators can be stacked,
    also with ``parametrize``: then a test of its own runs the cases for each parameter.

    With ``group``, a function from the values of a case to a name, there is one test for each name,
    so that tests stay short and can be selected.
    """
    names = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    groups = {}
    for i, value in enumerate(values):
        name, arguments = _case(names, value, ids, i)
        key = group(*arguments.values()) if group else None
        groups.setdefault(key, []).append((name, arguments))
    assert groups, f"no cases of {', '.join(names)}"

    def decorate(test):
        @wraps(test)
        def run(*args, group=None, **kwargs):
            cases, failed, skipped = [c for c in groups[group] if SELECTED in c[0]], [], []
            if not cases:
                pytest.skip(f"no case with {SELECTED!r} in its name")
            for i, (name, arguments) in enumerate(cases):
                given = kwargs | arguments
                if "tmp_path" in kwargs:
                    given["tmp_path"] = kwargs["tmp_path"] / f"case{i}"
                    given["tmp_path"].mkdir()
                try:
                    test(*args, **given)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {', '.join(names)} = {name}")
                    failed.append(error)
            if failed:
                group = f"{len(failed)} of {len(cases)} cases failed"
                raise BaseExceptionGroup(group, failed)
            if len(skipped) == len(cases):
                raise skipped[0]
            SKIPPED.extend(skipped)

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name not in names]
        assert len(kept) == len(signature.parameters) - len(names), f"arguments are not {names}"
        if group:
            kept.append(inspect.Parameter("group", inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=kept)
        run.has_cases = True
        return pytest.mark.parametrize("group", list(groups), ids=str)(run) if group else run

    return decorate


def refuse_shared_folder(test, fixture, parameters):
    """Fail if a fixture with these parameters gives all cases of a test one ``tmp_path``."""
    if getattr(test, "has_cases", False) and "tmp_path" in parameters:
        pytest.fail(f"the cases of {test.__name__} share the tmp_path of {fixture}: parametrize it")


def _case(names, value, ids, i):
    """Return the name of a case and its arguments by name."""
    name = None
    if hasattr(value, "marks"):  # pytest.param
        assert not value.marks, f"a mark can only be on a test of its own: {value}"
        name, values = value.id, value.values
    else:
        values = (value,) if len(names) == 1 else tuple(value)
    if name is None:
        name = ids[i] if isinstance(ids, list) else ", ".join(map(ids or str, values))
    return name, dict(zip(names, values, strict=True))
