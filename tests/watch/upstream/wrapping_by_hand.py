"""No hook counts the gradients of a parameter: they are averaged when all have come."""

import torch.distributed as dist


def wrapped(model):
    return model


def after_backward(model):
    if dist.is_initialized():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
