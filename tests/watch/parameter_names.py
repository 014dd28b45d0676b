"""How the hook names the parameters of optimizers, without files: parameter_names.py PYTHON_FOLDER"""

import gc
import sys
import weakref

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)


class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


def names_in(optimizers, optimizer):
    return [named.name for _, named in optimizers.of(optimizer).parameters]


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.1)


def check_wrapped_models(optimizers):
    """A second model of equal names has the class of the module inside its wrapper."""
    first, second = Wrapper(Critic()), Wrapper(Critic())
    assert names_in(optimizers, sgd(first)) == ["layer.weight", "layer.bias"]
    assert names_in(optimizers, sgd(second)) == ["Critic.layer.weight", "Critic.layer.bias"]


def check_lifetimes(optimizers):
    """Nothing is kept alive, and no name is used again: when a rank collects garbage is chance."""
    module = nn.Linear(2, 2)
    optimizer = sgd(module)
    assert names_in(optimizers, optimizer) == ["weight", "bias"]
    gone = weakref.ref(module.weight), weakref.ref(optimizer)
    del module, optimizer
    gc.collect()
    assert gone[0]() is None and gone[1]() is None
    another = nn.Linear(2, 2)
    assert names_in(optimizers, sgd(another)) == ["Linear.weight", "Linear.bias"]


def check_replaced_parameters(optimizers):
    module = Critic()
    optimizer = sgd(module)
    before = names_in(optimizers, optimizer)
    module.layer.weight = nn.Parameter(torch.zeros(1, 5))
    optimizer.param_groups[0]["params"][0] = module.layer.weight
    known = optimizers.of(optimizer)
    assert known.parameters[0][0] is module.layer.weight
    assert names_in(optimizers, optimizer) == before, names_in(optimizers, optimizer)
    # The place of a parameter that only moved is not free.
    added = nn.Parameter(torch.zeros(3))
    optimizer.param_groups[0]["params"].insert(0, added)
    assert names_in(optimizers, optimizer)[1:] == before


def check_copies(optimizers):
    """Of a model in another type, or not, in the optimizer."""
    for dtype in torch.bfloat16, torch.float32:
        module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.LayerNorm(2)).to(dtype)
        copies = [one.detach().float().clone().requires_grad_() for one in module.parameters()]
        names = [name for name, _ in module.named_parameters()]
        # Two are zeros of one shape.
        with torch.no_grad():
            module[0].bias.zero_(), module[1].bias.zero_(), copies[1].zero_(), copies[3].zero_()
        optimizer = torch.optim.SGD(copies, lr=0.1)
        found = [name.removeprefix("Sequential.") for name in names_in(optimizers, optimizer)]
        assert [name.partition("#")[0] for name in found] == names, found
        held = [tensor for tensor, _ in optimizers.parameters_of_modules()][-len(names):]
        trained = module.parameters() if dtype != torch.float32 else copies  # which may be computed with, too
        assert all(one is other for one, other in zip(held, trained)), (dtype, len(held))
    assert optimizers.precisions == {("mixed precision of parameters", "bfloat16")}, optimizers.precisions


def check_tensors_that_are_no_copies(optimizers):
    module = Critic()
    copies = [one.detach().clone().requires_grad_() for one in module.parameters()]
    copies[0].data[0, 0] += 1
    optimizer = torch.optim.SGD(copies, lr=0.1)
    assert names_in(optimizers, optimizer) == ["optimizer0.group0.0", "optimizer0.group0.1"]


def check_gradients_of_shards(optimizers):
    """`optimizers` is not needed: a gradient is placed as its parameter, and a whole one is no part of it."""
    from _lockstep._placement import placement_of

    known = ((16,), (12,)), "fsdp 1"
    part = placement_of(torch.zeros(4), known)
    assert (part.part, part.group, part.reason) == (known[0], "fsdp 1", "")
    whole = placement_of(torch.zeros(16), known)
    assert whole.part is None and "gathered" in whole.reason, whole.reason
    none = placement_of(None, known)
    assert none.group == "fsdp 1" and "undefined" in none.reason, "as of an empty part"


def main():
    sys.path.insert(0, sys.argv[1])
    from _lockstep._optimizers import Optimizers
    from _lockstep._settings import Settings

    for check in check_wrapped_models, check_lifetimes, check_replaced_parameters, check_copies, \
            check_tensors_that_are_no_copies, check_gradients_of_shards:
        optimizers = Optimizers(torch, Settings())
        optimizers.use_rank(0)
        check(optimizers)
        gc.collect()
    print("names are as expected")


main()
