"""Trainings whose gradients are reduced rightly or wrongly, each observed into a folder of its name:
reductions.py OUT CASE... Names of cases are words: "ddp missing adamw". The first one says who reduces: shards, and pairs
of replicas of these, by fully_shard, flat ones by FSDP1. "drawn 7": a healthy training that is drawn from the seed 7."""

import contextlib
import random

from observed_cases import observe_cases
from torch import nn
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.checkpoint import checkpoint

STEPS = 4


class Net(nn.Module):
    """`part` is not used by every batch; `gate` is a single number."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)
        self.part = nn.Linear(16, 16)
        self.gate = nn.Parameter(torch.ones(1))
        self.calls, self.recomputes = 1, False

    def forward(self, rows, uses_part=True):
        rows = torch.tanh(self.norm(self.first(rows))) * self.gate
        for _ in range(self.calls if uses_part else 0):
            rows = rows + (checkpoint(self.part, rows, use_reentrant=False) if self.recomputes else self.part(rows))
        return self.head(rows)


class Case:
    def __init__(self, words):
        self.words = words.split()
        if self.words[0] == "drawn":
            self.words = drawn(int(self.words[1]))
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.generator = torch.Generator().manual_seed(self.rank if "same" not in self.words else 0)
        self.half = dist.new_group([0, 1])  # made by all
        self.other_half = dist.new_group([2, 3])

    def __contains__(self, word):
        return word in self.words

    def batch(self, net):
        size = 4 if "tokens" not in self else 2 + 2 * self.rank
        return torch.randn(size, 8, generator=self.generator).to(net.head.weight.dtype)

    # Reductions of DDP.

    def register(self, model):
        if "fp16" in self:
            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        if "bf16-hook" in self:
            model.register_comm_hook(None, default_hooks.bf16_compress_hook)
        if any(word in self for word in ("missing", "twice", "hook-own", "hook-halves", "hook-sum")):
            model.register_comm_hook(None, self.reduced)

    def reduced(self, _, bucket):
        buffer = bucket.buffer().div_(self.ranks if "hook-sum" not in self else 1)
        group = None
        if "missing" in self and self.rank == 2:
            buffer = torch.zeros_like(buffer)
        if "hook-own" in self:
            return default_hooks.allreduce_hook(dist.new_group([self.rank], use_local_synchronization=True), bucket)
        if "hook-halves" in self:
            group = self.half if self.rank < 2 else self.other_half
        reduced = dist.all_reduce(buffer, group=group, async_op=True).get_future()
        last = self.ranks if "twice" in self else 1
        return reduced.then(lambda future: future.value()[0].div_(last))

    # Reductions by hand.

    def reduce(self, parameters):
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None:
                gradient = parameter.grad = torch.zeros_like(parameter)
            if "broadcast" in self:
                dist.broadcast(gradient, 1)
            elif "halves" in self:
                dist.all_reduce(gradient, group=self.half if self.rank < 2 else self.other_half)
            elif "left-out" in self:
                summand = torch.zeros_like(gradient) if self.rank == 3 else gradient.clone()
                dist.all_reduce(summand)
                gradient.copy_(summand)
            elif "weights" in self:
                summand = gradient * (1 + self.rank)
                dist.all_reduce(summand)
                gradient.copy_(summand / 10)
            elif "nothing" not in self:
                dist.all_reduce(gradient)
            is_sum = "sum" in self or "sum-of-one" in self and parameter.dim() == 2 and len(parameter) == 4
            if not is_sum and "broadcast" not in self:
                gradient /= self.ranks

    def after_reduction(self, model, net):
        parameters = list(net.parameters())
        if "own-clip" in self:
            own = [getattr(parameter.grad, "_local_tensor", parameter.grad) for parameter in parameters
                   if parameter.grad is not None]
            norm = torch.stack([gradient.norm() for gradient in own]).norm()
            for gradient in own:
                gradient.mul_((0.01 / norm).clamp(max=1))
        if "clip" in self and "flat" in self:
            model.clip_grad_norm_(0.01)
        elif "clip" in self:
            nn.utils.clip_grad_norm_(parameters, 0.05)
        if "clip-value" in self:
            nn.utils.clip_grad_value_(parameters, 0.001)
        if "mask" in self or "local-mask" in self and self.rank == 2:
            net.first.weight.grad[:4] = 0
        if "local-clip" in self and self.rank == 1:
            nn.utils.clip_grad_norm_(parameters, 0.01)
        if "noise" in self:
            for parameter in parameters:
                parameter.grad += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7))

    def loss(self, forward, net, step):
        rows = self.batch(net)
        uses_part = "unused" not in self or (self.rank + step) % 2 == 0
        squares = forward(rows, uses_part).pow(2)
        if "tokens" in self:
            count = torch.tensor(float(len(rows)))
            dist.all_reduce(count)
            return squares.sum() * self.ranks / count
        return squares.mean()


def drawn(seed):
    """Words of a training that reduces rightly."""
    draw = random.Random(seed)

    def some(*words):
        return [word for word in words if draw.random() < 0.3]

    engine = draw.choice(["ddp", "hand", "shards", "pairs"])
    words = [engine] + some("adamw", "keep", "tokens", "accumulation") + draw.choice([[], ["clip"], ["clip-value"]])
    if engine == "ddp":
        words += some("view", "mask", "noise") + draw.choice([[], ["fp16"], ["bf16-hook"], ["hook-sum"]])
        words += draw.choice([[], ["unused"], [] if "accumulation" in words else ["static"]])  # torch fails with both
        words += draw.choice([[], ["autocast", "scaler"], ["bfloat16"], ["copies"]])
    elif engine == "hand":
        words += some("sum", "mask", "noise", "unused", "same")
        words += draw.choice([[], ["autocast", "scaler"], ["bfloat16"], ["copies"]])
    else:
        words += some("mixed", "float-sums", "frozen", "tied", "repeated", "recomputed", "factor", "offload", "same")
        words += some("each") if engine == "shards" else some("replicas-later")
    return words


def optimizer_of(case, parameters):
    kind = torch.optim.AdamW if "adamw" in case else torch.optim.SGD
    return kind(parameters, 0.02 if "own-lr" in case and case.rank == 1 else 0.01)


class Copies:
    """In float32, of parameters in bfloat16, which the optimizer has in the place of these. None without "copies"."""

    def __init__(self, case, net):
        self.pairs = []
        if "copies" in case:
            self.pairs = [(one, one.detach().float().requires_grad_()) for one in net.parameters()]
        self.stepped = [copy for _, copy in self.pairs] or list(net.parameters())

    def take_gradients(self):
        for parameter, copy in self.pairs:
            copy.grad = parameter.grad.float() if parameter.grad is not None else None
            parameter.grad = None

    @torch.no_grad()
    def give_values(self):
        for parameter, copy in self.pairs:
            parameter.copy_(copy)


def train(case):
    torch.manual_seed(case.rank if "own-seed" in case else 0)
    net = Net()
    if "bfloat16" in case or "copies" in case:
        net = net.to(torch.bfloat16)
    net.calls, net.recomputes = 2 if "repeated" in case else 1, "recomputed" in case
    if "frozen" in case:
        net.part.requires_grad_(False)
    if "tied" in case:
        net.norm.bias = net.norm.weight
    model, shards = net, None
    if "shards" in case or "pairs" in case:
        import reduced_shards as shards

        shards.divide(net, case)
    if "ddp" in case:
        model = nn.parallel.DistributedDataParallel(
            net, find_unused_parameters="unused" in case, gradient_as_bucket_view="view" in case,
            static_graph="static" in case)
        case.register(model)
    if "compiled" in case:
        model = torch.compile(model, backend="aot_eager")
    if "flat" in case:
        model = FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params="original" in case)
    copies = Copies(case, net)
    optimizer = optimizer_of(case, copies.stepped)
    probe = nn.Linear(4, 2)  # which rank 0 trains beside, by its own learning rate
    beside = torch.optim.SGD(probe.parameters(), 0.5) if "own-probe" in case and case.rank == 0 else None
    scaler = torch.amp.GradScaler("cpu", enabled="scaler" in case)
    passes = 3 if "accumulation" in case else 1
    joined = model.join() if "join" in case else contextlib.nullcontext()
    steps = STEPS if "join" not in case else STEPS + 2 * case.rank
    with joined:
        for step in range(1, steps + 1):
            optimizer.zero_grad(set_to_none="keep" not in case)
            for number in range(1, passes + 1):
                synced = 1 if "early" in case else passes
                if shards is not None:
                    shards.set_sync(net, case, step, number, passes)
                with model.no_sync() if "ddp" in case and number != synced else contextlib.nullcontext():
                    with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in case):
                        loss = case.loss(model, net, step)
                    scaler.scale(loss).backward()
            if "own-skip" in case and case.rank == 2 and step == 3:
                next(net.parameters()).grad.view(-1)[0] = float("inf")
            if beside is not None:
                probe(torch.ones(4)).sum().backward()
                beside.step()
            scaler.unscale_(optimizer)
            if "hand" in case:
                case.reduce(net.parameters())
            case.after_reduction(model, net)
            copies.take_gradients()
            scaler.step(optimizer)
            scaler.update()
            copies.give_values()


if __name__ == "__main__":
    observe_cases(lambda words: train(Case(words)))
