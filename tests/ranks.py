"""Ranks of gloo for tests: pools of processes, counted bytes, live tensor bytes.

``pool(4).run(function, *arguments)`` calls a function of a module on each of four ranks and returns
what each of them returned. Processes start once per number of ranks and worker of pytest, as forks
of a process that has imported torch, and run one function after another in one process group.

The function is found in its file again, by name, so its module imports nothing relative to itself.
Arguments and results are pickled; a DTensor is neither. A function that raises on one rank ends
the pool, as the others may wait for that rank; the next ``pool`` starts a new one. Use ``refusal``
for errors that a test expects on every rank.
"""

import atexit
import importlib.util
import multiprocessing
import os
import pickle
import sys
import time
import traceback
import warnings
import weakref
from datetime import timedelta
from functools import cache
from itertools import product
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

SECONDS = 120
"""Time for one function; a collective fails after half of it."""
_POOLS = {}
_FAST = (3, (3,), (2, 2))
# DTensor imports torch._dynamo with its first operation, which takes 2 s. Every rank is a fork, so
# that what is imported here is imported once for all ranks of all pools.
_PRELOADED = [
    "ranks",
    "torch.distributed.tensor",
    "torch._dynamo",
    "scipy.sparse.linalg",
    "hypothesis",
    "trnblas.distributed",
    "trnfft.distributed",
    "trnrand.distributed",
    "trnsolver.distributed",
    "trnsparse.distributed",
    "trntensor.distributed",
]


def rank_numbers(values):
    """Return numbers of ranks, or meshes, as parameters of a test; all but two are slow tests."""
    return [x if x in _FAST else pytest.param(x, marks=pytest.mark.slow) for x in values]


def with_cases(meshes, some, every):
    """Return the same meshes with some cases, and, as slow tests, all meshes with all cases."""
    slow = [pytest.param(mesh, every, marks=pytest.mark.slow) for mesh in meshes]
    return [*((mesh, some) for mesh in meshes if mesh in _FAST), *slow]


def placements_of(mesh, ndim):
    """Return all placements of a tensor in which no dimension is split twice."""
    from torch.distributed.tensor import Replicate, Shard

    found = product((Replicate(), *map(Shard, range(ndim))), repeat=len(mesh))
    return [p for p in found if len(mesh) == 1 or p[0] != p[1] or p[0] == Replicate()]


def pool(size):
    """Return the processes of a number of ranks, started if there are none."""
    if size not in _POOLS:
        _POOLS[size] = Pool(size)
    return _POOLS[size]


class Pool:
    """Processes that are the ranks of one process group.

    A test that kills ranks, or lets them wait, makes one of its own and ends it.
    """

    def __init__(self, size):
        self.size = size
        self.folder = TemporaryDirectory(prefix="ranks-")
        self.connections, self.processes = [], []
        server = _server()
        for rank in range(size):
            here, there = server.Pipe()
            arguments = (rank, size, f"file://{self.folder.name}/store", there)
            process = server.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            there.close()
            self.connections.append(here)
            self.processes.append(process)

    def run(self, function, *arguments, ended=()):
        """Return the results of a function on each rank, in order; None for ranks that it ends."""
        task = pickle.dumps((sys.modules[function.__module__].__file__, function.__name__))
        packed = pickle.dumps(arguments)
        for connection in self.connections:
            connection.send_bytes(task)
            connection.send_bytes(packed)
        results, failures = [], []
        for rank, connection in enumerate(self.connections):
            failed, found = False, None
            if rank in ended:
                self.processes[rank].join(SECONDS)
            elif connection.poll(SECONDS):
                failed, found = pickle.loads(connection.recv_bytes())
            else:
                failed, found = True, f"no result of {function} after {SECONDS} s"
            if failed:
                failures.append(f"on rank {rank} of {self.size}:\n{found}")
            results.append(found)
        if failures:
            self.end()
            # A rank that waited for one that failed is not the cause.
            raise AssertionError(min(failures, key=lambda text: "errors.RankError" in text))
        return results

    def end(self):
        """End the processes."""
        if _POOLS.get(self.size) is self:
            del _POOLS[self.size]
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        for connection in self.connections:
            connection.close()
        self.folder.cleanup()


@atexit.register
def _end_pools():
    for each in list(_POOLS.values()):
        each.end()


@cache
def _server():
    """Return the context of processes that are forks of one that has imported torch."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    changed = {"PYTHONPATH": os.pathsep.join(sys.path), "GLOO_SOCKET_IFNAME": "lo"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    ensure_running()
    for name, value in before.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value
    return context


def _serve(rank, size, store, connection):
    torch.set_num_threads(1)
    limit = timedelta(seconds=SECONDS / 2)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=limit)
    while True:
        try:
            file, name = pickle.loads(connection.recv_bytes())
        except EOFError:
            os._exit(0)
        try:
            arguments = pickle.loads(connection.recv_bytes())
            found = False, getattr(_module(file), name)(*arguments)
            packed = pickle.dumps(found)
        except BaseException:
            packed = pickle.dumps((True, traceback.format_exc()))
        connection.send_bytes(packed)


@cache
def _module(file):
    path = Path(file)
    spec = importlib.util.spec_from_file_location(f"on_ranks_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


def refusal(call):
    """Return the class and the text of the error that a call raises, or None."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def part_of(x, mesh, placements):
    """Return this rank's part of a tensor that every rank has, by ``torch.chunk``."""
    for mesh_dim, placement in enumerate(placements):
        if placement.is_shard():
            parts = x.chunk(mesh.size(mesh_dim), placement.dim)
            here = mesh.get_local_rank(mesh_dim)
            x = parts[here] if here < len(parts) else x.narrow(placement.dim, 0, 0)
    return x


def sharded(x, mesh, placements):
    """Return the DTensor of a tensor that every rank has; no rank communicates."""
    part = part_of(x, mesh, placements).clone(memory_format=torch.contiguous_format)
    make = torch.distributed.tensor.DTensor.from_local
    return make(part, mesh, placements, run_check=False, shape=x.shape, stride=x.stride())


# -- what ranks receive, and hold ------------------------------------------------------------------


class Watched(TorchDispatchMode):
    """Counts the bytes that this rank receives, and those of live tensors if it is given some.

    It sees the operations of c10d below ``torch.distributed`` and those of DTensor, so it depends
    on nothing in the suite. Received bytes are counted from the tensors of each collective by the
    convention of ``trnsci.core.distributed.plans``.

    Attributes:
        received: Bytes received.
        calls: Pairs of a collective's name and the bytes received in it.
        live: Bytes of storages created in the context, and of ``holding``, that still exist; they
            are counted if ``holding`` is not None, because that takes a multiple of the time.
        peak: Their largest number.
        limit: The largest number allowed; ``MemoryError`` beyond it, unless ``raises`` is False.
            A thread of gloo releases the tensors of a collective some time after it, so live bytes
            above the limit are counted again for ten seconds, if there are other ranks.
    """

    def __init__(self, holding=None, limit=None, raises=True):
        super().__init__()
        self.calls, self.live, self.peak, self.limit, self.raises = [], 0, 0, limit, raises
        self._known = {}
        self._counts_memory = holding is not None
        for tensor in holding or ():
            self._count(tensor)

    @property
    def received(self):
        return sum(count for _, count in self.calls)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, torch.distributed.tensor.DTensor) for kind in types):
            return NotImplemented  # its parts are seen one by one
        name = func.name().partition(".")[0]
        library, _, name = name.partition("::")
        if library in ("c10d", "_c10d_functional"):
            count = _RECEIVED.get(name.rstrip("_"))
            if count is not None:
                self.calls.append((name.rstrip("_"), count(*args)))
        found = func(*args, **(kwargs or {}))
        if self._counts_memory:
            for each in found if isinstance(found, (list, tuple)) else (found,):
                if isinstance(each, torch.Tensor):
                    self._count(each)
        return found

    def _count(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known[key] = weakref.finalize(storage, self._freed, key, size)
        self._known[key].atexit = False
        self.live += size
        if self.limit is not None and self.peak <= self.limit < self.live:
            end = time.monotonic() + (10 if dist.get_world_size() > 1 else 0)
            while self.live > self.limit and time.monotonic() < end:
                time.sleep(0.001)
        self.peak = max(self.peak, self.live)
        if self.raises and self.limit is not None and self.live > self.limit:
            raise MemoryError(f"{self.live} bytes of live tensors, above the limit of {self.limit}")

    def _freed(self, key, size):
        del self._known[key]
        self.live -= size


def _bytes(tensor):
    return tensor.numel() * tensor.element_size()


def _group(value):
    """Return a process group of an operation's arguments, in its boxed form or by its name."""
    if isinstance(value, str):
        return torch.distributed.distributed_c10d._resolve_process_group(value)
    return dist.ProcessGroup.unbox(value)


def _gathered(outputs, inputs, group, *_):
    rank = _group(group).rank()
    return sum(_bytes(x) for each in outputs for at, x in enumerate(each) if at != rank)


def _broadcast(tensors, group, root, *_):
    return 0 if _group(group).rank() == root else sum(map(_bytes, tensors))


def _reduced_all(tensors, group, *_):
    size = _group(group).size()
    return sum(-(-2 * _bytes(x) * (size - 1) // size) for x in tensors)


def _reduced(tensors, group, op, root, *_):
    there = _group(group)
    return (there.size() - 1) * sum(map(_bytes, tensors)) if there.rank() == root else 0


def _scattered(outputs, inputs, group, *_):
    return (_group(group).size() - 1) * sum(map(_bytes, outputs))


def _to_all(output, inputs, group, received, sent, *_):
    there = _group(group)
    row = _bytes(output) // output.shape[0] if output.numel() else 0
    own = received[there.rank()] if received else output.shape[0] // there.size()
    return (sum(received) if received else output.shape[0]) * row - own * row


def _functional_gathered(x, size, group):
    return (size - 1) * _bytes(x)


def _functional_scattered(x, op, size, group):
    return (size - 1) * _bytes(x) // size


def _functional_reduced(x, op, group):
    size = _group(group).size()
    return -(-2 * _bytes(x) * (size - 1) // size)


def _functional_to_all(x, received, sent, group):
    row = _bytes(x) // x.shape[0] if x.numel() else 0
    return (sum(received) - received[_group(group).rank()]) * row


_RECEIVED = {
    "allgather": _gathered,
    "broadcast": _broadcast,
    "allreduce": _reduced_all,
    "reduce": _reduced,
    "reduce_scatter": _scattered,
    "alltoall_base": _to_all,
    "all_gather_into_tensor": _functional_gathered,
    "reduce_scatter_tensor": _functional_scattered,
    "all_reduce": _functional_reduced,
    "all_to_all_single": _functional_to_all,
}
