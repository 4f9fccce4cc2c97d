"""What samplers share: groups, attempts, chunks, weights."""

import numpy as np
import pytest
import torch

import trnrand
from trnrand import Generator
from trnrand._sampling.samplers import accepted, at, by_group, many, open_units, units
from trnrand._sampling.weights import of_rows, of_weights, scaled_weights
from trnrand._stream.words import WIDE, Domain, Source, paired, unit53

CPU = torch.device("cpu")
F64 = torch.float64


@pytest.mark.parametrize("offsets", [5, torch.tensor([7, 3, 9, 4, 6])])
def test_the_first_accepted_proposal_counts(offsets):
    """Sample i is accepted in its attempt i; those accepted are not asked for again."""
    calls = []

    def propose(some, places, attempt):
        which = torch.arange(places) if isinstance(places, int) else places
        there = which if isinstance(offsets, int) else offsets[which]
        assert isinstance(some, int) or torch.equal(some, there)
        calls.append(which.tolist())
        return 100.0 * attempt + which, which <= attempt

    got = accepted(offsets, propose)
    assert got.tolist() == [0, 101, 202, 303, 404]
    assert calls == [[0, 1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4], [3, 4], [4]]


def test_a_sampler_that_accepts_nothing_ends(monkeypatch):
    monkeypatch.setattr("trnrand._sampling.samplers._ATTEMPTS", 4)
    attempts = []

    def propose(some, places, attempt):
        attempts.append(attempt)
        n = many(places)
        return torch.zeros(n), torch.zeros(n, dtype=torch.bool)

    with pytest.raises(RuntimeError, match="no value in"):
        accepted(3, propose)
    assert attempts == [0, 1, 2, 3]


@pytest.mark.parametrize("offsets", [4, torch.tensor([10, 11, 15, 19])])
def test_groups_have_their_own_samplers(offsets):
    first = torch.tensor([True, False, False, True])
    parameter = torch.tensor([0.1, 0.2, 0.3, 0.4])
    names = [[0, 3], [1, 2]]

    def sampler(number):
        def draw(source, some, p, q):
            where = torch.tensor(names[number])
            want = where if isinstance(offsets, int) else offsets[where]
            assert torch.equal(some, want)
            assert torch.equal(p, parameter[where])
            assert q == 5.0
            return p + number

        return draw

    got = by_group(None, offsets, first, (sampler(0), sampler(1)), parameter, 5.0)
    assert torch.allclose(got, torch.tensor([0.1, 1.2, 1.3, 0.4]))
    alone = by_group(None, 3, True, (lambda s, n: n, lambda s, n: -n))
    assert alone == 3
    assert by_group(None, 3, False, (lambda s, n: n, lambda s, n: -n)) == -3


def test_parameters_of_some_samples():
    values = torch.tensor([1.0, 2.0, 3.0])
    some = torch.tensor([2, 0])
    assert at(values, some).tolist() == [3.0, 1.0]
    assert at(values, 3) is values
    assert at(4.0, some) == 4.0
    assert float(at(torch.tensor(5.0), some)) == 5.0


def test_units_are_of_two_words_and_open_ones_have_no_zero(monkeypatch):
    source = Source("philox", 3, 5, CPU)
    words = source.words(Domain.LAPLACE | WIDE, 20, 2)
    assert torch.equal(units(source, Domain.LAPLACE, 10), unit53(paired(words)))
    assert torch.equal(open_units(source, Domain.LAPLACE, 10), unit53(paired(words)))
    monkeypatch.setattr(Source, "words", lambda self, d, n, e=1: torch.zeros(n, dtype=torch.int32))
    assert open_units(source, Domain.LAPLACE, 2).tolist() == [2.0**-54] * 2


def test_bits_of_a_uniform():
    """27 bits of the first word, 26 of the second, the low 5 and 6 of them left out."""
    for low, high, want in [
        (0xFFFFFFFF, 0xFFFFFFFF, 1 - 2.0**-53),
        (0x80000000, 0, 0.5),
        (0x1F, 0x3F, 0.0),
        (0x20, 0, 2.0**-27),
        (0, 0x40, 2.0**-53),
        (0, 0x80000000, 2.0**-28),
    ]:
        words = torch.tensor(np.array([low, high], np.uint32).view(np.int32))
        assert unit53(paired(words)).tolist() == [want]


# -- weights ---------------------------------------------------------------------------------------


class Aimed:
    """A source whose uniforms are chosen."""

    device = CPU

    def __init__(self, u):
        self._u = np.asarray(u)

    def words(self, domain, count, per_sample):
        steps = (self._u * 2.0**53).astype(np.int64)
        pairs = (steps >> 26 << 5) | (steps & (2**26 - 1)) << 38
        return torch.from_numpy(pairs.view(np.int32))


def test_bounds_of_weights_belong_to_the_next():
    weights = torch.tensor([0.0, 1.0, 0.0, 2.0, 1.0, 0.0], dtype=F64)
    u = np.array([0.0, 0.25 - 2.0**-53, 0.25, 0.5, 0.75 - 2.0**-53, 0.75, 1 - 2.0**-53])
    want = [1, 1, 3, 3, 3, 4, 4]
    assert of_weights(weights)(Aimed(u), len(u)).tolist() == want
    rows = torch.stack([weights, torch.tensor([4.0, 0, 0, 0, 0, 0], dtype=F64)])
    which = torch.zeros(len(u), dtype=torch.int64)
    assert of_rows(rows)(Aimed(u), len(u), which).tolist() == want
    assert of_rows(rows)(Aimed(u), len(u), which + 1).tolist() == [0] * len(u)


def test_scaled_weights():
    rows = torch.tensor([[1e-320, 2e-320], [3.0, 1.0]], dtype=F64)
    assert scaled_weights("f", rows).amax(-1).tolist() == [1.0, 1.0]
    assert scaled_weights("f", rows)[1].tolist() == [1.0, 1 / 3]
    with pytest.raises(ValueError, match="f: p must have a positive weight in each row"):
        scaled_weights("f", torch.tensor([[1.0, 1.0], [0.0, 0.0]]))


def test_largest_indices_that_a_dtype_holds():
    assert trnrand.randperm(256, dtype=torch.uint8).max() == 255
    assert trnrand.randperm(2049, dtype=torch.float16).max() == 2048
    with pytest.raises(ValueError, match=r"dtype must hold n - 1, got torch.float16 and 2049"):
        trnrand.randperm(2050, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"dtype must hold n - 1, got torch.uint8 and 256"):
        trnrand.randperm(257, dtype=torch.uint8)


# -- integers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [3, 96, 2**31 + 1, 2**32 - 1, 2**32])
def test_bounded_integers_are_lemires(span, monkeypatch):
    """A word w gives floor(w span / 2**32), unless w span mod 2**32 is below 2**32 mod span."""
    edges = [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]
    # Words next to where the value changes, and where the rest is least.
    edges += [-(-v * 2**32 // span) + d for v in (1, 2, span - 1) for d in (-1, 0, 1)]
    words = [w for w in edges if 0 <= w < 2**32]
    as_bits = torch.tensor(np.array(words, np.uint32).view(np.int32))
    monkeypatch.setattr(Source, "words", lambda self, domain, n, each=1: as_bits[:n])
    asked = []

    def another(self, domain, offsets, attempt):
        asked.append(offsets.tolist())
        return torch.full((len(offsets),), -1, dtype=torch.int32)  # accepted, the last value

    monkeypatch.setattr(Source, "word_at", another)
    got = trnrand.randint(span, (len(words),), generator=Generator(1)).tolist()
    refused = [i for i, w in enumerate(words) if w * span % 2**32 < 2**32 % span]
    last = [(2**32 - 1) * span % 2**32 < 2**32 % span]
    assert last == [False]
    assert asked == ([refused] if refused else [])
    want = [span - 1 if i in refused else w * span >> 32 for i, w in enumerate(words)]
    assert got == want


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("span", [2**32 + 1, 2**40, 2**40 + 1, 2**62 + 5])
def test_wide_integers_are_masked_bits(span, tensors, monkeypatch):
    """As many low bits as span - 1 has; a value of span or more is drawn again."""
    bits = (span - 1).bit_length()
    pairs = [0, span - 1, span, (1 << bits) - 1, 1 << bits, 2**63 + 5, 2**64 - 1]
    blocks = np.zeros((len(pairs), 2), np.uint64)
    blocks[:, 0] = pairs
    asked = []

    def slots(self, domain, offsets, attempt=0):
        count = offsets if isinstance(offsets, int) else len(offsets)
        if attempt == 0:
            return torch.from_numpy(blocks.view(np.int32))
        asked.append(offsets.tolist())
        return torch.full((count, 4), 0, dtype=torch.int32)

    monkeypatch.setattr(Source, "slots", slots)
    high = torch.full((len(pairs),), span) if tensors else span
    got = trnrand.randint(high, (len(pairs),), generator=Generator(1)).tolist()
    masked = [p % 2**bits for p in pairs]
    refused = [i for i, m in enumerate(masked) if m >= span]
    assert asked == ([refused] if refused else [])
    assert got == [0 if m >= span else m for m in masked]
