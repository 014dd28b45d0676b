"""The types that a training computes in where its tensors do not show them: pairs of an operation and the
name of a type."""

# Of torch.set_float32_matmul_precision. "medium" allows bfloat16, whether or not the device has it.
_OF_MATMUL = {"high": "tf32", "medium": "bfloat16"}
_DEVICES = "cpu", "cuda"


def of_autocast(context):
    """Of `torch.autocast` that is not switched off."""
    return "autocast %s" % context.device, _name(context.fast_dtype)


def of_process(torch):
    """Of the settings that hold now, outside of any context."""
    found = []
    try:
        found += [("autocast %s" % device, _name(torch.get_autocast_dtype(device)))
                  for device in _DEVICES if torch.is_autocast_enabled(device)]
        matmul = _OF_MATMUL.get(torch.get_float32_matmul_precision())
        if matmul is not None:
            found.append(("float32 matmul", matmul))
    except (AttributeError, RuntimeError, TypeError):  # of a torch that has other settings
        pass
    return found


def of_parameter(parameter):
    """Of one in a module, of which the optimizer has a copy in another type."""
    return "mixed precision of parameters", _name(parameter.dtype)


def of_modules(torch, modules):
    """Of the engines that cast parameters or gradients, and of convolutions."""
    found = set()
    for module in modules:
        try:
            found.update(_of_module(torch, module))
        except Exception:  # of a class that has an attribute of this name for something else
            pass
    return found


def _of_module(torch, module):
    attributes = vars(module)
    get_state = getattr(type(module), "_get_fsdp_state", None)  # of fully_shard
    policy = get_state(module)._mp_policy if get_state is not None else attributes.get("mixed_precision")
    for operation, attribute in (("parameters", "param_dtype"), ("reduction", "reduce_dtype")):
        dtype = getattr(policy, attribute, None)
        if isinstance(dtype, torch.dtype):
            yield "mixed precision of %s" % operation, _name(dtype)
    for hook, _ in attributes.get("_comm_hooks", ()):  # of DDP
        for prefix, dtype in (("bf16", "bfloat16"), ("fp16", "float16")):
            if getattr(hook, "__name__", "").startswith(prefix):
                yield "mixed precision of reduction", dtype
    if isinstance(module, (torch.nn.modules.conv._ConvNd, torch.nn.RNNBase)):
        is_on_gpu = any(parameter.is_cuda for parameter in attributes["_parameters"].values()
                        if parameter is not None)
        if is_on_gpu and torch.backends.cudnn.allow_tf32:
            yield "convolutions and recurrent layers on cuda", "tf32"


def _name(dtype):
    return str(dtype)[len("torch."):]


class Precisions:
    """Those seen so far, with the first step of each."""

    def __init__(self):
        self._first_steps = {}

    def add(self, found, step):
        """Returns whether one is new."""
        new = [one for one in found if one not in self._first_steps]
        self._first_steps.update((one, step) for one in new)
        return bool(new)

    def facts(self):
        return [{"operation": operation, "dtype": dtype, "first_step": step}
                for (operation, dtype), step in self._first_steps.items()]
