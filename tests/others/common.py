"""What the jobs of this folder share. A job is `job.py ok` or `job.py bug`, in one process or under torchrun."""

import os
import sys
from collections import OrderedDict
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
BUG = sys.argv[1:2] == ["bug"]
STEPS = 6
OWNERS = [RANK] if WORLD > 1 else [0, 1]  # whose losses this process computes: one process has those of two ranks


def start() -> None:
    torch.manual_seed(0)
    if WORLD > 1:
        dist.init_process_group("gloo")


def finish() -> None:
    if WORLD > 1:
        dist.barrier()
        dist.destroy_process_group()


def draw(step: int, *shape: int) -> torch.Tensor:
    """Numbers of the step, equal on all ranks."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(step))


def part(whole: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """This rank's part of what all ranks drew."""
    return whole.chunk(WORLD, dim)[RANK].contiguous()


def samples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of this rank, 16 over all ranks."""
    return part(draw(step, 16, 16)), part(draw(1000 + step, 16, 4))


def sequences(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """4 sequences of 8 tokens for a model that begins with Split, and the targets of this rank's tokens."""
    return draw(step, 4, 8, 16), part(draw(1000 + step, 4, 8, 16), 1)


def regression(owner: int, step: int, rows: int, inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of rank `owner`."""
    seed = 100 * step + owner
    return draw(seed, rows, inputs), draw(100_000 + seed, rows, outputs)


def backward(loss_of: Callable[[int, int], torch.Tensor], step: int) -> None:
    """From the loss of this rank, or in one process from the mean of the losses of all."""
    for owner in OWNERS:
        (loss_of(owner, step) / len(OWNERS)).backward()


def replicated(model: nn.Module, **options: object) -> nn.Module:
    return DistributedDataParallel(model, **options) if WORLD > 1 else model


def sharded(model: nn.Module, *inner: nn.Module, **options: object) -> None:
    """Shards by rows over all ranks: FSDP2."""
    if WORLD > 1:
        mesh = init_device_mesh("cpu", (WORLD,))
        for module in (*inner, model):
            fully_shard(module, mesh=mesh, **options)


def mean_square(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


def add_up(*tensors: torch.Tensor | None) -> None:
    """Sums over all ranks, in place."""
    for tensor in tensors:
        if WORLD > 1 and tensor is not None:
            dist.all_reduce(tensor)


def train_on_sequences(model: nn.Module, summed: list[nn.Parameter]) -> None:
    """A model that begins with Split. The gradients of `summed` are added up over the ranks, which see other tokens."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = sequences(step)
        (mean_square(model(x), y) / WORLD).backward()
        add_up(*(parameter.grad for parameter in summed))
        optimizer.step()


class StraightThrough(torch.autograd.Function):
    """Its forward pass rounds; the gradient passes it as it is."""

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def reduce_gradients(model: nn.Module) -> None:
    """Averages the gradients over all ranks, as a loop without DDP does."""
    for parameter in model.parameters():
        add_up(parameter.grad)
        parameter.grad /= WORLD


def two_layers(inputs: int = 3, hidden: int = 5, outputs: int = 2) -> nn.Sequential:
    torch.manual_seed(0)
    layers = {"up": nn.Linear(inputs, hidden), "tanh": nn.Tanh(), "down": nn.Linear(hidden, outputs)}
    return nn.Sequential(OrderedDict(layers))


def perceptron(width: int = 32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 4))


class Split(nn.Module):
    """Leaves this rank its part of each sequence, as sequence and context parallelism do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return part(x, 1)


class Gather(torch.autograd.Function):
    """All tokens from each rank's part; the gradients of all ranks add up."""

    adds_up = True

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, tokens: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(tokens) for _ in range(WORLD)]
        if WORLD > 1:
            dist.all_gather(parts, tokens.contiguous())
        return torch.cat(parts, 1) if WORLD > 1 else tokens.clone()

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.contiguous()
        if Gather.adds_up:
            add_up(gradient)
        return part(gradient, 1)


class Attention(nn.Module):
    """Context-parallel: a rank has the queries of its tokens, and the keys and values of all."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key, value = Gather.apply(self.key(x)), Gather.apply(self.value(x))
        return x + self.out(nn.functional.scaled_dot_product_attention(self.query(x), key, value))


class Block(nn.Module):
    """The part of a transformer that is tensor-parallel, with the norm that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def tensor_parallel(blocks: nn.Module, *, sequence: bool = False) -> None:
    """Shards each Block; with `sequence` each rank holds its part of the tokens between them, too."""
    layouts = {"input_layouts": Shard(1)} if sequence else {}, {"output_layouts": Shard(1)} if sequence else {}
    if WORLD > 1:
        mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",))
        for block in blocks.modules():
            if isinstance(block, Block):
                plan = {"up": ColwiseParallel(**layouts[0]), "down": RowwiseParallel(**layouts[1])}
                parallelize_module(block, mesh, plan)


class Pipeline:
    """A stage of torch.distributed.pipelining per rank, over 4 micro-batches of 4 samples."""

    def __init__(self, stage: nn.Module, hidden: int) -> None:
        first, last = RANK == 0, RANK == WORLD - 1
        shapes = (4, 16 if first else hidden), (4, 4 if last else hidden)
        made = PipelineStage(stage, RANK, WORLD, torch.device("cpu"), torch.zeros(shapes[0]), torch.zeros(shapes[1]))
        self.schedule = ScheduleGPipe(made, 4, loss_fn=mean_square)

    def step(self, step: int) -> None:
        inputs = [draw(step, 16, 16)] if RANK == 0 else []
        targets = {"target": draw(1000 + step, 16, 4)} if RANK == WORLD - 1 else {}
        self.schedule.step(*inputs, **targets)


class Tied(nn.Module):
    """A language model whose head has the weight of the embedding, or one of its two stages with a copy."""

    def __init__(self, stage: int, stages: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        embedding, middle = nn.Embedding(32, 16), nn.Linear(16, 16)
        self.first, self.last = stage == 0, stage == stages - 1
        if self.first:
            self.embedding = embedding
        if self.last:
            self.middle, self.head = middle, nn.Linear(16, 32, bias=False)
            self.head.weight = embedding.weight

    def tied(self) -> nn.Parameter:
        return self.embedding.weight if self.first else self.head.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(x) if self.first else x
        return self.head(torch.relu(self.middle(hidden))) if self.last else hidden


def next_token(output: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), tokens.flatten())


class TiedPipeline:
    """Tied in two stages over the ranks of `group`, or in one, over micro-batches of 4 sequences."""

    def __init__(self, stage: int, stages: int, group: dist.ProcessGroup | None = None) -> None:
        self.model, self.last, self.schedule = Tied(stage, stages), stage == stages - 1, None
        if stages > 1:
            hidden = torch.zeros(4, 8, 16)
            ends = (torch.zeros(4, 8, dtype=torch.long), hidden) if stage == 0 else (hidden, torch.zeros(4, 8, 32))
            made = PipelineStage(self.model, stage, stages, torch.device("cpu"), *ends, group=group)
            self.schedule = ScheduleGPipe(made, 16 // 4 // (WORLD // stages), loss_fn=next_token)

    def step(self, tokens: torch.Tensor) -> None:
        inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        if self.schedule is None:
            next_token(self.model(inputs), targets).backward()
        elif self.last:
            self.schedule.step(target=targets)
        else:
            self.schedule.step(inputs)


def tokens(step: int) -> torch.Tensor:
    return draw(step, 16, 9).mul(10).long().remainder(32)
