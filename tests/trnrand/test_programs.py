"""Filling buffers: the ``*_into`` functions, and programs of several draws."""

import pytest
import torch

import trnrand
from each_case import each_case
from trnrand import Generator, GeneratorProgram
from trnrand.nki.program import ProgramBuilder

INTO = {
    "normal": (trnrand.normal_into, trnrand.normal, {"mean": 5.0, "std": 2.0}),
    "uniform": (trnrand.uniform_into, trnrand.uniform, {"low": -1.0, "high": 2.0}),
    "exponential": (trnrand.exponential_into, trnrand.exponential, {"rate": 3.0}),
}


@each_case("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@each_case("name", INTO)
def test_into_fills_with_what_the_function_returns(name, dtype):
    fill, draw, parameters = INTO[name]
    for buffer in (torch.empty(3, 7, dtype=dtype), torch.empty(7, 6, dtype=dtype)[:, ::2]):
        place = buffer.data_ptr()
        assert fill(buffer, **parameters, generator=Generator(5)) is None
        assert buffer.data_ptr() == place
        want = draw(*buffer.shape, **parameters, dtype=dtype, generator=Generator(5))
        assert torch.equal(buffer, want)


def test_into_takes_parameters_by_position():
    buffer = torch.empty(4)
    trnrand.normal_into(buffer, 100.0, 1.0, Generator(1))
    assert (buffer > 50).all()


@each_case("n", [1, 100, 1000, 16384, 16385])
def test_a_program_draws_what_a_generator_draws(n):
    program = ProgramBuilder(seed=9).normal(n).uniform(n, high=2.0).exponential(n, rate=2.0).build()
    buffers = {"z": torch.empty(n), "u": torch.empty(n), "e": torch.empty(n, 1)}
    generator = Generator(9)
    for _ in range(2):  # the second call goes on in the stream
        assert program.stream_into(buffers) is None
        assert torch.equal(buffers["z"], trnrand.normal(n, generator=generator))
        assert torch.equal(buffers["u"], trnrand.uniform(n, high=2.0, generator=generator))
        want = trnrand.exponential(n, 1, rate=2.0, generator=generator)
        assert torch.equal(buffers["e"], want)


@each_case("size", [1, 2, 5])
def test_programs_of_ranks_together_are_that_of_one(size):
    def run(rank, ranks, n):
        generator = Generator(4, "cpu", rank, ranks)
        generator.advance(1000)
        program = generator.new_program().normal(n, out="a").uniform(n, out="b").build()
        assert program._counter == 2
        buffers = {"a": torch.empty(n), "b": torch.empty(n)}
        program.stream_into(buffers)
        program.stream_into(buffers)
        return buffers

    whole = run(0, 1, 60 * size)
    parts = [run(rank, size, 60) for rank in range(size)]
    for name in "ab":
        assert torch.equal(torch.cat([part[name] for part in parts]), whole[name])


def test_a_builder_remembers_its_generator():
    generator = Generator(6, "cpu", 1, 3, "threefry")
    generator.skip(513)
    builder = generator.new_program()
    fields = (builder._seed, builder._partition_rank, builder._partition_size)
    assert (*fields, builder._counter_start) == (6, 1, 3, 2)
    program = builder.normal(5).build()
    assert (program._partition_rank, program._partition_size, program._counter) == (1, 3, 2)
    program.stream_into({"z": torch.empty(5)})
    assert generator.offset == 513
    assert ProgramBuilder()._seed == 0


def test_programs_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="no distribution steps"):
        ProgramBuilder().build()
    with pytest.raises(ValueError, match="size must be non-negative"):
        ProgramBuilder().normal(-1)
    program = ProgramBuilder().normal(4).uniform(5).build()
    before = program._generator.offset
    with pytest.raises(KeyError, match="u"):
        program.stream_into({"z": torch.empty(4)})
    with pytest.raises(ValueError, match=r"buffer 'u' must have 5 elements, got \(4,\)"):
        program.stream_into({"z": torch.empty(4), "u": torch.empty(4)})
    with pytest.raises(ValueError, match="buffer 'z' must be a tensor of floats"):
        program.stream_into({"z": torch.empty(4).int(), "u": torch.empty(5)})
    assert program._generator.offset == before


def test_programs_can_be_made_of_steps():
    steps = ProgramBuilder().normal(3, out="x").build().steps
    program = GeneratorProgram(steps, seed=2, counter_start=1)
    buffer = torch.empty(3)
    program.stream_into({"x": buffer})
    generator = Generator(2)
    generator.seek(512)
    assert torch.equal(buffer, trnrand.normal(3, generator=generator))
