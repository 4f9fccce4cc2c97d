"""How kernels get their operands and give back results, on the simulator and on a stand-in."""

from importlib import import_module

import pytest
import torch

from nkisim import NkiFindingWarning, NkiValidationError
from trnsci.core.backend.launch import Launcher
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, NkiFallbackWarning
from trnsci.core.testing import launched, random_tensor, strict_simulation

from .conftest import KERNELS

X, Y = random_tensor(4, 6), random_tensor(4, 6, seed=1)


@pytest.fixture
def kernels():
    return import_module(KERNELS)


class TestSimulator:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_results_are_tensors_of_the_kernels_dtype(self, kernels, dtype):
        launch = Launcher("simulator")
        got = launch(kernels.scaled_add_kernel, X.to(dtype), Y.to(dtype), 0.0)
        assert torch.equal(got, Y.to(dtype))
        assert launch.launches == 1
        assert counts().launches == {"scaled_add_kernel": 1}

    def test_several_results_are_a_tuple(self, kernels):
        def twice(x, y):
            return kernels.scaled_add_kernel(x, y, 1.0), kernels.scaled_add_kernel(x, y, -1.0)

        total, difference = Launcher("simulator")(twice, X, Y)
        assert torch.equal(total, X + Y)
        assert torch.equal(difference, Y - X)

    def test_every_bfloat16_pattern_arrives_and_comes_back(self, kernels):
        patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
        x = patterns.view(torch.bfloat16).reshape(128, 512)

        got = Launcher("simulator")(kernels.copy_kernel, x)
        assert torch.equal(got.view(torch.int16), x.view(torch.int16))

    def test_the_simulator_gets_dense_arrays_that_it_cannot_write_to(self, kernels, monkeypatch):
        seen = []

        def simulate(kernel):
            return lambda *args: seen.extend(args) or args[0]

        monkeypatch.setattr("trnsci.core.nki.nki.simulate", simulate)
        x, y = X.mT.requires_grad_(), Y.to(torch.bfloat16)[:, ::2]
        Launcher("simulator")(kernels.scaled_add_kernel, x, y, 2.0)
        assert [str(a.dtype) for a in seen[:2]] == ["float32", "bfloat16"]
        assert all(a.flags.c_contiguous and not a.flags.writeable for a in seen[:2])
        assert seen[2] == 2.0

    def test_a_failed_launch_is_not_counted(self, kernels):
        launch = Launcher("simulator")
        with pytest.raises(NkiValidationError):
            launch(kernels.scaled_add_kernel, X, Y.mT, 1.0)
        assert launch.launches == 0
        assert not counts().launches

    def test_the_generation_comes_from_the_environment(self, kernels, monkeypatch):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen99")
        with pytest.raises(ValueError, match="gen99"):
            Launcher("simulator")(kernels.scaled_add_kernel, X, Y, 1.0)

    @pytest.mark.cuda
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_results_come_back_to_a_cuda_device(self, kernels):
        got = Launcher("simulator")(kernels.scaled_add_kernel, X.cuda(), Y.cuda(), 1.0)
        assert got.device.type == "cuda"
        assert torch.equal(got.cpu(), X + Y)

    def test_a_device_other_than_the_cpu_gets_its_results_back(self, kernels, monkeypatch):
        # Nothing can be copied from `meta`, so the way to the CPU is a stand-in.
        monkeypatch.setattr(
            "trnsci.core.backend.launch.read_only_array_of", lambda t: torch.ones(t.shape).numpy()
        )
        got = Launcher("simulator")(kernels.scaled_add_kernel, X.to("meta"), Y.to("meta"), 1.0)
        assert (got.device.type, got.shape) == ("meta", X.shape)


class TestStrictSimulation:
    @pytest.fixture
    def operation(self, library, make_operation):
        with library.requiring("1"), library.backend("simulator"):
            yield make_operation("uninitialised")

    @pytest.mark.parametrize("generation", ["gen2", "gen3", "gen4"])
    def test_what_the_generation_refuses_is_refused(self, operation, generation):
        with strict_simulation(generation), pytest.raises(NkiValidationError):
            operation(X, X, 1.0)

    def test_outside_the_block_findings_are_warnings(self, operation):
        with strict_simulation("gen3"):
            pass
        with pytest.warns(NkiFindingWarning):
            operation(X, X, 1.0)

    @pytest.mark.parametrize("generation", ["gen2", "gen3", "gen4"])
    def test_a_clean_kernel_runs_and_shows_its_instructions(
        self, library, make_operation, generation
    ):
        events = []
        operation = make_operation()
        with (
            library.backend("simulator"),
            strict_simulation(generation, watchers=(events.append,)),
            launched("scaled_add_kernel"),
        ):
            operation(X, Y, 2.0)
        assert [event.instruction for event in events] == [
            "dma_copy",
            "dma_copy",
            "scalar_tensor_tensor",
            "dma_copy",
        ]


class TestFakeDevice:
    """The way to a NeuronCore and back, with torch's own devices in its place."""

    def test_the_kernel_gets_dense_tensors_without_a_graph(self, fake_neuron):
        fake_neuron("cpu")
        seen = []

        def kernel(x, y, alpha):
            seen.extend([x, y])
            return alpha * x + y

        x, y = X.mT.requires_grad_(), Y.mT
        got = Launcher("nki")(kernel, x, y, 2.0)
        assert torch.equal(got, 2.0 * x.detach() + y)
        assert all(t.is_contiguous() and not t.requires_grad for t in seen)
        assert counts().launches == {"kernel": 1}

    def test_operands_move_to_the_device_and_results_come_back(self, fake_neuron):
        fake_neuron("meta")
        seen = []

        def kernel(x):
            seen.append(x.device.type)
            return torch.ones(x.shape)

        assert Launcher("nki")(kernel, X).device.type == "cpu"
        assert seen == ["meta"]

    def test_results_of_resident_operands_stay(self, fake_neuron):
        fake_neuron("meta")
        resident = X.to("meta")
        seen = []

        def kernel(x):
            seen.append(x)
            return x + 1

        got = Launcher("nki")(kernel, resident)
        assert got.device.type == "meta"
        assert seen[0].data_ptr() == resident.data_ptr()

    def test_an_operation_takes_the_device_in_auto(
        self, library, make_operation, fake_neuron, monkeypatch
    ):
        fake_neuron("cpu")
        operation = make_operation()
        # On such a host an nki.jit kernel takes torch tensors; nkisim's does too.
        with launched("scaled_add_kernel"):
            got = operation(X, Y, 2.0)
        assert library.path() == "nki"
        assert torch.allclose(got, 2.0 * X + Y)

    def test_without_a_device_the_launch_fails(self, library, make_operation, monkeypatch):
        monkeypatch.setattr("trnsci.core.backend.library.has_aws_nki", lambda: True)
        library.set_backend("nki")
        operation = make_operation()
        with pytest.warns(NkiFallbackWarning, match="no NeuronCore can be reached"):
            assert torch.equal(operation(X, Y, 2.0), 2.0 * X + Y)
        with library.requiring("1"), pytest.raises(BackendError, match="no NeuronCore"):
            operation(X, Y, 2.0)
