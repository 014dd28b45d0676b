"""One rank of the training of tests/testbed/fully_shard_parity.cc, with torch's fully_shard.

Started by forked_ranks.py: fully_shard_training.py FOLDER VARIANT... Its results go to
FOLDER/<variant>/w<world>/rank-N.json.
"""

import datetime

import torch
import torch.distributed as dist
from sharded_training import STEPS, Calls, backward, bits_of, model_of, outcome_of, run_variants
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor


def shard(model, words, mesh):
    options = {"mesh": mesh}
    if "no-reshard-after-forward" in words:
        options["reshard_after_forward"] = False
    if "reshard-root" in words:
        options["reshard_after_forward"] = True
    if "bfloat16" in words:
        options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in model.layers:
        if "mlp" in words or "mlp-and-layer" in words:
            fully_shard(layer.mlp, **options)
        if "layer" in words or "mlp-and-layer" in words:
            fully_shard(layer, **options)
    fully_shard(model, **options)


def data_of(tensor):
    return bits_of(tensor.to_local() if isinstance(tensor, DTensor) else tensor)


def all_gather(calls, gather, output_tensor, input_tensor, **options):
    assert output_tensor.numel() == input_tensor.numel() * dist.get_world_size()
    calls.note("allgather_base", input_tensor)
    return gather(output_tensor, input_tensor, **options)


def reduce_scatter(calls, scatter, output, input, op, **options):  # noqa: A002, torch's own name
    assert input.numel() == output.numel() * dist.get_world_size()
    calls.note("reduce_scatter_base", output)
    return scatter(output, input, op, **options)


def train(words, rank, mesh, tensors):
    model = model_of(words)
    used = []  # values of the first MLP's first weight that it computes with
    model.layers[0].mlp.gate.register_forward_pre_hook(lambda gate, _: used.append(gate.weight))

    def note(key, named):
        for name, tensor in named:
            if tensor is not None:
                tensors[f"{key}{name}"] = data_of(tensor)

    note("1/0/pre_forward/parameter/whole.", model.named_parameters())
    shard(model, words, mesh)
    shards = list(model.named_parameters())  # later the model may hold unsharded ones
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def backward_of(step, micro_batch):
        backward(model, words, rank, step, micro_batch)
        note(f"{step}/{micro_batch}/pre_step/gradient/", [(name, s.grad) for name, s in shards])

    note("1/0/pre_forward/parameter/", shards)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        if "no-sync" in words or "two-backwards" in words:
            model.set_requires_gradient_sync("no-sync" not in words)
            model.set_reshard_after_backward("no-reshard-after-backward" not in words)
            backward_of(step, 0)
            model.set_requires_gradient_sync(True)
            model.set_reshard_after_backward(True)
        backward_of(step, 1)
        if "uses-released" in words:
            torch.mm(torch.ones(1, len(used[0])), used[0])
        optimizer.step()
        note(f"{step}/1/post_step/parameter/", shards)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def run(words):
        calls = Calls(all_gather_into_tensor=all_gather, reduce_scatter_tensor=reduce_scatter)
        return outcome_of(lambda tensors: train(words, dist.get_rank(), mesh, tensors), calls)

    run_variants(run)


main()
