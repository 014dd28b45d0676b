"""Trainings whose gradients meet no reduction, or whose ranks step otherwise, and healthy twins of them, each observed
into a folder of its name: causes.py OUT CASE..."""

import contextlib
import copy
import functools

from observed_cases import observe_cases
from torch import nn
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join

STEPS = 6


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.extra, self.experts = None, {}

    def loss(self, rows):
        return self(rows).pow(2).mean()

    def __len__(self):  # so it is false where a truth is asked for
        return 0

    def forward(self, rows):
        rows = torch.tanh(self.second(torch.tanh(self.first(rows))))
        for expert in self.experts.values():
            rows = rows + expert(rows)
        return self.head(rows if self.extra is None else rows + self.extra(rows))


def batch(step):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))


def loss_of(forward, rows, last):
    output = forward(rows)  # the line that a cause names
    return (output if last is None else last(output)).pow(2).mean()


def loss_of_parts(net, rows):
    rows = torch.tanh(net.first(rows))  # the line of parts
    return net.head(torch.tanh(net.second(rows))).pow(2).mean()


def reduce_by_hand(parameters):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def wrapped(net, case):
    if case.startswith("shards"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        if case in ("shards-outside", "shards-order"):
            return fully_shard(net)
        return fully_shard(net, mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard")))
    if case == "ignored":  # parts that each rank has for itself
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            net, ["second.weight", "second.bias"])
    if case.startswith("unwrapped"):
        return net
    if case.startswith("alone"):
        groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
        return nn.parallel.DistributedDataParallel(net, process_group=groups[dist.get_rank()])
    if case == "adapter-alone":
        return nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    if case == "wrapped-again":
        nn.parallel.DistributedDataParallel(net)
    return nn.parallel.DistributedDataParallel(net)  # the line of the wrapper


def backward(step, model, net, last, case):
    if case == "shards-off":
        model.set_requires_all_reduce(False)
    if case == "shards-accumulated":
        model.set_requires_gradient_sync(False)
        loss_of(model, batch(step), last).backward()
        model.set_requires_gradient_sync(True)
    if case == "parts":
        return loss_of_parts(net, batch(step)).backward()
    if case == "method":
        return model.module.loss(batch(step)).backward()  # the line of the method
    if case == "method-metrics":
        dist.all_reduce(torch.ones(1))
        return model.module.loss(batch(step)).backward()
    is_bypass = (case in ("bypass", "bypass-reduced", "bypass-evaluated")
                 or case.startswith("late-bypass") and step >= 4 or case == "bypass-now-and-then" and step % 2)
    forward = model.module if is_bypass else net if case == "other-reference" else model
    is_micro_batch = case == "every-micro-batch" and step % 2 == 1
    if case in ("no-sync", "accumulation") or is_micro_batch:
        with model.no_sync():
            loss_of(model, batch(step), last).backward()
    if case != "no-sync" and not is_micro_batch:
        loss_of(forward, batch(step), last).backward()
    return None


def train(case):
    torch.manual_seed(0)
    net, last = Net(), nn.Linear(4, 4) if "outside" in case else None
    net.second.requires_grad_(case != "unfrozen")
    if case == "experts" or case == "expert-of-one" and dist.get_rank() == 0:
        torch.manual_seed(dist.get_rank())
        net.experts = nn.ModuleDict({str(dist.get_rank()): nn.Linear(16, 16)})
        names = ["experts.%d.%s" % (dist.get_rank(), part) for part in ("weight", "bias")]
        nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, names)
    if "order" in case:
        names = ["0", "1"] if dist.get_rank() == 0 else ["1", "0"]
        net.experts = nn.ModuleDict({name: nn.Linear(16, 16) for name in names})
    before = list(net.parameters())
    if "stale-copy" in case:
        net = copy.deepcopy(net)
    earlier = copy.deepcopy(net) if case == "stale-copy-after-another" else None
    if earlier is not None:  # it has gradients, too
        loss_of(earlier, batch(0), last).backward()
    if case == "part-stale":
        net.head = nn.Linear(16, 4)
    model = wrapped(net, case)
    if case == "loaded-by-all" or case == "loaded-by-one" and dist.get_rank() == 0:
        net.load_state_dict({name: value + 0.1 for name, value in net.state_dict().items()})
    delta = nn.Parameter(torch.zeros(4, 8)) if case == "attack" else None
    average = copy.deepcopy(net) if case == "averaged" else None
    if case.startswith("adapter"):
        torch.manual_seed(dist.get_rank() if case == "adapter-apart" else 0)
        net.extra = nn.Linear(16, 16)
    net.second.requires_grad_(True)
    if case == "adapter-alone":  # as adapters do with their base
        net.requires_grad_(False)
        net.extra.requires_grad_(True)
    held = [*model.parameters(), *(last.parameters() if last else [])]
    if "stale" in case:
        held = before
    if case == "head-alone":  # the others have gradients, which nobody wants
        held = list(net.head.parameters())
    if delta is not None:
        held = [delta]
    rate = 0.1 if case == "rate" and dist.get_rank() == 1 else 0.05
    momentum = 0.9 if case.startswith("state") else 0
    optimizer = torch.optim.SGD(held, rate, momentum)  # the line of the optimizer
    if case == "state-of-one" and dist.get_rank() == 0:  # as one that rank 0 alone has loaded
        for parameter in held:
            optimizer.state[parameter]["momentum_buffer"] = torch.ones_like(parameter)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3) if "schedule" in case else None
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1) if case == "plateau" else None
    for step in range(1, STEPS + 1):
        if step == 4 and (case == "state-cleared" or case == "state-lost" and dist.get_rank() == 1):
            optimizer.state.clear()
        if case == "gone" and step == 4:
            model = net
        optimizer.zero_grad()
        if case in ("bypass-evaluated", "late-bypass-evaluated"):
            with torch.no_grad():
                loss_of(model, batch(step), last)
        if case == "evaluated" or case == "eval-on-one" and step >= 4 and dist.get_rank() == 1:
            model.eval()  # after an evaluation
        if case == "evaluated":
            model.train()
        if case == "head-in-eval" and dist.get_rank() == 0:
            net.second.eval()
        if delta is not None:
            loss_of(model, batch(step) + delta, last).backward()
            reduce_by_hand(held)
        else:
            backward(step, model, net, last, case)
        if case in ("bypass-reduced", "unwrapped-reduced", "alone-reduced"):
            reduce_by_hand(held)
        if case == "adapter-reduced":
            reduce_by_hand(net.extra.parameters())
        if case == "unwrapped-half":
            reduce_by_hand(held[:3])
        if case == "ignored":
            reduce_by_hand(net.second.parameters())
        optimizer.step()
        if case == "written" and step == 3 and dist.get_rank() == 1:
            with torch.no_grad():
                net.head.weight.clamp_(-0.1, 0.1)
        if average is not None:
            for mine, own in zip(average.parameters(), net.parameters()):
                mine.data.lerp_(own.data, 0.1)
        if case == "schedule" or case == "schedule-of-one" and dist.get_rank() == 0:
            schedule.step()
        if case == "plateau":  # each rank judges a loss of its own
            plateau.step(step if dist.get_rank() == 0 else -step)


def train_uneven(case):
    """Rank 1 has fewer batches in both epochs, and joins."""
    torch.manual_seed(0)
    rank, passes = dist.get_rank(), 2 if case in ("join-accumulated", "join-reduced-twice") else 1
    model = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9 if case == "join-momentum" else 0.0)
    for epoch in range(2):
        with model.join() if epoch == 0 else Join([model]):
            for step in range(STEPS - 2 * rank):
                optimizer.zero_grad()
                for part in range(passes):
                    is_kept = case == "join-accumulated" and part == 0
                    with model.no_sync() if is_kept else contextlib.nullcontext():
                        loss_of(model, batch(100 * epoch + 10 * step + part), None).backward()
                if case == "join-scaled" and (rank, epoch, step) == (1, 1, 1):
                    for parameter in model.parameters():
                        parameter.grad *= 1.5
                optimizer.step()


def train_in_backward(case):
    """As to save memory: each parameter has an optimizer, which steps in a hook of its gradient."""
    torch.manual_seed(0)
    net = Net()
    model = net if "unwrapped" in case else nn.parallel.DistributedDataParallel(net)  # the line of this wrapper

    def step_one(optimizer, parameter):
        if case.endswith("reduced"):
            reduce_by_hand([parameter])
        if case.endswith("spoiled"):
            reduce_by_hand([parameter])
            parameter.grad *= 1 + dist.get_rank()
        optimizer.step()
        optimizer.zero_grad()

    for parameter in net.parameters():
        optimizer = torch.optim.SGD([parameter], 0.05)
        parameter.register_post_accumulate_grad_hook(functools.partial(step_one, optimizer))
    for step in range(1, STEPS + 1):
        loss_of(model, batch(step), None).backward()


def train_case(case):
    if case.startswith("join"):
        train_uneven(case)
    elif case.startswith("in-backward"):
        train_in_backward(case)
    else:
        train(case)


observe_cases(train_case)
