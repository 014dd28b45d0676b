"""What Megatron-LM, and others that write its attributes, say of a parameter."""

import sys


def is_of_expert(parameter):
    return getattr(parameter, "allreduce", True) is False


def is_tensor_parallel(parameter):
    return getattr(parameter, "tensor_model_parallel", False)


def tensor_parallel_rank():
    """None: it says none."""
    state = sys.modules.get("megatron.core.parallel_state")
    if state is not None and state.model_parallel_is_initialized():
        return state.get_tensor_model_parallel_rank()
    return None
