"""The profile of the sample product."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
from scripts import imported

from .profile_cases import FILE


@pytest.fixture(scope="session")
def product(tmp_path_factory):
    """The profile of a product of (256, 128) and (256, 512) in bfloat16 on trn2."""
    file = tmp_path_factory.mktemp("profile") / "product_kernel.py"
    file.write_text(FILE)
    with imported(file) as module:
        shapes = ((256, 128), (256, 512))
        arguments = [np.ones(shape, ml_dtypes.bfloat16) for shape in shapes]
        return nkisim.profile(module.product)(*arguments)
