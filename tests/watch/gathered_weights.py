"""Trainings whose weights are gathered from their parts for each forward pass, each observed into a folder of its name:
gathered_weights.py OUT CASE... Names of cases are words: "shards mixed kept". The first one says who gathers: shards, and
pairs of replicas of these, by fully_shard, or flat by FullyShardedDataParallel."""

import copy

from observed_cases import observe_cases
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy, ShardingStrategy, fully_shard
from torch.utils.checkpoint import checkpoint

STEPS = 5


class Net(nn.Module):
    """With sizes that four ranks do not divide evenly."""

    def __init__(self, words):
        super().__init__()
        self.words = words
        self.first, self.norm, self.second = nn.Linear(7, 10), nn.LayerNorm(10), nn.Linear(10, 10)
        self.head = nn.Linear(10, 3)
        if "tied" in words:
            self.second.bias = self.norm.bias

    def forward(self, rows):
        rows = torch.tanh(self.norm(self.first(rows)))
        rows = checkpoint(self.second, rows, use_reentrant=False) if "recomputed" in self.words else self.second(rows)
        return self.head(torch.relu(rows))


def sharded(net, words):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards")) if "pairs" in words else None
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if "mixed" in words else None)
    offload = CPUOffloadPolicy(pin_memory=False) if "offload" in words else OffloadPolicy()
    for module in net.first, net.head, net:
        fully_shard(module, mesh=mesh, mp_policy=mixed, offload_policy=offload,
                    reshard_after_forward="zero2" not in words)
        if "kept" in words:
            module.set_reshard_after_backward(False)
    return net


def flat(net, words):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards")) if "pairs" in words else None
    strategy = ShardingStrategy.HYBRID_SHARD if mesh is not None else ShardingStrategy.FULL_SHARD

    def divided(module):
        mixed = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        return FullyShardedDataParallel(
            module, device_id=torch.device("cpu"), use_orig_params="original" in words,
            sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if "zero2" in words else strategy, device_mesh=mesh,
            mixed_precision=mixed if "mixed" in words else None)

    net.head = divided(net.head)
    return divided(net)


def scale_on_rank(net, rank):
    """Changes a weight that was gathered, on one rank alone."""
    def hook(module, args):
        if dist.get_rank() == rank and module.training:
            with torch.no_grad():
                module.weight.mul_(1.01)
    net.norm.register_forward_pre_hook(hook)


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def train(words):
    torch.manual_seed(0)
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(rank)
    net = Net(words)
    if "frozen" in words:
        net.second.requires_grad_(False)
    if "scaled" in words:
        scale_on_rank(net, 2)
    model = flat(net, words) if "flat" in words else sharded(net, words)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    moving = [copy.deepcopy(local(one.detach())) for one in model.parameters()]

    def loss():
        return model(torch.randn(4, 7, generator=generator)).float().pow(2).mean()

    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(2 if "accumulation" in words else 1):
            loss().backward()
        if "extra" in words:
            loss()  # its graph is dropped, and with it what would release the weights
        if "sharpness" in words:
            with torch.no_grad():
                moves = [0.05 * local(one.grad) for one in model.parameters()]
                for one, move in zip(model.parameters(), moves):
                    local(one).add_(move)
            optimizer.zero_grad()
            loss().backward()
            with torch.no_grad():
                for one, move in zip(model.parameters(), moves):
                    local(one).sub_(move)
        optimizer.step()
        if "averaged" in words:  # and trains on with the average
            with torch.no_grad():
                for one, average in zip(model.parameters(), moving):
                    average.lerp_(local(one), 0.5)
                    local(one).copy_(average)
        if "evaluated" in words:
            model.eval()
            with torch.no_grad():
                loss()
            model.train()


if __name__ == "__main__":
    observe_cases(lambda words: train(words.split()), modules=True)
