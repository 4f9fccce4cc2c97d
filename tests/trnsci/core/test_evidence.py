"""How far results are from what they must be, and the kernels of a library by their sources."""

from __future__ import annotations

import sys

import pytest
import torch

from trnsci.core.evidence import Case, KernelSource, kernels_of, launcher, product_bound
from trnsci.core.evidence import relative_error as error

INF = float("inf")


def test_the_error_is_the_distance_over_the_length():
    got, want = torch.tensor([3.0, 8.0]), torch.tensor([3.0, 4.0])
    assert error(got, want) == pytest.approx(4 / 5)
    assert error(want, want) == 0.0
    assert error(2.0, torch.tensor(4.0)) == 0.5


def test_parts_of_a_result_count_together():
    got = (torch.tensor([3.0]), torch.tensor([8.0]))
    assert error(got, [torch.tensor([3.0]), torch.tensor([4.0])]) == pytest.approx(4 / 5)
    assert error((torch.ones(2),), (torch.ones(2), torch.ones(2))) == INF
    assert error((torch.ones(2), torch.ones(2)), torch.ones(2)) == INF


def test_complex_numbers_differ_by_their_magnitudes():
    got, want = torch.tensor([3 + 4j]), torch.tensor([0j])
    assert error(got, want) == 5.0  # of nothing, the distance itself
    assert error(want, got) == 1.0
    # A difference that float32 does not show.
    wide = torch.tensor([1 + 1e-9j], dtype=torch.complex128)
    assert error(wide, torch.tensor([1 + 0j])) == pytest.approx(1e-9)


def test_other_shapes_and_nan_are_infinitely_far():
    assert error(torch.ones(2), torch.ones(1, 2)) == INF
    assert error(torch.tensor([float("nan")]), torch.ones(1)) == INF
    assert error(torch.ones(1), torch.tensor([float("nan")])) == INF


def test_the_bound_of_a_product_grows_with_its_depth_and_its_cancellation():
    ones = torch.ones(2, 3)
    assert product_bound(ones, ones.mT) == pytest.approx(3 * 2.0**-24)
    a, b = torch.tensor([[3.0, 2.0]]), torch.tensor([[1.0], [-1.0]])
    assert product_bound(a, b) == pytest.approx(2 * 2.0**-24 * 5 / 1)
    batch = torch.ones(7, 2, 3)
    assert product_bound(batch, batch.mT) == pytest.approx(3 * 2.0**-24)


def test_a_case_is_public_and_not_decided_by_values_unless_it_says_so():
    case = Case("kernel", "title", tuple, sum, sum, "by hand", float)
    assert case.public
    assert not case.decided_by_values


KERNELS = '''"""Sums of rows.

Lever    one pass over
         the free dimension
Limits   none
"""

from nki import jit, nki

@nki.jit
def sums(x): ...

@nki.jit(platform="gen3")
def more(x): ...

@jit
def no_kernel(x): ...

def helper(x): ...
'''


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "trnlaid" / "_kernels"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError('imported')")
    (folder / "rows.py").write_text(KERNELS)
    (folder / "a_plain.py").write_text("@nki.jit\ndef plain(x): ...\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return "trnlaid"


def test_kernels_are_found_in_the_sources(library):
    lever = "one pass over the free dimension"
    assert kernels_of(library) == (
        KernelSource(library, "plain", "trnlaid._kernels.a_plain", "", ""),
        KernelSource(library, "sums", "trnlaid._kernels.rows", "Sums of rows.", lever),
        KernelSource(library, "more", "trnlaid._kernels.rows", "Sums of rows.", lever),
    )


def test_what_is_not_installed_or_no_file_has_no_kernels(tmp_path, monkeypatch):
    (tmp_path / "trnfolder").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert kernels_of("trnnothing") == kernels_of("trnfolder") == ()


@pytest.mark.parametrize(
    ("backend", "path"), [("pytorch", "simulator"), ("simulator", "simulator"), ("nki", "nki")]
)
def test_a_kernel_is_launched_on_the_device_only_where_the_backend_says(backend, path, monkeypatch):
    from trnsci.core.backend.library import Library

    monkeypatch.setattr("trnsci.core.backend.library.has_aws_nki", lambda: True)
    chosen = Library("trnchosen")
    with chosen.backend(backend):
        assert launcher(chosen).path == path
