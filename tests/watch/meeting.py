"""How the ranks of a training meet: in the file STORE of two_ranks.py, else as torchrun says."""

import os

import torch.distributed as dist


def join():
    dist.init_process_group("gloo", init_method=os.environ.get("STORE"), rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
