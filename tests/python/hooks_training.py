"""The training of the cells of scenarios/hooks, through torch.nn.parallel.

Nothing here knows a result of lockstep: a cell is its variant and conditions, by name.
"""

import contextlib
import datetime
import os
import typing

import torch
import torch._dynamo  # DDP imports it on first use: once here, not in every process
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from models import SwiGlu, VisionLanguage
from tiled_function import Tiling, tiled

WIDTH, HIDDEN = 8, 16
LEARNING_RATE = 0.05
LIMIT = datetime.timedelta(seconds=60)
SMALL_BUCKET_MB = 1 / 2**20


class Cell(typing.NamedTuple):
    name: str
    scenario: str
    variant: str
    world: int
    steps: int
    seed: int
    axes: dict

    def axis(self, name, otherwise=None):
        return self.axes.get(name, otherwise)

    def is_on(self, name):
        return self.axis(name) == "on"

    @property
    def dtype(self):
        return getattr(torch, self.axis("dtype", "float32"))


def generator(cell, base, step, owner, index):
    seed = cell.seed + base + step * 100 + owner * 10 + index
    return torch.Generator().manual_seed(seed)


class TiledLayers:
    """tiled-backward-fires-hooks-per-tile."""

    def __init__(self, cell):
        self.cell = cell
        self.is_dyadic = cell.axis("values") == "dyadic"
        self.shape = (int(cell.axis("batch")), int(cell.axis("length")))

    def tiling(self):
        variant = self.cell.variant
        options = {"tiles": int(self.cell.axis("tiles", 1))}
        if variant.startswith("grad-but-last") or variant == "one-tile-set-aside":
            options["backward"] = "grad-but-last"
        if variant == "gated" and self.cell.world > 1:
            options["backward"] = "grad-but-last"
        if variant == "explicit-inputs" or variant.startswith("router-loss"):
            options["backward"] = "explicit-inputs"
        options["sets_aside"] = variant.endswith("set-aside")
        options["carries_all_outputs"] = variant != "router-loss-dropped"
        return Tiling(**options)

    def ddp_options(self):
        return {
            "static_graph": "static-graph" in self.cell.variant,
            "find_unused_parameters": "find-unused" in self.cell.variant,
        }

    def accumulation(self):
        return 2 if self.cell.variant == "one-tile-set-aside" else 1

    def learning_rate(self):
        return 0 if self.is_dyadic else LEARNING_RATE

    def model(self, tiling):
        if self.cell.axis("around") == "vision-language-model":
            return TiledVisionLanguage(tiling)
        return Layers(self.cell, tiling)

    def loss(self, model, *place):
        cell = self.cell

        def drawn(base, shape):
            source = generator(cell, base, *place)
            if self.is_dyadic:
                return torch.randint(-1, 2, shape, generator=source, dtype=cell.dtype)
            return torch.randn(shape, generator=source).to(cell.dtype)

        if cell.axis("around") == "vision-language-model":
            image = drawn(1_000_000, (self.shape[0], 1, 8, 8))
            text = torch.randint(32, self.shape, generator=generator(cell, 2_000_000, *place))
            logits = model(image, text)[:, -1 - text.shape[1] : -1]
            return functional.cross_entropy(logits.reshape(-1, 32), text.reshape(-1))
        rows, target = (drawn(base, (*self.shape, WIDTH)) for base in (1_000_000, 2_000_000))
        output, *more = model(rows)
        if self.is_dyadic:
            return (output * target).sum()
        losses = [(output - target).pow(2).mean()] + [other.pow(2).mean() for other in more]
        return sum(losses[1:], losses[0])


class Layers(nn.Module):
    """A tiled MLP and what stands around it."""

    def __init__(self, cell, tiling):
        super().__init__()
        around, is_dyadic = cell.axis("around", "layers"), cell.axis("values") == "dyadic"
        self.tiling = tiling
        self.below = nn.Linear(WIDTH, WIDTH) if around == "layers" else None
        self.mlp = SwiGlu(WIDTH, HIDDEN, nn.Identity() if is_dyadic else functional.silu)
        self.router = nn.Linear(WIDTH, 2) if "router" in cell.variant else None
        self.above = nn.Linear(WIDTH, WIDTH) if around != "nothing" else None
        if cell.axis("frozen") == "all":
            self.mlp.requires_grad_(False)
        if cell.axis("frozen") == "gate":
            self.mlp.gate.requires_grad_(False)
        if is_dyadic:
            with torch.no_grad():
                for weight in self.parameters():
                    weight.random_(-1, 2)

    def routed(self, rows):
        output = self.mlp(rows)
        if self.router is None:
            return (output,)
        probabilities = self.router(rows).softmax(-1)
        return output * probabilities[..., :1], probabilities

    def forward(self, rows):
        hidden = rows.requires_grad_() if self.below is None else self.below(rows)
        if self.tiling is None:
            output, *more = self.routed(hidden)
        else:
            own = [*self.mlp.parameters()]
            own += [] if self.router is None else self.router.parameters()
            output, *more = tiled(self.routed, own, hidden, self.tiling)
        return [output if self.above is None else self.above(output), *more]


class TiledVisionLanguage(VisionLanguage):
    def __init__(self, tiling):
        super().__init__((1, 8, 8), lora={"draws_b": True})
        for block in self.language.blocks if tiling else ():
            self.tile(block.mlp, tiling)

    @staticmethod
    def tile(mlp, tiling):
        plain = mlp.forward
        mlp.forward = lambda whole: tiled(
            lambda rows: (plain(rows),), list(mlp.parameters()), whole, tiling
        )[0]


SCENARIOS = {"tiled-backward-fires-hooks-per-tile": TiledLayers}


def prior_gradients(cell, model):
    for parameter in model.parameters() if cell.is_on("prior") else ():
        if parameter.requires_grad:
            yield parameter, parameter.detach() / 2


class Kept:
    """What a process saw: the tensors of every step, and how it ended."""

    def __init__(self):
        self.step, self.error, self.tensors = 0, "", {}

    def keep(self, what, name, tensor):
        value = None if tensor is None else tensor.detach().clone()
        self.tensors[f"{self.step}/0/{what}/{name}"] = value

    def saved(self):
        return {"step": self.step, "error": self.error, "tensors": self.tensors}


def train_steps(cell, scenario, model, kept, backward):
    """`backward(step)` leaves the gradients of a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=scenario.learning_rate())
    for kept.step in range(1, cell.steps + 1):
        optimizer.zero_grad()
        backward(kept.step)
        for name, parameter in model.named_parameters():
            kept.keep("reduced/gradient", name, parameter.grad)
        optimizer.step()
        for name, parameter in model.named_parameters():
            kept.keep("stepped/parameter", name, parameter)


def made(cell, tiling):
    """The scenario's part, its model, and the micro-batches of a step."""
    scenario = SCENARIOS[cell.scenario](cell)
    torch.manual_seed(cell.seed)
    model = scenario.model(scenario.tiling() if tiling else None).to(cell.dtype)
    return scenario, model, int(cell.axis("accumulation", scenario.accumulation()))


def wrapped(cell, scenario, model):
    if cell.world == 1:
        return model
    options = scenario.ddp_options()
    for option, axis in (("static_graph", "static_graph"), ("find_unused_parameters", "find_unused")):
        options[option] = options[option] or cell.is_on(axis)
    if cell.axis("bucket") == "small":
        options["bucket_cap_mb"] = SMALL_BUCKET_MB
    return DistributedDataParallel(
        model, gradient_as_bucket_view=cell.is_on("bucket_view"), **options
    )


def train_rank(cell, rank, kept):
    scenario, model, batches = made(cell, tiling=True)
    ddp = wrapped(cell, scenario, model)

    def backward(step):
        for parameter, prior in prior_gradients(cell, model):
            parameter.grad = prior
        for index in range(batches):
            is_quiet = cell.is_on("no_sync") and index + 1 < batches and cell.world > 1
            with ddp.no_sync() if is_quiet else contextlib.nullcontext():
                (scenario.loss(ddp, step, rank, index) / batches).backward()

    train_steps(cell, scenario, model, kept, backward)


def train_reference(cell, _rank, kept):
    """One process, no tiles, no DDP: the mean over the shards of all ranks."""
    scenario, model, batches = made(cell, tiling=False)
    parameters = list(model.parameters())

    def gradients(step, owner):
        model.zero_grad()
        losses = [scenario.loss(model, step, owner, i) / batches for i in range(batches)]
        sum(losses[1:], losses[0]).backward()
        return [parameter.grad for parameter in parameters]

    def backward(step):
        shards = [gradients(step, owner) for owner in range(cell.world)]
        for parameter, by_rank in zip(parameters, zip(*shards)):
            there = [gradient for gradient in by_rank if gradient is not None]
            parameter.grad = sum(there[1:], there[0]) / cell.world if there else None
        for parameter, prior in prior_gradients(cell, model):
            parameter.grad = prior if parameter.grad is None else prior + parameter.grad

    train_steps(cell, scenario, model, kept, backward)


def run(train, cell, rank, world, folder):
    """Trains as one rank of `world`, in this process; leaves what it saw in FOLDER/rank-N.pt."""
    kept = Kept()
    try:
        if world > 1:
            store = dist.FileStore(str(folder / "store"), world)
            dist.init_process_group(
                "gloo", store=store, rank=rank, world_size=world, timeout=LIMIT
            )
        train(cell, rank, kept)
    except RuntimeError as raised:
        kept.error = str(raised)
    file = folder / f"rank-{rank}.pt"
    torch.save(kept.saved(), f"{file}.tmp")
    os.rename(f"{file}.tmp", file)
