"""The backend of a library: who chooses it, for whom, and what it resolves to."""

import asyncio
import contextvars
import threading

import pytest

from trnsci.core.backend.library import Library
from trnsci.core.errors import BackendError, FlagError, TrnsciError


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_auto_is_the_backend_that_nobody_chose(library):
    assert library.get_backend() == "auto"
    assert library.path() == "pytorch"
    assert library.kernels_wanted() is None


@pytest.mark.parametrize("name", ["auto", "pytorch", "simulator"])
def test_get_backend_returns_what_was_asked_for(library, name):
    library.set_backend(name)
    assert library.get_backend() == name


@pytest.mark.parametrize("name", ["cuda", "NKI", "", None, 1])
def test_an_unknown_name_is_refused_with_the_accepted_ones(library, name):
    said = rf"^{library.name}\.set_backend: got {name!r}, accepted: auto, pytorch, nki, simulator$"
    with pytest.raises(ValueError, match=said) as caught:
        library.set_backend(name)
    assert isinstance(caught.value, TrnsciError)
    assert library.get_backend() == "auto"
    with pytest.raises(ValueError, match=rf"\.backend: got {name!r}"), library.backend(name):
        pytest.fail("entered")


def test_nki_without_nki_says_what_is_missing_and_what_to_do(library):
    with pytest.raises(RuntimeError) as caught:
        library.set_backend("nki")
    assert isinstance(caught.value, BackendError)
    said = str(caught.value)
    for part in ("nki>=0.3.0", "Neuron SDK 2.29", library.use_simulator.name, "'simulator'"):
        assert part in said
    assert library.get_backend() == "auto"
    with pytest.raises(BackendError), library.backend("nki"):
        pytest.fail("entered")


class TestResolution:
    @pytest.mark.parametrize(
        ("requested", "path"),
        [("auto", "simulator"), ("pytorch", "pytorch"), ("nki", "simulator")],
    )
    @pytest.mark.parametrize("umbrella", [True, False])
    def test_in_simulator_mode(self, make_library, requested, path, umbrella):
        library = make_library(umbrella, USE_SIMULATOR="1")
        library.set_backend(requested)
        assert library.path() == path
        assert (library.kernels_wanted() is None) == (path == "pytorch")

    def test_simulator_needs_no_variable(self, library):
        library.set_backend("simulator")
        assert library.path() == "simulator"

    def test_variables_are_read_when_the_library_is_made(self, make_library, monkeypatch):
        library = make_library(USE_SIMULATOR="1", REQUIRE_NKI="all")
        monkeypatch.setenv(library.use_simulator.name, "0")
        monkeypatch.setenv(library.require_nki.name, "0")
        assert (library.path(), library.required()) == ("simulator", "all")

    @pytest.mark.parametrize("backend", ["auto", "simulator"])
    @pytest.mark.parametrize("what", ["USE_SIMULATOR", "REQUIRE_NKI"])
    def test_a_variable_without_meaning_is_refused_by_the_call(self, make_library, what, backend):
        library = make_library(**{what: "sure"})
        library.set_backend(backend)
        for _ in range(2):
            with pytest.raises(FlagError, match=rf"_{what}: got 'sure', accepted: 1, "):
                library.path()
        library.set_backend("pytorch")
        assert library.path() == "pytorch"

    def test_a_requirement_and_a_backend_combine_in_any_order(self, library):
        with library.requiring("1"), library.backend("simulator"):
            assert (library.path(), library.required()) == ("simulator", "1")
        with library.backend("simulator"), library.requiring("all"):
            assert (library.path(), library.required()) == ("simulator", "all")
        with library.requiring("1"):
            assert library.path() == "nki"
        assert (library.path(), library.required()) == ("pytorch", "")

    def test_auto_wants_a_device_and_not_only_the_wheel(self, library, monkeypatch):
        monkeypatch.setattr("trnsci.core.backend.library.has_aws_nki", lambda: True)
        assert library.has_nki
        assert library.path() == "pytorch"
        library.set_backend("nki")
        assert library.path() == "nki"

    def test_auto_wants_the_wheel_and_not_only_a_device(self, library, monkeypatch, fake_neuron):
        fake_neuron()
        assert library.path() == "nki"
        monkeypatch.setattr("trnsci.core.backend.library.has_aws_nki", lambda: False)
        assert library.path() == "pytorch"


class TestBlock:
    def test_it_chooses_inside_only(self, library):
        with library.backend("simulator"):
            assert (library.get_backend(), library.path()) == ("simulator", "simulator")
        assert library.get_backend() == "auto"

    def test_blocks_nest(self, library):
        with library.backend("simulator"):
            with library.backend("pytorch"):
                assert library.path() == "pytorch"
            assert library.path() == "simulator"

    def test_an_exception_ends_it(self, library):
        with pytest.raises(KeyError), library.backend("simulator"):
            raise KeyError
        assert library.get_backend() == "auto"

    def test_set_backend_inside_ends_with_it(self, library):
        library.set_backend("pytorch")
        with library.backend("simulator"):
            library.set_backend("auto")
            assert library.get_backend() == "auto"
        assert library.get_backend() == "pytorch"

    def test_libraries_do_not_meet(self, library):
        other = Library("trnother")
        with library.backend("simulator"):
            assert other.get_backend() == "auto"


class TestThreads:
    def test_set_backend_is_for_all_threads(self, library):
        library.set_backend("simulator")
        assert in_thread(library.get_backend) == "simulator"
        in_thread(lambda: library.set_backend("pytorch"))
        assert library.get_backend() == "pytorch"

    def test_a_block_is_for_its_thread(self, library):
        with library.backend("simulator"):
            assert in_thread(library.get_backend) == "auto"

    def test_a_thread_in_a_copy_of_the_context_sees_the_block(self, library):
        with library.backend("simulator"):
            context = contextvars.copy_context()
        assert in_thread(lambda: context.run(library.get_backend)) == "simulator"

    def test_blocks_of_two_threads_overlap(self, library):
        together = threading.Barrier(2, timeout=60)
        found = {}

        def choose(name):
            with library.backend(name):
                together.wait()
                found[name] = library.get_backend()
                together.wait()

        threads = [threading.Thread(target=choose, args=(n,)) for n in ("simulator", "pytorch")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {"simulator": "simulator", "pytorch": "pytorch"}

    def test_blocks_of_two_tasks_overlap(self, library):
        async def choose(name):
            with library.backend(name):
                await asyncio.sleep(0)
                return library.get_backend()

        async def both():
            return await asyncio.gather(choose("simulator"), choose("pytorch"))

        assert asyncio.run(both()) == ["simulator", "pytorch"]
