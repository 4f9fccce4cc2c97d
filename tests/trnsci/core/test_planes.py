"""Complex numbers as real ones: layouts from their definition, and products of them."""

import pytest
import torch

from trnsci.core.numbers.planes import embedded, joined, parts, real_length

LAYOUTS = {
    "dense": lambda x: x,
    "conjugate": lambda x: x.conj(),
    "transposed": lambda x: x.mT.contiguous().mT,
    "adjoint": lambda x: x.mH.contiguous().mH,
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
}


def drawn(*shape):
    """Complex numbers whose parts are small integers: their products and sums are exact."""
    generator = torch.Generator().manual_seed(sum(shape))
    real, imaginary = torch.randint(-9, 10, (2, *shape), generator=generator).double()
    return torch.complex(real, imaginary)


def test_layouts_are_those_of_the_definition():
    x = torch.tensor([[1 + 2j, 3 - 4j]])
    assert parts(x).tolist() == [[1, 2, 3, -4]]
    assert embedded(x).tolist() == [[1, 2, 3, -4], [-2, 1, 4, 3]]
    assert embedded(x).mT.tolist() == [[1, -2], [2, 1], [3, 4], [-4, 3]]
    assert real_length(x, 5) == 10
    assert real_length(x.real, 5) == 5


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [(), (2,), (2, 0), (3, 2)], ids=str)
def test_products_of_real_forms_are_the_products(batch, layout):
    a, b = (LAYOUTS[layout](drawn(*batch, *size)) for size in ((3, 5), (5, 4)))
    assert torch.equal(joined(parts(a)), a)
    assert torch.equal(joined(parts(a) @ embedded(b)), a @ b)
    left, columns = embedded(a.mT).mT, parts(b.mT).mT
    assert torch.equal(joined((left @ columns).mT).mT, a @ b)
    assert torch.equal(embedded(a) @ embedded(b), embedded(a @ b))
    assert torch.equal(embedded(a).mT, embedded(a.mH))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1)], ids=str)
def test_empty_and_single(shape):
    x = drawn(*shape)
    assert parts(x).shape == (shape[0], 2 * shape[1])
    assert embedded(x).shape == (2 * shape[0], 2 * shape[1])
    assert torch.equal(joined(parts(x)), x)


def test_parts_of_dense_numbers_are_not_copied():
    x = drawn(3, 4)
    assert parts(x).data_ptr() == x.data_ptr()
    assert joined(parts(x)).data_ptr() == x.data_ptr()
