"""Random trainings that watch_random_test.cc observes: forked_ranks.py random_trainings.py 2 DIR
FIRST COUNT [everyday]

Training number i is drawn from the seed i. It is trained twice: as it is (`healthy-i`), and with a fault
(`faulty-i`). Each is a job of its own with its files in DIR/NAME/job. DIR/NAME/expected.json says what has
to be found: null, or kind, step and tensor. `everyday`: those of everyday_trainings.py. With WATCHED in the environment `lockstep watch` has started
this program, for one training (WATCHED: `healthy` or `faulty`), and DIR receives expected.json alone."""

import json
import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from everyday_trainings import Everyday

ACTIVATIONS = [nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU]


def drawn_model(draw, dtype):
    width = draw.randint(3, 70)
    layers = [nn.Linear(6, width)]
    for _ in range(draw.randint(0, 3)):
        layers.append(draw.choice(ACTIVATIONS)())
        if draw.random() < 0.3:
            layers.append(nn.LayerNorm(width))
        if draw.random() < 0.2:
            layers.append(nn.BatchNorm1d(width))
        if draw.random() < 0.3:
            layers.append(nn.Dropout(0.3))
        layers.append(nn.Linear(width, width, bias=draw.random() < 0.8))
    layers.append(nn.Linear(width, 3))
    module = nn.Sequential(*layers).to(dtype)
    if draw.random() < 0.3:  # frozen, but never all
        layers[draw.randrange(len(layers) - 1)].requires_grad_(False)
    return module


def drawn_optimizer(draw, parameters):
    foreach = draw.choice([None, True, False])
    return draw.choice([
        lambda: torch.optim.SGD(parameters, lr=0.05, momentum=draw.choice([0, 0.9]), foreach=foreach),
        lambda: torch.optim.AdamW(parameters, lr=1e-2, foreach=foreach),
        lambda: torch.optim.Adagrad(parameters, lr=1e-2, foreach=foreach),
        lambda: torch.optim.RMSprop(parameters, lr=1e-3, foreach=foreach)])()


class Training:
    """All ranks draw the same. `fault`: a name of FAULTS; None: healthy."""

    def __init__(self, seed, is_faulty):
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.dtype = draw.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16])
        self.module = drawn_model(draw, self.dtype)
        self.accumulated = draw.choice([1, 1, 2])
        # `by_hand`: gradients are averaged after backward.
        self.is_by_hand = draw.random() < 0.4
        self.forward = self.module
        if not self.is_by_hand:
            self.forward = DistributedDataParallel(
                self.module, broadcast_buffers=draw.random() < 0.5,
                gradient_as_bucket_view=draw.random() < 0.5, bucket_cap_mb=draw.choice([25, 0.001]),
                static_graph=draw.random() < 0.2 and self.accumulated == 1)
        self.trained = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        self.optimizer = drawn_optimizer(draw, [p for p in self.module.parameters()])
        self.steps = draw.randint(3, 7)
        self.clip = draw.random() < 0.3
        self.seed = seed
        self.fault = draw.choice(FAULTS) if is_faulty else None
        self.rank = draw.randrange(2)
        self.step = draw.randint(1, self.steps - 1)
        self.tensor, self.parameter = draw.choice(self.trained)
        self.draw = draw
        self.expected = None
        self.left_out = None  # a parameter that is not reduced

    def is_culprit(self):
        return dist.get_rank() == self.rank

    def train(self):
        if self.fault is not None:
            self.fault(self, "start", 0)
        for step in range(1, self.steps + 1):
            self.optimizer.zero_grad()
            for part in range(self.accumulated):
                self.backward(10 * step + part, part + 1 < self.accumulated)
            if self.is_by_hand:
                self.reduce()
            if self.clip:
                torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
            skips = self.fault is not None and self.fault(self, "before", step)
            if not skips:
                self.optimizer.step()
            if self.fault is not None:
                self.fault(self, "after", step)

    def backward(self, number, is_kept_local):
        generator = torch.Generator().manual_seed(100000 * self.seed + 2 * number + dist.get_rank())
        rows = torch.randn(5, 6, generator=generator).to(self.dtype)
        if is_kept_local and not self.is_by_hand:
            with self.forward.no_sync():
                self.forward(rows).pow(2).mean().backward()
        else:
            self.forward(rows).pow(2).mean().backward()

    def reduce(self):
        for name, parameter in self.trained:
            if name != self.left_out:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()

    def expect(self, kind, step, tensor):
        self.expected = {"kind": kind, "step": step, "tensor": tensor}


# Faults. Each is called at the start, before and after each step, and says what has to be found.


def scaled_gradient(training, when, step):
    if when == "before" and step == training.step:
        training.expect("gradient", step, training.tensor)
        if training.is_culprit():
            training.parameter.grad.mul_(training.draw.choice([0.5, 2.0, 4.0]))


def scaled_gradients(training, when, step):
    """By a factor near 1, of all tensors."""
    if when == "before" and step == training.step:
        training.expect("gradient", step, training.trained[0][0])
        if training.is_culprit():
            factor = 0.5 if training.dtype == torch.bfloat16 else training.draw.choice([1.01, 1.0001, 1 + 1e-6])
            for _, parameter in training.trained:
                parameter.grad.mul_(factor)


def flipped_bit(training, when, step):
    if when == "before" and step == training.step:
        training.expect("gradient", step, training.tensor)
        if training.is_culprit():
            whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[training.parameter.element_size()]
            bits = training.parameter.grad.view(whole).view(-1)
            bits[training.draw.randrange(bits.numel())] ^= 1 << training.draw.randrange(8)


def changed_parameter(training, when, step):
    """After a step: the next one shows it."""
    if when == "after" and step == training.step:
        training.expect("parameter", step + 1, training.tensor)
        if training.is_culprit():
            with torch.no_grad():
                training.parameter.view(-1)[training.draw.randrange(training.parameter.numel())] += 0.25


def stale_parameter(training, when, step):
    """As a rank that missed the result of a step."""
    if when == "before" and step == training.step:
        training.before = training.parameter.detach().clone()
    if when == "after" and step == training.step:
        training.expect("parameter", step + 1, training.tensor)
        if training.is_culprit():
            training.parameter.data.copy_(training.before)


def skipped_step(training, when, step):
    if when == "before" and step == training.step:
        training.expect("gradient", step, training.trained[0][0])
        return training.is_culprit()
    return False


def not_a_number(training, when, step):
    if when == "before" and step == training.step:
        training.expect("gradient", step, training.tensor)
        if training.is_culprit():
            training.parameter.grad.view(-1)[0] = float("nan")


def not_reduced(training, when, step):
    if when == "start":
        training.is_by_hand, training.forward = True, training.module
        training.left_out = training.tensor
        training.clip = False  # it would spread the difference, if the norm is large
        training.expect("gradient", 1, training.tensor)


def never_reduced(training, when, step):
    if when == "start":
        training.is_by_hand, training.forward = False, training.module
        training.accumulated = 1
        training.expect("gradient", 1, training.trained[0][0])


FAULTS = [scaled_gradient, scaled_gradients, flipped_bit, changed_parameter, stale_parameter, skipped_step,
          not_a_number, not_reduced, never_reduced]


def write_expected(folder, training):
    if dist.get_rank() == 0:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "expected.json"), "w") as file:
            fault = training.fault.__name__ if training.fault else "none"
            json.dump({"fault": fault, "found": training.expected}, file)


def observed(kind, seed, is_faulty, folder):
    from _lockstep import _hook, _settings

    name = "%s-%d" % ("faulty" if is_faulty else "healthy", seed)
    files = os.path.join(folder, name, "job")
    os.makedirs(files, exist_ok=True)
    os.environ.update(LOCKSTEP_WATCH_FOLDER=files, LOCKSTEP_WATCH_JOB=name)
    dist.barrier()
    _settings.current = _settings.from_environment()
    _hook.watcher.restart()
    training = kind(seed, is_faulty)
    training.train()
    _hook.watcher.pause()
    write_expected(os.path.join(folder, name), training)


def main():
    folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    kind = Everyday if "everyday" in sys.argv[4:] else Training
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if "WATCHED" in os.environ:
        training = kind(first, os.environ["WATCHED"] == "faulty")
        training.train()
        write_expected(folder, training)
    else:
        for seed in range(first, first + count):
            observed(kind, seed, False, folder)
            observed(kind, seed, True, folder)
    dist.destroy_process_group()


main()
