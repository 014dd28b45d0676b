"""Small language models whose head has the weight of the embedding, or should, each observed into a folder of its name:
ties.py OUT CASE..."""

import copy

from observed_cases import observe_cases
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

STEPS = 4
WORDS = 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.body, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 16), nn.Linear(16, WORDS, False)
        self.tie()

    def tie(self):
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.body(self.embedding(tokens))))


def reduced_by_hand(model):
    """The gradients of both copies become their sum, so these stay equal."""
    one, other = model.embedding.weight.grad._local_tensor, model.head.weight.grad._local_tensor
    one += other
    other.copy_(one)


def divided(model, case):
    if case == "shards-together":
        fully_shard([model.embedding, model.head])
    elif case in ("shards-apart", "kept-equal"):
        fully_shard(model.embedding)
        fully_shard(model.head)
    return fully_shard(model)


def split(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    return parallelize_module(model, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate())})


def built(case):
    """Not yet wrapped."""
    if case.startswith("meta"):
        with torch.device("meta"):
            model = Model()
        model.to_empty(device="cpu")
        if case == "meta-tied-again":
            model.tie()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.1)
        return model
    model = Model()
    if case.startswith("assigned"):
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
    if case == "assigned-tied-again":
        model.tie()
    if case == "untied":
        model.head.weight = nn.Parameter(model.embedding.weight.detach().clone())
    return copy.deepcopy(model) if case == "copied" else model


def train(case):
    torch.manual_seed(0)
    model = built(case)
    if case.startswith("shards") or case == "kept-equal":
        wrapped = divided(model, case)
    else:
        wrapped = split(model) if case == "split" else nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    generator = torch.Generator().manual_seed(0 if case == "split" else dist.get_rank())
    for _ in range(STEPS):
        tokens = torch.randint(WORDS, (4, 8), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(tokens).flatten(0, 1), tokens.flatten()).backward()
        if case == "kept-equal":
            reduced_by_hand(model)
        optimizer.step()


if __name__ == "__main__":
    observe_cases(train, modules=True)
