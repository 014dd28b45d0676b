"""One rank of the training of scenarios/sharding/tiled_gradient_accumulator_under_ddp.cc or
.._under_fsdp1.cc, with torch's DDP or FSDP1.

Started by forked_ranks.py: accumulator_training.py FOLDER VARIANT... Every variant runs in a separate
process, like those of ddp_training.py; its results go to FOLDER/<variant>/w<world>/rank-N.json.
"""

import os
import sys
import warnings

os.environ["TORCH_FR_BUFFER_SIZE"] = "10000"  # the flight recorder logs DDP's calls
import torch
import torch.distributed as dist
from ddp_training import collectives, run_each
from flat_shard_training import all_gather, all_reduce, pieces_of, reduce_scatter
from hooks_scenarios import AccumulatorUnderDdp, Cell
from sharded_training import Calls, bits_of, outcome_of
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.nn.parallel import DistributedDataParallel

STEPS = 3
AXES = {"length": "24", "tiles": "4", "tile_values": "alike"}


def shard(model, variant):
    is_whole = variant.startswith("flat-whole")
    strategy = ShardingStrategy.NO_SHARD if is_whole else ShardingStrategy.FULL_SHARD

    def wrap(module):
        device = torch.device("cpu")
        return FullyShardedDataParallel(module, sharding_strategy=strategy, device_id=device)

    for layer in model.layers:
        layer.mlp = wrap(layer.mlp)
    return wrap(model)


def train(variant, tensors):
    rank = dist.get_rank()
    cell = Cell(variant, "", variant, dist.get_world_size(), STEPS, 0, AXES)
    scenario = AccumulatorUnderDdp(cell)
    torch.manual_seed(cell.seed)
    plain = scenario.model(scenario.tiling())
    is_flat = variant.startswith("flat-")
    if is_flat:
        model = shard(plain, variant)
    else:
        model = DistributedDataParallel(plain, static_graph="static-graph" in variant)
    optimizer = torch.optim.SGD(model.parameters(), lr=scenario.learning_rate(), foreach=False)

    def values(value_of):
        if is_flat:
            return pieces_of(model, rank, value_of)
        return ((name, value_of(parameter)) for name, parameter in plain.named_parameters())

    def note(key, named):
        for name, tensor in named:
            tensors[f"{key}{name}"] = bits_of(tensor)

    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        scenario.loss(model, step, rank, 0).backward()
        note(f"{step}/0/pre_step/gradient/", values(lambda parameter: parameter.grad))
        optimizer.step()
        note(f"{step}/0/post_step/parameter/", values(lambda parameter: parameter))


def run(variant):
    warnings.simplefilter("ignore", FutureWarning)  # NO_SHARD is deprecated
    is_flat = variant.startswith("flat-")
    wrappers = {"all_gather": all_gather, "reduce_scatter_tensor": reduce_scatter, "all_reduce": all_reduce}
    outcome = outcome_of(lambda tensors: train(variant, tensors), Calls(**wrappers if is_flat else {}))
    return outcome if is_flat else {**outcome, "collectives": collectives()}


if __name__ == "__main__":
    run_each(run, sys.argv[1], sys.argv[2:])
