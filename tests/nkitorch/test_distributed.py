"""Collectives on the device, over gloo: the ranks' memory is the CPU's."""

import copy
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

from ranks import Pool, refusal

SIZE = 2


@pytest.fixture(scope="module")
def ranks():
    """Ranks of their own, because the device stays in a process."""
    pool = Pool(SIZE)
    yield pool
    pool.end()


def _own(device, scale=1.0):
    return (scale * (dist.get_rank() + 1) * torch.arange(1.0, 7)).to(device)


def _reduced(x):
    dist.all_reduce(x)
    return x


def _waited(x):
    dist.all_reduce(x, async_op=True).wait()
    return x


def _broadcast(x):
    dist.broadcast(x, 1)
    return x


def _gathered(x):
    parts = [torch.empty_like(x) for _ in range(SIZE)]
    dist.all_gather(parts, x)
    return torch.stack(parts)


def _in_one(x):
    whole = x.new_empty(SIZE * 6)
    dist.all_gather_into_tensor(whole, x)
    return whole


def _scattered(x):
    part = x.new_empty(3)
    dist.reduce_scatter_tensor(part, x)
    return part


def _exchanged(x):
    found = torch.empty_like(x)
    dist.all_to_all_single(found, x)
    return found


def _part_of_a_tensor(x):
    whole = x.repeat(2).reshape(2, 6)
    dist.all_reduce(whole[1])
    return whole


def _sent(x):
    if dist.get_rank():
        dist.recv(x, 0)
    else:
        dist.send(x, 1)
    return x


COLLECTIVES = (
    *(_reduced, _waited, _broadcast, _gathered, _in_one, _scattered, _exchanged),
    *(_part_of_a_tensor, _sent),
)


def collectives():
    """Differences of the device from the CPU, by collective."""
    import nkitorch  # noqa: F401

    found = {}
    for call in COLLECTIVES:
        expected, there = call(_own("cpu")), call(_own("neuron"))
        same = there.device.type == "neuron" and torch.equal(there.cpu(), expected)
        if not same:
            found[call.__name__] = there.tolist(), expected.tolist()
    return found


def trained():
    """Parameters after three steps of data-parallel training, on the CPU and on the device."""
    import nkitorch  # noqa: F401

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    found = []
    for device in ("cpu", "neuron"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parallel = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model).to(device))
        optimizer = torch.optim.SGD(parallel.parameters(), 0.01)
        for step in range(3):
            optimizer.zero_grad()
            parallel(_own(device, 0.1 * (step + 1))).square().sum().backward()
            optimizer.step()
        found.append([p.detach().cpu() for p in parallel.parameters()])
    return found


def sharded():
    """The error of fully sharded data parallelism."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import nkitorch  # noqa: F401

    def call():
        model = torch.nn.Linear(6, 2).to("neuron")
        fully_shard(model, mesh=init_device_mesh("neuron", (SIZE,)))
        model(_own("neuron"))

    return refusal(call)


def test_collectives_give_what_they_give_on_the_cpu(ranks):
    assert ranks.run(collectives) == [{}] * SIZE


def test_data_parallel_training_is_that_of_the_cpu(ranks):
    (host, there), (other, _) = ranks.run(trained)
    assert_close(there, host)
    assert_close(other, host)  # both ranks have the mean of the gradients


def test_fully_sharded_training_is_refused_by_name(ranks):
    for kind, text in ranks.run(sharded):
        assert kind == "AttributeError"
        assert "torch.neuron has no Stream" in text
