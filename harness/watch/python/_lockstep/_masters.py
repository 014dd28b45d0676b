"""Copies of parameters that optimizers step in their place, such as those in float32 of a model in bfloat16."""

_MOST_TRIED = 4  # parameters of a shape, of which several may have the same values, such as zeros


def masters_in(torch, tensors, models):
    """Triples of a model, a name in it and its parameter for each of the tensors, in their order; none unless each has one:
    a parameter of that shape, with these values in its type, if possible all of one model. `models`: pairs of a model, and
    of pairs of name and parameter that no optimizer has. Both have to be on one device: no tensor is moved."""
    for some in [*([one] for one in models), models]:
        found = _masters_of(torch, tensors, some)
        if found:
            return found
    return []


def _masters_of(torch, tensors, models):
    by_shape = {}
    for model, inside in models:
        for name, parameter in inside:
            if parameter.requires_grad and _is_plain(torch, parameter):
                by_shape.setdefault(tuple(parameter.shape), []).append((model, name, parameter))
    found = []
    for tensor in tensors:
        alike = by_shape.get(tuple(tensor.shape), []) if _is_plain(torch, tensor) else []
        place = next((i for i, (_, _, parameter) in enumerate(alike[:_MOST_TRIED])
                      if _is_copy(torch, tensor, parameter)), None)
        if place is None:
            return []
        found.append(alike.pop(place))
    return found


def is_computed_with(parameter, copy):
    """Whether the training computes with the parameter. With a copy in its type it may compute as well, as by
    `torch.func.functional_call`: then the parameter gets no gradient."""
    return parameter.dtype != copy.dtype or parameter.grad is not None


def _is_plain(torch, tensor):
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and str(tensor.layout) == "torch.strided"


def _is_copy(torch, tensor, parameter):
    if tensor.device != parameter.device or tensor.is_meta or tensor.data_ptr() == parameter.data_ptr():
        return False
    with torch.no_grad():
        return bool(torch.equal(tensor.to(parameter.dtype), parameter))
