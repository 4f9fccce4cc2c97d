"""The sample calls are what they claim to be: legal, and at least one for every instruction."""

import pytest

import nkisim
from comparing import assert_same_bits
from each_case import each_case
from nkisim.spec.instruction import INSTRUCTIONS

from .samples import SAMPLES, run

each_sample = each_case("sample", [pytest.param(s, id=s.name) for s in SAMPLES])


def test_every_declared_instruction_has_a_sample():
    assert {sample.instruction for sample in SAMPLES} == set(INSTRUCTIONS)


def test_samples_have_names_of_their_own():
    assert len({sample.name for sample in SAMPLES}) == len(SAMPLES)


@each_sample
def test_a_sample_is_legal_on_all_its_generations(sample):
    for target in sample.targets:
        outcome = run(sample, target=target)
        assert not outcome.findings, [str(finding) for finding in outcome.findings]


@each_sample
def test_check_and_simulate_compute_the_same(sample):
    checked, simulated = run(sample), run(sample, entry=nkisim.simulate)
    assert list(checked.outputs) == list(simulated.outputs)
    for name, output in checked.outputs.items():
        assert_same_bits(simulated.outputs[name], output)
