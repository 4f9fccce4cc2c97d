"""Names of published releases: importable, outside of the public names, each with a replacement."""

import warnings
from importlib import import_module
from importlib.util import find_spec

from each_case import each_case
from public_calls import LIBRARIES

WITH_SUCH_NAMES = [name for name in LIBRARIES if find_spec(f"{name}.published")]


@each_case("library", WITH_SUCH_NAMES)
def test_published_names_import_without_being_public_names(library):
    package, published = import_module(library), import_module(f"{library}.published")
    assert sorted(published.__all__) == published.__all__
    assert set(published.INSTEAD) == set(published.__all__)
    for name, replacement in published.INSTEAD.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert getattr(package, name) is getattr(published, name)
        assert name not in package.__all__
        assert name not in dir(package)
        assert replacement, name
        assert "\n" not in replacement
