"""DDP as it comes."""

from torch.nn.parallel import DistributedDataParallel


def wrapped(model):
    return DistributedDataParallel(model)


def after_backward(model):
    pass
