"""Trainings that watch_test.cc observes: forked_ranks.py trainings.py 2 DIR

The ranks are started once and train every case. Each case is a job of its own, with its files in
DIR/CASE/job, and is trained twice: unobserved and observed. Prints a line with the losses if they
differ, which they must not."""

import os
import random
import sys
import threading
import unittest.mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
# The step in which a fault happens, and the tensor.
FAULTY_STEP = 3
FAULTY_TENSOR = "2.weight"


def model(width=8, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(step, rows=6, width=8):
    """Another one on each rank and in each step."""
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    return torch.randn(rows, width, generator=generator)


def loss_of(output):
    return output.pow(2).mean()


def train(module, optimizer, forward=None, after_backward=None, after_step=None, steps=STEPS):
    losses = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = loss_of((forward or module)(batch(step)))
        loss.backward()
        if after_backward:
            after_backward(step)
        optimizer.step()
        if after_step:
            after_step(step)
        losses.append(loss.item())
    return losses


# Healthy trainings.


def ddp_sgd():
    module = model()
    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9))


def ddp_adamw_foreach():
    module = model()
    return train(DistributedDataParallel(module), torch.optim.AdamW(module.parameters(), foreach=True))


def ddp_adamw_fused():
    module = model()
    return train(DistributedDataParallel(module), torch.optim.AdamW(module.parameters(), fused=True))


def custom_optimizer():
    class SignSgd(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.01})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.grad.sign()

    module = model()
    return train(DistributedDataParallel(module), SignSgd(module.parameters()))


def accumulation():
    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with wrapped.no_sync():
            loss_of(wrapped(batch(2 * step))).backward()
        loss = loss_of(wrapped(batch(2 * step + 1)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def frozen():
    module = model()
    module[0].requires_grad_(False)
    return train(DistributedDataParallel(module), torch.optim.AdamW(module.parameters()))


def batch_norm():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1))


def dropout():
    torch.manual_seed(dist.get_rank())
    module = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4))
    wrapped = DistributedDataParallel(module)
    torch.manual_seed(7 + dist.get_rank())
    return train(wrapped, torch.optim.SGD(module.parameters(), lr=0.1))


def autocast_with_scaler():
    """The scaler finds an infinite gradient and skips step 3, on all ranks."""
    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(wrapped(batch(step)))
        scaled = scaler.scale(loss.float())
        (scaled * float("inf") if step == FAULTY_STEP else scaled).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def fully_shard_uneven():
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3))
    fully_shard(module[0])
    fully_shard(module)
    return train(module, torch.optim.AdamW(module.parameters()))


def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    module = FullyShardedDataParallel(model(), device_id=torch.device("cpu"), use_orig_params=True)
    return train(module, torch.optim.SGD(module.parameters(), lr=0.1))


def fsdp1_flat():
    from torch.distributed.fsdp import FullyShardedDataParallel

    module = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    return train(module, torch.optim.SGD(module.parameters(), lr=0.1))


def tensor_parallel(first=0):
    """The inputs of all ranks are the same, as tensor parallelism needs them. `first`: of the steps' seeds."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    module = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    parallelize_module(module, mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, foreach=False)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(module(torch.randn(6, 8, generator=torch.Generator().manual_seed(first + step))))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def tensor_parallel_divides_samples():
    """Each rank has samples of its own, as if it were data parallelism."""
    return tensor_parallel(1000 * dist.get_rank())


def sequence_parallel(gradient=None):
    """The norm is on all ranks, each of which has the tokens of its part: its gradient is a sum over ranks.
    `gradient`: what to make of one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    module = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    parallelize_module(module, mesh, {"0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1)),
                                      "3": RowwiseParallel(output_layouts=Replicate())})
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, foreach=False)
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        tokens = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(step))
        loss = loss_of(module(tokens.chunk(2, 1)[dist.get_rank()].contiguous()))
        loss.backward()
        if gradient:
            for parameter in module[0].parameters():
                parameter.grad = gradient(parameter.grad, mesh)
        optimizer.step()
        losses.append(loss.item())
    return losses


def sequence_parallel_not_reduced():
    """Each rank takes its summand for the whole gradient."""
    from torch.distributed.tensor import DTensor, Replicate

    return sequence_parallel(lambda gradient, mesh: DTensor.from_local(gradient.to_local(), mesh, [Replicate()],
                                                                       run_check=False))


def sparse_gradient():
    """That of an embedding, averaged by hand."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(8, 4, sparse=True), nn.Linear(4, 4))

    def average(step):
        for parameter in module.parameters():
            gradient = parameter.grad.to_dense()
            dist.all_reduce(gradient)
            parameter.grad = (gradient / 2).to_sparse() if parameter.grad.is_sparse else gradient / 2

    def words(step):
        return torch.randint(8, (6,), generator=torch.Generator().manual_seed(1000 * step + dist.get_rank()))

    losses = []
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = loss_of(module(words(step)))
        loss.backward()
        average(step)
        optimizer.step()
        losses.append(loss.item())
    return losses


def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    module = model()
    wrapped = DistributedDataParallel(module)
    return train(wrapped, ZeroRedundancyOptimizer(module.parameters(), torch.optim.AdamW))


def compiled_step():
    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="eager")
    losses = []
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(wrapped(batch(number)))
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


def optimizer_in_backward():
    """Each parameter steps as soon as its gradient is there: the ranks share inputs, not gradients."""
    module = model()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in module.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    losses = []
    for number in range(STEPS):
        loss = loss_of(module(torch.randn(6, 8, generator=torch.Generator().manual_seed(number))))
        loss.backward()
        losses.append(loss.item())
    return losses


def closure():
    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):

        def compute():
            optimizer.zero_grad()
            loss = loss_of(wrapped(batch(step)))
            loss.backward()
            return loss

        losses.append(optimizer.step(compute).item())
    return losses


def closure_clears():
    """The gradients are gone when the optimizer's step has ended."""
    class Around(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})
            self.inner = torch.optim.SGD(self.param_groups, lr=0.1)

        @torch.no_grad()
        def step(self, closure):
            with torch.enable_grad():
                loss = closure()
            self.inner.step()
            self.zero_grad()
            return loss

    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = Around(module.parameters())
    losses = []
    for step in range(STEPS):

        def compute():
            loss = loss_of(wrapped(batch(step)))
            loss.backward()
            return loss

        losses.append(optimizer.step(compute).item())
    return losses


def two_optimizers():
    """A critic steps twice for each step of the other model."""
    critic, actor = DistributedDataParallel(model(seed=1)), DistributedDataParallel(model(seed=2))
    optimizers = [torch.optim.SGD(critic.parameters(), lr=0.1), torch.optim.SGD(actor.parameters(), lr=0.1)]
    losses = []
    for step in range(STEPS):
        for module, optimizer in ((critic, optimizers[0]), (critic, optimizers[0]), (actor, optimizers[1])):
            optimizer.zero_grad()
            loss = loss_of(module(batch(step)))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def pipeline():
    """Two stages: each rank trains a layer of its own."""
    torch.manual_seed(dist.get_rank())
    first = dist.get_rank() == 0
    stage = nn.ModuleDict({"first": nn.Linear(8, 16)} if first else {"second": nn.Linear(16, 4)})
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        if first:
            hidden = stage["first"](batch(step))
            dist.send(hidden.detach(), 1)
            gradient = torch.empty_like(hidden)
            dist.recv(gradient, 1)
            hidden.backward(gradient)
        else:
            hidden = torch.empty(6, 16)
            dist.recv(hidden, 0)
            hidden.requires_grad_(True)
            loss = loss_of(stage["second"](hidden))
            loss.backward()
            dist.send(hidden.grad, 0)
            losses.append(loss.item())
        optimizer.step()
    return losses


def pipeline_of_a_whole_model():
    """Two stages, and both ranks keep the model that they were cut out of."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    whole = model()
    rank = dist.get_rank()
    part = nn.ModuleDict({"0": whole[0]} if rank == 0 else {"2": whole[2]})
    part.forward = lambda value: part["0"](value).relu() if rank == 0 else part["2"](value)
    ends = torch.empty(3, 8), torch.empty(3, 16), torch.empty(3, 4)
    stage = PipelineStage(part, rank, 2, torch.device("cpu"), input_args=ends[rank], output_args=ends[rank + 1])
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda output, target: loss_of(output))
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        of_step = []
        if rank == 0:
            schedule.step(batch(step))
        else:
            schedule.step(target=torch.zeros(6, 4), losses=of_step)
        optimizer.step()
        losses += [loss.item() for loss in of_step]
    return losses


class Held(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net


def held_in_another_module(reduced=True):
    """Rank 0 alone has the model in another module, too: an evaluator."""
    module = model()
    evaluator = Held(module) if dist.get_rank() == 0 else None  # noqa: F841
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return train(module, optimizer, after_backward=averaged(module) if reduced else None)


def held_in_another_module_not_reduced():
    return held_in_another_module(reduced=False)


def perturbation_taken_back():
    """Sharpness-aware: each rank perturbs the weights by its own gradient, and subtracts that again."""
    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        with wrapped.no_sync():
            loss_of(wrapped(batch(step))).backward()
        with torch.no_grad():
            norm = torch.stack([one.grad.norm() for one in module.parameters()]).norm()
            added = [one.grad * 0.05 / norm for one in module.parameters()]
            for parameter, one in zip(module.parameters(), added):
                parameter.add_(one)
        optimizer.zero_grad()
        loss = loss_of(wrapped(batch(step)))
        loss.backward()
        with torch.no_grad():
            for parameter, one in zip(module.parameters(), added):
                parameter.sub_(one)
        optimizer.step()
        losses.append(loss.item())
    return losses


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * STEPS

    def __getitem__(self, index):
        return torch.full((8,), float(index + dist.get_rank()) / 16)


def data_loader():
    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for rows in torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=1):
        optimizer.zero_grad()
        loss = loss_of(wrapped(rows))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def captured():
    """An optimizer's step is captured in a CUDA graph, which happens without a GPU for the hook alone: nothing is
    updated then, but later, by a replay that nobody observes."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

    def capture_and_replay(step):
        if step != FAULTY_STEP:
            return
        values = [parameter.detach().clone() for parameter in module.parameters()]
        with unittest.mock.patch.multiple(torch.cuda, is_initialized=lambda: True,
                                          is_current_stream_capturing=lambda: True):
            for _ in range(2):
                optimizer.step()
        with torch.no_grad():
            for parameter, value in zip(module.parameters(), values):
                parameter.copy_(value * 0.5)

    return train(DistributedDataParallel(module), optimizer, after_step=capture_and_replay)


def checkpoint_and_evaluation():
    """Rank 0 saves, and all evaluate, between steps."""
    import io

    module = model()
    wrapped = DistributedDataParallel(module)

    def save_and_evaluate(step):
        if step % 2 == 0:
            if dist.get_rank() == 0:
                torch.save(module.state_dict(), io.BytesIO())
            wrapped.eval()
            with torch.no_grad():
                wrapped(batch(100 + step))
            wrapped.train()
            dist.barrier()

    return train(wrapped, torch.optim.AdamW(module.parameters()), after_step=save_and_evaluate)


def parameter_replaced():
    """As training does that resizes a layer: the optimizer goes on with another parameter in its place."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

    def replace(step):
        if step == FAULTY_STEP:
            module[2].weight = nn.Parameter(module[2].weight.detach()[:2].clone())
            module[2].bias = nn.Parameter(module[2].bias.detach()[:2].clone())
            optimizer.param_groups[0]["params"][2:] = [module[2].weight, module[2].bias]

    return train(module, optimizer, after_backward=averaged(module), after_step=replace)


def trained_one_after_another():
    """As in a cross-validation."""
    losses = []
    for fold in range(2):
        module = model(seed=fold)
        losses += train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1), steps=3)
    return losses


class Plugin(nn.Module):
    def __init__(self):
        raise ValueError("no such plugin")  # before its base class was initialised


def surroundings():
    """A module that was not made completely, a step that is only traced, and tensors without memory or
    shape of their own as samples."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        Plugin()
    except ValueError as error:
        kept = error  # and with it the module
    with FakeTensorMode():
        estimate = nn.Linear(8, 4)
        optimizer = torch.optim.AdamW(estimate.parameters())
        estimate(torch.randn(6, 8)).sum().backward()
        optimizer.step()
    module = model()
    wrapped = DistributedDataParallel(module)

    def after_backward(step):
        torch.func.vmap(module)(batch(step).unsqueeze(1))
        torch.nested.nested_tensor([batch(step, rows=1), batch(step)])

    losses = train(wrapped, torch.optim.SGD(module.parameters(), lr=0.1), after_backward=after_backward)
    del kept
    return losses


surroundings.variables = {"LOCKSTEP_WATCH_DATA": "1", "LOCKSTEP_WATCH_ALSO": "buffers"}


def probe_of_rank_0():
    """Rank 0 alone trains another model now and then."""
    module, probe = model(), nn.Linear(4, 2)
    names = nn.ModuleDict({"probe": probe})
    optimizer = torch.optim.Adam(probe.parameters())

    def fit(step):
        if dist.get_rank() == 0 and step % 2 == 0:
            for _ in range(3):
                names["probe"](module(batch(step)).detach()).sum().backward()
                optimizer.step()

    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1), after_step=fit)


probe_of_rank_0.variables = {"LOCKSTEP_WATCH_IGNORE": "^probe"}


def replicas_computed():
    """Each rank computes the same gradients for itself, and adds them up in another order."""
    module = model()

    def forward_backward(step):
        rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
        parts = [rows] if dist.get_rank() == 0 else rows.split(2)
        for part in parts:
            (loss_of(module(part)) / len(parts)).backward()

    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        forward_backward(step)
        optimizer.step()
    return []


# Faults. Each names the expected finding in watch_test.cc.


def averaged(module, leave_out=()):
    """Averages gradients by hand."""

    def average(step):
        for name, parameter in module.named_parameters():
            if parameter.grad is not None and name not in leave_out:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()

    return average


def changed_on_rank_1(module, change):
    """After backward of the faulty step, on rank 1 alone."""

    def damage(step):
        if step == FAULTY_STEP and dist.get_rank() == 1:
            change(dict(module.named_parameters())[FAULTY_TENSOR])

    return damage


def loss_on_unwrapped_module():
    module = model()
    DistributedDataParallel(module)
    return train(module, torch.optim.SGD(module.parameters(), lr=0.1))


def gradient_scaled():
    module = model()
    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1),
                 after_backward=changed_on_rank_1(module, lambda p: p.grad.mul_(2)))


def element_flipped():
    def flip(parameter):
        parameter.grad.view(torch.int32)[1, 2] ^= 1

    module = model()
    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1),
                 after_backward=changed_on_rank_1(module, flip))


def gradients_scaled_by_little():
    """All gradients of rank 1, by as much as rounding may amount to."""
    module = model()

    def scale(step):
        for parameter in module.parameters():
            if dist.get_rank() == 1:
                parameter.grad.mul_(1 + 5e-7)

    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1),
                 after_backward=scale)


def nan_on_one_rank():
    module = model()
    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1),
                 after_backward=changed_on_rank_1(module, lambda p: p.grad.fill_(float("nan"))))


def unfrozen_on_one_rank():
    module = model()
    module[0].requires_grad_(dist.get_rank() == 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return train(module, optimizer, after_backward=averaged(module, ("0.weight", "0.bias")))


def replaced_and_not_reduced():
    """Another parameter takes the place of one, and whoever reduces the gradients does not know it."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

    def replace(step):
        if step == FAULTY_STEP - 1:
            module[2].weight = nn.Parameter(module[2].weight.detach().clone())
            optimizer.param_groups[0]["params"][2] = module[2].weight

    def average(step):
        averaged(module, () if step < FAULTY_STEP else (FAULTY_TENSOR,))(step)

    return train(module, optimizer, after_backward=average, after_step=replace)


def frozen_part_differs():
    """No optimizer holds it."""
    module = model()
    with torch.no_grad():
        module[0].weight += dist.get_rank()
    return train(module, torch.optim.SGD(module[2].parameters(), lr=0.1), after_backward=averaged(module))


def threads_step():
    """Two optimizers, whose steps overlap."""
    modules = model(seed=1), model(seed=2)
    inside, may_end = threading.Event(), threading.Event()

    class Waiting(torch.optim.SGD):
        @torch.optim.Optimizer.profile_hook_step
        def step(self, closure=None):
            inside.set()
            may_end.wait()

    waiting = Waiting(modules[0].parameters(), lr=0.1)
    thread = threading.Thread(target=waiting.step)
    thread.start()
    inside.wait()
    losses = train(DistributedDataParallel(modules[1]), torch.optim.SGD(modules[1].parameters(), lr=0.1))
    may_end.set()
    thread.join()
    return losses


def stale_parameters():
    """Rank 1 goes back to its parameters of the step before."""
    module = model()
    old = {}

    def restore(step):
        if dist.get_rank() == 1 and step == FAULTY_STEP:
            module.load_state_dict(old)
        old.update({name: value.clone() for name, value in module.state_dict().items()})

    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1),
                 after_step=restore)


def skipped_step():
    """Rank 1 leaves out its optimizer's step."""
    module = model()
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = loss_of(wrapped(batch(step)))
        loss.backward()
        if step != FAULTY_STEP or dist.get_rank() == 0:
            optimizer.step()
        losses.append(loss.item())
    return losses


def wrong_seed():
    """Gradients are averaged by hand, and the ranks begin with different weights."""
    module = model(seed=dist.get_rank())
    return train(module, torch.optim.SGD(module.parameters(), lr=0.1), after_backward=averaged(module))


def layer_not_reduced():
    module = model()
    return train(module, torch.optim.SGD(module.parameters(), lr=0.1),
                 after_backward=averaged(module, (FAULTY_TENSOR,)))


def group_of_one():
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    module = model()
    wrapped = DistributedDataParallel(module, process_group=groups[dist.get_rank()])
    return train(wrapped, torch.optim.SGD(module.parameters(), lr=0.1))


def averaging(module, last_step=STEPS * 2, period=3):
    """A training that averages the parameters after steps 1, 4, 7 and 10, as LocalSGD does."""

    def average(step):
        if step <= last_step and step % period == 1 % period:
            with torch.no_grad():
                for parameter in module.parameters():
                    dist.all_reduce(parameter)
                    parameter /= dist.get_world_size()

    return train(module, torch.optim.SGD(module.parameters(), lr=0.1), after_step=average,
                 steps=STEPS * 2)


def local_sgd():
    return averaging(model())


def local_sgd_stops():
    """The parameters are averaged after step 4 for the last time."""
    return averaging(model(), last_step=5)


def local_sgd_begins_apart():
    return averaging(model(seed=dist.get_rank()))


def local_sgd_unsaid():
    """Nothing says that the ranks may differ between."""
    return averaging(model())


def averaged_after_each_step():
    return averaging(model(), period=1)


def averaged_at_last_after_step_5():
    return averaging(model(), last_step=5, period=1)


def averages_unsaid():
    return averaging(model(), period=1)


for case in averaged_after_each_step, averaged_at_last_after_step_5:
    case.variables = {"LOCKSTEP_WATCH_AGREE_EVERY": "1"}


def local_sgd_by_averager(averages=True, period=3):
    """Torch's averager says after how many steps ranks agree."""
    module, averager = model(), PeriodicModelAverager(period=period)
    after_step = (lambda step: averager.average_parameters(module.parameters())) if averages else None
    return train(module, torch.optim.SGD(module.parameters(), lr=0.1), after_step=after_step, steps=STEPS * 2)


def averager_of_each_step():
    return local_sgd_by_averager(period=1)


def averager_not_called():
    return local_sgd_by_averager(averages=False)


for case in local_sgd, local_sgd_stops, local_sgd_begins_apart:
    case.variables = {"LOCKSTEP_WATCH_AGREE_EVERY": "3"}


def everything_else():
    """Accumulates two passes in a step; dropout draws numbers and BatchNorm keeps statistics."""
    torch.manual_seed(0)
    random.seed(dist.get_rank())
    module = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 4))
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters())
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        with wrapped.no_sync():
            loss_of(wrapped(batch(step))).backward()
        loss = loss_of(wrapped(batch(step + 100)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


everything_else.variables = {
    "LOCKSTEP_WATCH_ALSO": "buffers,optimizer-state,random-state,micro-batches"}


def hook_fails():
    """The hook switches itself off on all ranks after step 3, and the training goes on."""
    import lockstep

    def fail(step):
        if step == FAULTY_STEP:
            lockstep.observe("loss", object())

    module = model()
    return train(DistributedDataParallel(module), torch.optim.SGD(module.parameters(), lr=0.1), after_step=fail)


def unmarked_shards():
    """Each rank trains half of a layer, and nothing says so: no copies, and no fault."""
    module = model(seed=dist.get_rank())
    return train(module, torch.optim.SGD(module.parameters(), lr=0.1))


HEALTHY = [ddp_sgd, ddp_adamw_foreach, ddp_adamw_fused, custom_optimizer, accumulation, frozen, batch_norm,
           dropout, autocast_with_scaler, fully_shard_uneven, fsdp1, fsdp1_flat, tensor_parallel,
           zero_redundancy, compiled_step, optimizer_in_backward, closure, two_optimizers, pipeline,
           data_loader, captured, checkpoint_and_evaluation, replicas_computed, local_sgd, local_sgd_by_averager,
           averaged_after_each_step, averager_of_each_step, everything_else,
           parameter_replaced, trained_one_after_another, surroundings, probe_of_rank_0, sequence_parallel,
           sparse_gradient, closure_clears, pipeline_of_a_whole_model, held_in_another_module,
           perturbation_taken_back]
FAULTY = [loss_on_unwrapped_module, gradient_scaled, element_flipped, gradients_scaled_by_little, nan_on_one_rank,
          unfrozen_on_one_rank, stale_parameters, skipped_step, wrong_seed, layer_not_reduced,
          group_of_one, unmarked_shards, hook_fails, local_sgd_stops, local_sgd_begins_apart,
          local_sgd_unsaid, averages_unsaid, averaged_at_last_after_step_5, averager_not_called,
          replaced_and_not_reduced, frozen_part_differs, threads_step,
          sequence_parallel_not_reduced, tensor_parallel_divides_samples, held_in_another_module_not_reduced]


def main():
    from _lockstep import _hook, _settings

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for case in HEALTHY + FAULTY:
        _hook.watcher.pause()
        try:
            unobserved = case()
        except Exception as error:
            if "LOCKSTEP_TEST_PYTHON" not in os.environ:
                raise
            print("skipped: %s: torch %s: %s" % (case.__name__, torch.__version__, error), file=sys.stderr)
            continue
        folder = os.path.join(sys.argv[1], case.__name__, "job")
        os.makedirs(folder, exist_ok=True)
        variables = {"LOCKSTEP_WATCH_AGREE_EVERY": "0", "LOCKSTEP_WATCH_ALSO": "", "LOCKSTEP_WATCH_DATA": "",
                     "LOCKSTEP_WATCH_IGNORE": ""}
        variables.update(getattr(case, "variables", {}))
        os.environ.update(variables, LOCKSTEP_WATCH_FOLDER=folder, LOCKSTEP_WATCH_JOB=case.__name__)
        dist.barrier()
        _settings.current = _settings.from_environment()
        _hook.watcher.restart()
        observed = case()
        if repr(observed) != repr(unobserved):
            print("%s: losses %s unobserved, %s observed" % (case.__name__, unobserved, observed))
    _hook.watcher.pause()
    dist.destroy_process_group()


main()
