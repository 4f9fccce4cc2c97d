"""What counts as a shape, and how many bytes an element takes where floats are kept wide."""

import numpy as np
import pytest

import nkisim.language as nl
from each_case import each_case
from nkisim.memory.layout import Form
from nkisim.memory.log import Origin
from nkisim.memory.requests import is_tuple_of_ints


@pytest.mark.parametrize("shape", [(), (1,), (128, 0, 7)])
def test_tuples_of_integers(shape):
    assert is_tuple_of_ints(shape)


@each_case(
    "shape", [[1, 2], 4, "12", None, (1, 2.0), (True, 2), (1, None), (np.int64(2), 3)], ids=repr
)
def test_what_is_no_tuple_of_integers(shape):
    assert not is_tuple_of_ints(shape)


@pytest.mark.parametrize(
    ("dtype", "own", "wide"),
    [(nl.bfloat16, 2, 4), (nl.float16, 2, 2), (nl.float8_e5m2, 1, 4), (nl.float32, 4, 4)],
)
def test_bfloat16_and_float8_take_four_bytes_where_they_are_kept_wide(dtype, own, wide):
    for precise, want in ((True, own), (False, wide)):
        form = Form((2, 4), dtype, nl.sbuf, 0, (4 * want, want), want)
        origin = Origin(form, "", None, ("kernel.py", 1), 4 * want, precise)
        assert origin.itemsize(dtype) == want
        assert origin.storage_dtype(dtype).itemsize == want
        assert origin.elements(want) == 8
