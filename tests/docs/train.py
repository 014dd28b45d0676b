"""The train.py of the documents: it trains on one process, or on the ranks that a launcher starts.

With TRAIN_SAVES=FOLDER it then saves the weights there, in the formats that `lockstep diff` reads."""

import json
import os
import pathlib
import struct

import torch
import torch.distributed as dist
import torch.distributed.checkpoint
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 100


def save(state, folder):
    dist.checkpoint.save({"model": state}, checkpoint_id=folder / "one.dcp", no_dist=True)
    header, data = {}, b""
    for name, tensor in state.items():
        raw = bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    trained = model
    if world_size > 1:
        dist.init_process_group("gloo")
        trained = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, STEPS + 1):
        samples = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        trained(samples[rank::world_size]).pow(2).mean().backward()
        optimizer.step()
    if rank == 0 and "TRAIN_SAVES" in os.environ:
        save(model.state_dict(), pathlib.Path(os.environ["TRAIN_SAVES"]))
    if dist.is_initialized():
        dist.destroy_process_group()


main()
