"""Shared by fully_shard_training.py, flat_shard_training.py and zero_training.py.

The model is that of tests/parity/parity_model.h.
"""

import functools
import json
import pathlib
import sys

import torch
import torch.distributed as dist
from models import SwiGlu
from tiled_function import Tiling, tiled
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 3
INPUTS = 4
LAYERS = 3
TILES = 2
TILINGS = {
    "tiles-per-tile": Tiling(TILES, "per-tile"),
    "tiles-ready": Tiling(TILES, "per-tile"),  # zero_training.py announces the last one
    "tiles-set-aside": Tiling(TILES, "per-tile", sets_aside=True),
    "tiles-but-last": Tiling(TILES, "grad-but-last"),
    "tiles-explicit": Tiling(TILES, "explicit-inputs"),
}


class Layer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = SwiGlu(width, hidden)
        self.scale = nn.Parameter(torch.ones(1))
        self.tiles_around = False

    def run_mlp(self, tokens):
        if not self.tiles_around:
            return self.mlp(tokens)
        return tiled(lambda rows: (self.mlp(rows),), [], tokens, TILINGS["tiles-per-tile"])[0]

    def forward(self, tokens):
        return tokens + self.run_mlp(self.norm(tokens)) * self.scale


class Model(nn.Module):
    def __init__(self, words):
        super().__init__()
        width, hidden = (6, 12) if "even" in words else (5, 7)
        self.words = words
        self.skips_a_layer = "skips-a-layer" in words
        self.embedding = nn.Linear(INPUTS, width)
        self.layers = nn.ModuleList(Layer(width, hidden) for _ in range(LAYERS))
        self.head = nn.Linear(width, 1)

    def forward(self, batch):
        hidden = self.embedding(batch)
        for layer in self.layers:
            if self.skips_a_layer and layer is self.layers[1]:
                continue
            if "checkpoint" in self.words or "checkpoint-reentrant" in self.words:
                reentrant = "checkpoint-reentrant" in self.words
                hidden = checkpoint(layer, hidden, use_reentrant=reentrant)
            else:
                hidden = layer(hidden)
        return self.head(hidden)


def tile_mlps(model, tiling):
    """Like trainers: replaces the forward of each MLP."""
    for layer in model.layers:

        def forward(rows, mlp=layer.mlp, whole=layer.mlp.forward):
            parameters = [mlp.gate.weight, mlp.up.weight, mlp.down.weight]
            return tiled(lambda some: (whole(some),), parameters, rows, tiling)[0]

        layer.mlp.forward = forward


def model_of(words):
    torch.manual_seed(7)
    model = Model(words)
    if "float64" in words:
        model.double()
    if "frozen-embedding" in words:
        model.embedding.requires_grad_(False)
    if "frozen-layer" in words:
        model.layers[1].requires_grad_(False)
    for word, tiling in TILINGS.items():
        if word in words:
            tile_mlps(model, tiling)
    for layer in model.layers:
        layer.tiles_around = "tiles-around" in words
    return model


def batch_of(rank, step, micro_batch):
    generator = torch.Generator().manual_seed(1000 * step + 100 * micro_batch + rank)
    return torch.randn(2 + rank, 3, INPUTS, generator=generator)


def backward(model, words, rank, step, micro_batch):
    batch = batch_of(rank, step, micro_batch)
    if "float64" in words:
        batch = batch.double()
    if "evaluates" in words:
        with torch.no_grad():
            model(batch)
    loss = model(batch).pow(2).mean()
    if "two-forwards" in words:
        loss = loss + model(batch * 2).pow(2).mean()
    loss.backward()


def bits_of(tensor):
    local = tensor.detach().contiguous()
    return bytes(local.reshape(-1).view(torch.uint8).tolist()).hex()


# The names by which newer releases of torch than 2.11 call the same functions.
NEWER = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}


def name_in_this_torch(name):
    return NEWER[name] if hasattr(dist, NEWER.get(name, "")) else name


class Calls:
    """Records collectives during its lifetime: operation, dtype and elements.

    `wrappers` replace the functions of torch.distributed with their names; each receives this
    object and the replaced function.
    """

    def __init__(self, **wrappers):
        self.made = []
        self.wrappers = {name_in_this_torch(name): wrapper for name, wrapper in wrappers.items()}
        self.originals = {name: getattr(dist, name) for name in self.wrappers}

    def __enter__(self):
        for name, wrapper in self.wrappers.items():
            setattr(dist, name, functools.partial(wrapper, self, self.originals[name]))
        return self

    def __exit__(self, *error):
        for name, original in self.originals.items():
            setattr(dist, name, original)

    def note(self, operation, tensor):
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.made.append([operation, dtype, tensor.numel()])


def outcome_of(train, calls):
    """The error and the calls of this rank, and the tensors that `train` put into its dictionary.
    """
    error, tensors = "", {}
    with calls:
        try:
            train(tensors)
        except RuntimeError as raised:
            error = str(raised)
    return {"error": error, "collectives": calls.made, "tensors": tensors}


def run_variants(run):
    """Calls `run` with the words of every variant on the command line and stores its results."""
    folder, variants = pathlib.Path(sys.argv[1]), sys.argv[2:]
    rank, world = dist.get_rank(), dist.get_world_size()
    for variant in variants:
        outcome = run(variant.split("+"))
        file = folder / variant / f"w{world}" / f"rank-{rank}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(outcome))
    dist.destroy_process_group()
