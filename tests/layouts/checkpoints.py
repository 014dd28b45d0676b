"""Checkpoints of watched trainings: checkpoints.py OUT train|plant.

`train` watches the training of layouts.py and saves its weights, with the number of ranks in the name: one
process into `single1.dcp`; several with fully_shard into `fully_shard2.dcp`, and with DDP into
`ddp2.safetensors` and, after step 3, into `ddp2-step3.safetensors`. `plant` makes copies of
fully_shard2.dcp that are right, and others with one fault."""

import ctypes
import json
import os
import pickle
import struct
import sys

import layouts
import lockstep
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict

NAMES = {torch.float32: "F32", torch.bfloat16: "BF16"}


def without_numpy():
    """torch passes objects between ranks through numpy, which a Python of tests need not have."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        dist.distributed_c10d._tensor_to_object = lambda tensor, size, group: pickle.loads(
            bytes(tensor[:size].tolist()))


def save_safetensors(tensors, path):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            tensor = tensor.contiguous()
            file.write(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))


def save_distributed(module, optimizer, path):
    model, state = get_state_dict(module, optimizer)
    dcp.save({"model": model, "optim": state, "step": layouts.case.steps}, checkpoint_id=path)


def watched(out, name, training):
    lockstep.watch(out=os.path.join(out, name))
    training()
    lockstep.stop()


def single(out):
    module = layouts.model()
    optimizer = layouts.optimizer_of(module.parameters())
    watched(out, "single1", lambda: layouts.train(module, module, optimizer))
    save_distributed(module, optimizer, os.path.join(out, "single1.dcp"))


def sharded(out):
    from torch.distributed.fsdp import fully_shard

    module = layouts.model()
    fully_shard(module)
    optimizer = layouts.optimizer_of(module.parameters())
    name = "fully_shard%d" % dist.get_world_size()
    watched(out, name, lambda: layouts.train(module, module, optimizer, layouts.own))
    save_distributed(module, optimizer, os.path.join(out, name + ".dcp"))


def ddp(out):
    module = layouts.model()
    wrapped = nn.parallel.DistributedDataParallel(module)
    name = "ddp%d" % dist.get_world_size()

    def save(suffix):
        if dist.get_rank() == 0:
            save_safetensors(wrapped.state_dict(), os.path.join(out, name + suffix + ".safetensors"))

    def before_step(step, _):
        if step == 4:
            save("-step3")

    optimizer = layouts.optimizer_of(module.parameters())
    watched(out, name, lambda: layouts.train(module, wrapped, optimizer, layouts.own, before_step))
    save("")


def plant(out):
    saved = os.path.join(out, "whole.pt")
    dcp_to_torch_save(os.path.join(out, "fully_shard2.dcp"), saved)
    state = torch.load(saved, weights_only=True)
    dcp.save(state, checkpoint_id=os.path.join(out, "resharded.dcp"))

    def planted(name, **changes):
        tensors = {**state["model"], **changes}
        save_safetensors({key: value for key, value in tensors.items() if value is not None},
                         os.path.join(out, name + ".safetensors"))

    first, bias = state["model"]["first.weight"], state["model"]["second.bias"]
    planted("copy")
    planted("rounded", **{key: value.bfloat16() for key, value in state["model"].items()})
    planted("doubled", **{"head.weight": 2 * state["model"]["head.weight"]})
    planted("swapped", **{"first.weight": torch.cat([first[:16], first[16:].flip(0)])})
    planted("transposed", **{"first.weight": first.t()})
    planted("missing", **{"norm.bias": None})
    planted("nan", **{"second.bias": bias.index_fill(0, torch.tensor([3]), float("nan"))})


def main():
    torch.set_num_threads(1)
    without_numpy()
    out, task = sys.argv[1:]
    if task == "plant":
        plant(out)
    elif os.environ["WORLD_SIZE"] == "1":
        single(out)
    else:
        dist.init_process_group("gloo")
        for training in (sharded, ddp):
            dist.barrier()
            training(out)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
