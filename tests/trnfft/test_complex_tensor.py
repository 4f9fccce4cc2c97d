"""What a ComplexTensor is made of, shares, converts to and refuses."""

import copy
import pickle

import numpy as np
import pytest
import torch

from each_case import each_case
from trnfft._complex import arguments
from trnfft.complex_tensor import ComplexTensor, complex_matmul
from trnsci.core.errors import DTypeError, ShapeError

from .agreement import DTYPES, in_parts

REAL_DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def parts(*shape, dtype=torch.float32):
    """Two real tensors of multiples of 1/8 below 4, which every dtype holds exactly."""
    generator = torch.Generator().manual_seed(7)
    drawn = torch.randint(-31, 32, (2, *shape), generator=generator) / 8
    return tuple(drawn.to(dtype))


def native(*shape, dtype=torch.float32):
    return torch.complex(*parts(*shape, dtype=dtype))


def assert_parts(z, re, im):
    assert isinstance(z, ComplexTensor)
    for got, want in ((z.real, re), (z.imag, im)):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


class TestConstruction:
    @each_case("dtype", REAL_DTYPES)
    def test_keeps_the_two_parts(self, dtype):
        re, im = parts(3, 4, dtype=dtype)
        z = ComplexTensor(re, im)
        assert_parts(z, re, im)
        assert (z.shape, z.dtype, z.device) == (re.shape, DTYPES[dtype], re.device)
        assert (z.part_dtype, z.real.dtype) == (dtype, dtype)

    @pytest.mark.parametrize("dtype", REAL_DTYPES)
    def test_is_native_where_there_are_complex_numbers(self, dtype, monkeypatch):
        re, im = parts(3, 4, dtype=dtype)
        has_complex_dtype = dtype in (torch.float32, torch.float64)
        for z in (ComplexTensor(re, im), ComplexTensor(re), ComplexTensor(re, im) * 2):
            assert z.is_native == has_complex_dtype
        monkeypatch.setattr(arguments, "COMPLEX_DEVICES", ())
        z = ComplexTensor(re, im)
        assert not z.is_native
        assert not (z * 2).is_native
        assert z.real.data_ptr() == re.data_ptr()

    def test_one_real_tensor_has_a_zero_imaginary_part(self):
        re, _ = parts(5)
        assert_parts(ComplexTensor(re), re, torch.zeros(5))

    def test_one_complex_tensor_is_split(self):
        z = native(2, 3)
        assert_parts(ComplexTensor(z), z.real, z.imag)

    def test_a_complex_tensor_of_its_own_kind_is_shared(self):
        z = ComplexTensor(*parts(3))
        assert ComplexTensor(z).real.data_ptr() == z.real.data_ptr()

    def test_parts_are_made_contiguous(self):
        re, im = parts(3, 4)
        assert_parts(ComplexTensor(re.T, im.T), re.T, im.T)
        re, im = parts(3, 4, dtype=torch.bfloat16)
        z = ComplexTensor(re.T, im.T)
        assert z.real.is_contiguous()
        assert z.imag.is_contiguous()
        assert_parts(z, re.T, im.T)

    def test_integers_become_the_default_dtype(self):
        z = ComplexTensor(torch.arange(3), torch.arange(3))
        assert z.dtype == torch.complex64
        assert z.tolist() == [0, 1 + 1j, 2 + 2j]

    @each_case(
        ("real", "imag", "error", "text"),
        [
            (torch.ones(4, 8), torch.ones(8), ShapeError, r"real and imag .* \(4, 8\) and \(8,\)"),
            (torch.ones(2), torch.ones(2).double(), DTypeError, "float32 and torch.float64"),
            (torch.ones(2) + 0j, torch.ones(2) + 0j, DTypeError, "one real dtype"),
            ([1.0], None, DTypeError, "real must be a tensor, got list"),
            (torch.ones(1), 2.0, DTypeError, "imag must be a tensor, got float"),
            (torch.ones(1), torch.ones(1, device="meta"), ShapeError, "on one device"),
        ],
    )
    def test_what_cannot_be_parts_is_refused(self, real, imag, error, text):
        with pytest.raises(error, match=text):
            ComplexTensor(real, imag)

    def test_from_polar(self):
        z = ComplexTensor.from_polar(torch.tensor([2.0, 1.0]), torch.tensor([0.0, torch.pi]))
        # cos and sin of float32's pi: exactly -1, and -8.7e-8 by the rounding of pi itself.
        assert z.real.tolist() == [2.0, -1.0]
        assert np.abs(z.imag.numpy()).max() <= 1e-7
        with pytest.raises(DTypeError, match="phase must be a real tensor"):
            ComplexTensor.from_polar(torch.ones(2), native(2))


class TestNative:
    def test_is_shared_in_both_directions(self):
        z = native(3, 4)
        w = ComplexTensor.from_torch_complex(z)
        assert w.to_torch_complex() is z
        w.real[0, 0] = 9
        w[1] = 2 - 3j
        assert z[0, 0].real == 9
        assert z[1].tolist() == [2 - 3j] * 4

    def test_interleaved_parts_make_a_view(self):
        z = native(3, 4)
        for view in (z, z.T, z[1:, ::2]):
            w = ComplexTensor(view.real, view.imag).to_torch_complex()
            assert w.data_ptr() == view.data_ptr()
            assert torch.equal(w, view)

    @each_case(
        "pair",
        [
            lambda z: (z.imag, z.real),
            lambda z: (z.real, z.real),
            lambda z: (z.conj().real, z.conj().imag),
            lambda z: (z.real, z.clone().imag),
            lambda z: (z[:2].real, z[1:].imag),
        ],
        ids=["swapped", "twice the real part", "conjugate", "two tensors", "other rows"],
    )
    def test_parts_that_only_look_interleaved_are_copied(self, pair):
        re, im = pair(native(3, 4))
        assert_parts(ComplexTensor(re, im), re, im)
        assert torch.equal(ComplexTensor(re, im).to_torch_complex(), torch.complex(re, im))

    def test_parts_of_a_lazy_conjugate_are_ordinary_tensors(self):
        z = native(4)
        w = ComplexTensor(z.conj())
        assert np.array_equal(w.imag.numpy(), -z.imag.numpy())

    @pytest.mark.filterwarnings("ignore:ComplexHalf")
    @each_case(
        ("dtype", "complex_dtype"),
        [
            (torch.float16, torch.complex32),
            (torch.bfloat16, torch.complex64),
            (torch.float32, torch.complex64),
            (torch.float64, torch.complex128),
        ],
    )
    def test_dtype_of_the_native_tensor(self, dtype, complex_dtype):
        re, im = parts(3, dtype=dtype)
        z = ComplexTensor(re, im).to_torch_complex()
        assert z.dtype == complex_dtype
        assert torch.equal(z.real.to(dtype), re)
        assert torch.equal(z.imag.to(dtype), im)

    @pytest.mark.filterwarnings("ignore:ComplexHalf")
    def test_complex_half_is_held_as_float16(self):
        z = native(3, dtype=torch.float16)
        w = ComplexTensor(z)
        assert w.dtype == torch.complex32
        assert (w * w).real.dtype == torch.float16
        assert w.real.data_ptr() == z.data_ptr()

    def test_only_complex_tensors_are_native(self):
        with pytest.raises(DTypeError, match="z must be a complex tensor"):
            ComplexTensor.from_torch_complex(torch.ones(2))


@pytest.fixture(params=["split", "native"])
def make(request):
    """A function that makes a ComplexTensor held in either form, of a shape and dtype."""

    def make(*shape, dtype=torch.float32):
        if request.param == "native":
            return ComplexTensor(native(*shape, dtype=dtype))
        return in_parts(*parts(*shape, dtype=dtype))

    return make


class TestEitherForm:
    def test_size_and_length(self, make):
        z = make(3, 4)
        assert (len(z), z.ndim, z.dim(), z.numel()) == (3, 2, 2, 12)
        assert (z.size(), z.size(-1)) == ((3, 4), 4)
        assert z.is_complex()
        assert torch.is_complex(z)
        with pytest.raises(TypeError, match="0-d"):
            len(z[0, 0])

    def test_iterates_over_the_first_dimension(self, make):
        z = make(3, 4)
        rows = list(z)
        assert [row.tolist() for row in rows] == z.tolist()
        assert isinstance(rows[0], ComplexTensor)

    def test_values_leave_as_python_and_numpy(self, make):
        z, want = make(2, 3), native(2, 3).numpy()
        assert z.tolist() == want.tolist()
        assert np.array_equal(z.numpy(), want)
        assert np.array_equal(np.asarray(z), want)
        assert np.asarray(z, dtype=np.complex128).dtype == np.complex128
        assert complex(z[1, 2]) == z[1, 2].item() == want[1, 2]
        assert bool(z[0, 0] * 0 + 1j)
        assert not bool(z[0, 0] * 0)

    def test_repr_shows_shape_dtype_and_values(self, make):
        text = repr(make(2, 3).requires_grad_())
        assert text.startswith("ComplexTensor([[")
        assert text.endswith("shape=(2, 3), dtype=torch.complex64, requires_grad=True)")
        assert "3.8750" in repr(ComplexTensor(torch.tensor([3.875])))

    @pytest.mark.parametrize(
        "again",
        [copy.deepcopy, lambda z: pickle.loads(pickle.dumps(z)), ComplexTensor.clone],
        ids=["deepcopy", "pickle", "clone"],
    )
    def test_copies_are_equal_and_apart(self, make, again):
        z = make(3)
        w = again(z)
        assert_parts(w, z.real, z.imag)
        w[0] = 100
        assert z[0].item() != 100

    def test_copy_shares_memory(self, make):
        z = make(3)
        copy.copy(z)[0] = 100
        assert z[0].item() == 100

    @pytest.mark.parametrize("dtype", REAL_DTYPES)
    def test_to_dtype(self, make, dtype):
        z = make(4)
        assert_parts(z.to(dtype), z.real.to(dtype), z.imag.to(dtype))
        assert_parts(z.to("cpu", dtype=dtype), z.real.to(dtype), z.imag.to(dtype))

    def test_to_takes_what_tensors_take(self, make):
        z = make(4)
        assert z.to(torch.complex128).dtype == torch.complex128
        assert z.to(make(2, dtype=torch.float64)).dtype == torch.complex128
        assert z.to(torch.ones(1).half()).dtype == torch.complex32
        assert z.to("meta").device.type == "meta"
        assert z.cpu().tolist() == z.tolist()

    @pytest.mark.parametrize(
        "key", [0, -1, slice(1, None), (slice(None), 2), ..., (None, 1), [2, 0], torch.tensor([1])]
    )
    def test_indexing(self, make, key):
        z, want = make(3, 4), native(3, 4)
        assert_parts(z[key], want[key].real, want[key].imag)
        values = [5, 2.5, 1 - 2j, ComplexTensor(native(1)), native(1), torch.tensor([3.0])]
        for value in values:
            z[key] = value
            # A native tensor is not indexed by lists with values of another dtype.
            want[key] = (
                ComplexTensor(value).to_torch_complex() if hasattr(value, "shape") else value
            )
            assert_parts(z, want.real, want.imag)

    def test_a_part_is_assigned_by_value(self, make):
        z = make(3)
        source = torch.arange(3.0)
        z.real, z.imag = source, -1
        source[0] = 9
        assert z.tolist() == [0 - 1j, 1 - 1j, 2 - 1j]

    def test_hash_is_by_identity(self, make):
        z = make(1)
        assert {z: 1}[z] == 1
        assert z in {z}
        assert hash(z) != hash(z.clone())


PRODUCTS = [
    ((4, 4), (4, 4)),
    ((3, 5), (5, 2)),
    ((5,), (5,)),
    ((5,), (5, 2)),
    ((3, 5), (5,)),
    ((2, 1, 3, 5), (4, 5, 2)),
    ((0, 5), (5, 3)),
    ((3, 0), (0, 2)),
]


class TestMatmul:
    @each_case("dtype", REAL_DTYPES)
    @each_case(("a", "b"), PRODUCTS)
    def test_against_numpy(self, a, b, dtype):
        z, w = ComplexTensor(*parts(*a, dtype=dtype)), ComplexTensor(*parts(*b, dtype=dtype))
        got = complex_matmul(z, w)
        assert got.part_dtype == dtype
        # Products of multiples of 1/8 below 4, and sums of 10 of them, fit 16 bits: exact in
        # float32, and one rounding of each real product and of their sum in the halves.
        u = 0 if dtype.itemsize > 2 else torch.finfo(dtype).eps / 2
        want = np.matmul(np.asarray(z, np.complex128), np.asarray(w, np.complex128))
        size = np.matmul(np.abs(z), np.abs(w)) if u else np.zeros(want.shape)
        assert got.shape == want.shape
        off = np.asarray(got, np.complex128) - want
        assert (np.maximum(abs(off.real), abs(off.imag)) <= 3 * u * size).all()

    def test_takes_native_and_real_tensors(self):
        z, x = native(3, 4), torch.arange(8.0).reshape(4, 2)
        want = torch.matmul(z, x + 0j).tolist()
        assert complex_matmul(z, x).tolist() == want
        assert complex_matmul(ComplexTensor(z), x).tolist() == want
        assert complex_matmul(x.T, ComplexTensor(z).mT).mT.tolist() == want

    @each_case(
        ("a", "b", "text"),
        [
            ((4, 8), (7, 3), r"contracted dimension, got \(4, 8\) and \(7, 3\)"),
            ((), (3,), "at least one dimension"),
            ((2, 3, 4), (5, 4, 3), "batches of a and b must broadcast"),
        ],
    )
    def test_shapes_that_do_not_fit(self, a, b, text):
        with pytest.raises(ShapeError, match=text):
            complex_matmul(ComplexTensor(torch.ones(a)), ComplexTensor(torch.ones(b)))

    def test_dtypes_that_do_not_fit(self):
        with pytest.raises(DTypeError, match="complex_matmul: a and b must have one dtype"):
            complex_matmul(torch.ones(2, 2), torch.ones(2, 2).double())
        with pytest.raises(DTypeError, match=r"b must be a torch\.Tensor, got list"):
            complex_matmul(torch.ones(2, 2), [1])
