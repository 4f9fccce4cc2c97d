"""Matrices that are none are refused when they are made, with the argument in the message."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsparse as ts
from each_case import each_case

VALUES = torch.ones(3)
COLUMNS = torch.tensor([0, 2, 1])
POINTERS = torch.tensor([0, 2, 3])
BLOCKS = torch.ones(1, 2, 2)


def csr(values=VALUES, columns=COLUMNS, pointers=POINTERS, shape=(2, 3), **options):
    return ts.CSRMatrix(values, columns, pointers, shape, **options)


BAD = {
    "row_ptrs must not decrease": {"pointers": torch.tensor([0, 4, 3])},
    "row_ptrs must go from 0": {"pointers": torch.tensor([0, 2, 2])},
    "row_ptrs must have 3 elements": {"pointers": torch.tensor([0, 3])},
    "col_indices must be from 0 to 2, got 3": {"columns": torch.tensor([0, 3, 1])},
    "col_indices must be from 0 to 2, got -1": {"columns": torch.tensor([0, -1, 1])},
    "col_indices must have one element": {"columns": torch.tensor([0, 1])},
    "col_indices must be 1-D": {"columns": COLUMNS[None]},
    "shape must be two integers": {"shape": (2, 3, 4)},
    "shape must be an integer of at least 0": {"shape": (2, -3)},
}


@each_case("message", BAD)
def test_indices_that_describe_no_matrix_are_value_errors(message):
    with pytest.raises(ValueError, match=message):
        csr(**BAD[message])


def test_one_decreasing_pointer_names_its_place():
    with pytest.raises(ValueError, match="got 3 before 2 at 1"):
        csr(
            values=torch.ones(4),
            columns=torch.zeros(4).long(),
            pointers=torch.tensor([0, 3, 2, 4]),
            shape=(3, 3),
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": torch.ones(3, dtype=torch.int64)}, "values must be floating point"),
        ({"values": torch.ones(3, dtype=torch.bool)}, "values must be floating point"),
        ({"values": [1.0, 2.0, 3.0]}, "values must be a torch.Tensor, got list"),
        ({"columns": torch.ones(3)}, "col_indices must be int32 or int64"),
        ({"columns": COLUMNS.int()}, "row_ptrs and col_indices must have one dtype"),
    ],
)
def test_dtypes_that_do_not_fit_are_type_errors(change, message):
    with pytest.raises(TypeError, match=message):
        csr(**change)


def test_tensors_on_two_devices_are_refused():
    with pytest.raises(RuntimeError, match="col_indices must be on the device of the values"):
        csr(columns=COLUMNS.to("meta"))


def test_checks_can_be_left_out():
    assert csr(columns=torch.tensor([0, 7, 1]), validate=False).nnz == 3


def test_other_formats_check_too():
    one = torch.tensor([0])
    with pytest.raises(ValueError, match="COOMatrix: row_indices must be from 0 to 1, got 2"):
        ts.COOMatrix(VALUES, torch.tensor([0, 2, 1]), COLUMNS, (2, 3))
    with pytest.raises(ValueError, match="COOMatrix: col_indices must have one element"):
        ts.COOMatrix(VALUES, torch.tensor([0, 1, 1]), COLUMNS[:2], (2, 3))
    with pytest.raises(ValueError, match="CSCMatrix: col_ptrs must have 4 elements"):
        ts.CSCMatrix(VALUES, COLUMNS, POINTERS, (3, 3))
    with pytest.raises(ValueError, match="BSRMatrix: blocks must end in"):
        ts.BSRMatrix(BLOCKS, one, torch.tensor([0, 1]), (2, 2), block_size=4)
    with pytest.raises(ValueError, match="BSRMatrix: block_col_indices must be from 0 to 0, got 1"):
        ts.BSRMatrix(BLOCKS, one + 1, torch.tensor([0, 1]), (2, 2), block_size=2)
    with pytest.raises(ValueError, match="block_size"):
        ts.BSRMatrix.from_dense(torch.eye(2), block_size=0)
    with pytest.raises(ValueError, match="ELLMatrix: col_indices must be from -1 to 1, got 2"):
        ts.ELLMatrix(torch.ones(2, 1), torch.tensor([[0], [2]]), (2, 2))
    with pytest.raises(ValueError, match="ELLMatrix: values must end in the shape"):
        ts.ELLMatrix(torch.ones(2, 2), torch.tensor([[0], [1]]), (2, 2))


@pytest.mark.parametrize("error", [ValueError, AssertionError])
def test_operands_that_do_not_fit(error):
    A = csr()
    for call in (
        lambda: ts.spmv(A, torch.ones(2)),
        lambda: ts.spmm(A, torch.ones(2, 2)),
        lambda: ts.spmm(A, torch.ones(3)),
        lambda: ts.spmv(A, torch.ones(3, 1)),
        lambda: ts.spmv_symmetric(A, torch.ones(3)),
        lambda: A + ts.eye_sparse(2),
        lambda: ts.spgemm(A, A),
        lambda: A * torch.ones(2),
        lambda: ts.sddmm(A, torch.ones(2, 4), torch.ones(3, 5)),
        lambda: ts.sddmm(A, torch.ones(3, 4), torch.ones(3, 4)),
        lambda: ts.spmm(A.to_bsr(2), torch.ones(4, 1)),
    ):
        with pytest.raises(error):
            call()


def test_operands_of_another_dtype_or_kind():
    A = csr()
    with pytest.raises(TypeError, match="one dtype"):
        A @ torch.ones(3, dtype=torch.float64)
    with pytest.raises(TypeError, match="A must be a sparse matrix, got Tensor"):
        ts.spmm(torch.ones(2, 3), torch.ones(3, 1))
    with pytest.raises(TypeError, match="BSRMatrix"):
        ts.bsr_spmm(A, torch.ones(3, 1))
    with pytest.raises(TypeError, match="SciPy"):
        ts.from_scipy(torch.ones(2))
    with pytest.raises(ValueError, match="uplo"):
        ts.spmv_symmetric(ts.eye_sparse(2), torch.ones(2), uplo="middle")
    with pytest.raises(ValueError, match="exponent must be positive"):
        A.power(-1)
    with pytest.raises(ValueError, match="format must be one of"):
        A.asformat("dia")


def test_a_pattern_whose_indices_were_changed_in_place_is_found_out_again():
    A = csr()
    A @ torch.ones(3)
    A.T.to_dense()
    A.col_indices[0] = 1
    assert torch.equal(A.to_dense(), torch.tensor([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]]))
    assert torch.equal(A.T.to_dense(), A.to_dense().T)


@each_case(
    "make",
    [
        lambda: ts.from_dense(torch.eye(2, dtype=torch.int64)),
        lambda: ts.BSRMatrix.from_dense(torch.eye(2, dtype=torch.bool)),
        lambda: ts.eye_sparse(2, dtype=torch.int32),
        lambda: ts.eye_sparse(2).to(torch.int64),
        lambda: ts.eye_sparse(2).to_bsr(2).to(torch.int64),
        lambda: ts.from_scipy(sp.csr_array(np.eye(2, dtype=np.longdouble))),
    ],
    ids=["from_dense", "from_dense in blocks", "eye_sparse", "to", "to of blocks", "longdouble"],
)
def test_no_way_leads_to_entries_that_the_constructor_refuses(make):
    with pytest.raises(TypeError, match=r"floating point|numbers|torch has no"):
        make()


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_what_is_no_number_is_not_dropped_by_a_threshold(threshold):
    dense = torch.tensor([[torch.nan, 0.0], [0.1, 1.0]])
    for made in (
        ts.from_dense(dense, threshold),
        ts.BSRMatrix.from_dense(dense, 1, threshold),
        ts.BSRMatrix.from_csr(ts.from_dense(dense), 1, threshold),
    ):
        assert made.to_dense()[0, 0].isnan()
        assert float(made.to_dense()[1, 0]) == (0.0 if threshold else pytest.approx(0.1))


@pytest.mark.parametrize("uncounted", ["data", "inference mode", "numpy"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", ["csr", "csc", "coo", "bsr", "ell"])
def test_changes_of_indices_past_autograd_leave_one_matrix(name, given, uncounted):
    """Torch counts changes under inference mode: they are noticed; the others have no effect."""
    pointers, indices, values = torch.arange(4), torch.tensor([2, 0, 1]), torch.arange(1.0, 4.0)
    A = {
        "csr": lambda: ts.CSRMatrix(values, indices, pointers, (3, 3)),
        "csc": lambda: ts.CSCMatrix(values, indices, pointers, (3, 3)),
        "coo": lambda: ts.COOMatrix(values, indices, pointers[:3], (3, 3)),
        "bsr": lambda: ts.BSRMatrix(values.reshape(3, 1, 1), indices, pointers, (3, 3), 1),
        "ell": lambda: ts.ELLMatrix(values[:, None], indices[:, None], (3, 3)),
    }[name]()
    if not given:
        A = A * 2.0
    x = torch.tensor([1.0, 10.0, 100.0])
    before = A.to_dense()
    assert torch.equal(A.T @ x, before.T @ x)  # fills the caches
    assert torch.equal(A @ x, before @ x)
    names = {"csc": "row_indices", "coo": "row_indices", "bsr": "block_col_indices"}
    held = getattr(A, names.get(name, "col_indices"))
    if uncounted == "data":
        held.data.fill_(1)
    elif uncounted == "numpy":
        held.numpy()[:] = 1
    else:
        with torch.inference_mode():
            held.fill_(1)
    dense = A.to_dense()
    assert torch.equal(dense, before) == (uncounted != "inference mode")
    assert torch.equal(A @ x, dense @ x)
    assert torch.equal(A.T.to_dense(), dense.T)
    assert torch.equal(A.to_csr().to_dense(), dense)
    assert np.array_equal(A.to_scipy().toarray(), dense.numpy())
