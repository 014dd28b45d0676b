"""What the text of DDP's error advises."""

from torch.nn.parallel import DistributedDataParallel


def wrapped(model):
    return DistributedDataParallel(model, static_graph=True)


def after_backward(model):
    pass
