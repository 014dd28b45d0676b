"""One rank of the training of tests/testbed/flat_shard_parity.cc, with torch's FSDP1.

Started by forked_ranks.py: flat_shard_training.py FOLDER VARIANT... Its results go to
FOLDER/<variant>/w<world>/rank-N.json.
"""

import datetime
import warnings

import torch
import torch.distributed as dist
from sharded_training import STEPS, Calls, backward, bits_of, model_of, outcome_of, run_variants
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

STRATEGIES = {
    "full-shard": ShardingStrategy.FULL_SHARD,
    "shard-grad-op": ShardingStrategy.SHARD_GRAD_OP,
    "no-shard": ShardingStrategy.NO_SHARD,
}


def shard(model, words):
    strategy = next(strategy for word, strategy in STRATEGIES.items() if word in words)

    def wrap(module):
        return FullyShardedDataParallel(
            module, sharding_strategy=strategy, device_id=torch.device("cpu")
        )

    for index, layer in enumerate(model.layers):
        if "mlp" in words or "mlp-and-layer" in words:
            layer.mlp = wrap(layer.mlp)
        if "layer" in words or "mlp-and-layer" in words:
            model.layers[index] = wrap(layer)
    return wrap(model)


def flat_parameters(model):
    """With the names of their modules."""
    for name, module in model.named_modules():
        if isinstance(module, FullyShardedDataParallel) and module._flat_param is not None:
            name = f"{name}.".replace("_fsdp_wrapped_module.", "").removeprefix(".")
            yield name, module._flat_param


def pieces_of(model, rank, value_of):
    """This rank's pieces of `value_of` each flat parameter, by parameter."""
    for prefix, flat in flat_parameters(model):
        value = value_of(flat)
        if value is None:
            continue
        kept = flat._local_shard.numel() if hasattr(flat, "_local_shard") else flat.numel()
        if value.numel() != kept:
            continue  # gradients that are not reduced yet
        begin = 0 if kept == flat._unpadded_unsharded_size.numel() else rank * kept
        offset = 0
        for name, numel in zip(flat._fqns, flat._numels):
            first = min(max(begin, offset), offset + numel)
            last = min(max(begin + kept, first), offset + numel)
            yield prefix + name, value[first - begin : last - begin]
            offset += numel


def all_gather(calls, gather, outputs, shard, **options):
    # On the CPU this replaces all_gather_into_tensor, which a GPU uses.
    assert sum(output.numel() for output in outputs) == shard.numel() * len(outputs)
    calls.note("allgather_base", shard)
    return gather(outputs, shard, **options)


def reduce_scatter(calls, scatter, output, whole, **options):
    calls.note("reduce_scatter_base", output)
    return scatter(output, whole, **options)


def all_reduce(calls, reduce, tensor, **options):
    calls.note("allreduce", tensor)
    return reduce(tensor, **options)


def train(words, rank, tensors):
    model = model_of(words)

    def note(key, named):
        for name, tensor in named:
            if tensor is not None:
                tensors[f"{key}{name}"] = bits_of(tensor)

    note("1/0/pre_forward/parameter/whole.", model.named_parameters())
    model = shard(model, words)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def backward_of(step, micro_batch):
        backward(model, words, rank, step, micro_batch)
        gradients = pieces_of(model, rank, lambda flat: flat.grad)
        note(f"{step}/{micro_batch}/pre_step/gradient/", gradients)

    note("1/0/pre_forward/parameter/", pieces_of(model, rank, lambda flat: flat))
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        if "no-sync" in words:
            with model.no_sync():
                backward_of(step, 0)
        elif "two-backwards" in words:
            backward_of(step, 0)
        backward_of(step, 1)
        optimizer.step()
        note(f"{step}/1/post_step/parameter/", pieces_of(model, rank, lambda flat: flat))


def run(words):
    calls = Calls(
        all_gather=all_gather, reduce_scatter_tensor=reduce_scatter, all_reduce=all_reduce
    )
    return outcome_of(lambda tensors: train(words, dist.get_rank(), tensors), calls)


def main():
    warnings.simplefilter("ignore", FutureWarning)  # NO_SHARD is deprecated
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    run_variants(run)


if __name__ == "__main__":
    main()
