"""Buffers of modules: which ones all ranks have to share, and what a rank has of these at the end."""

from _lockstep._digests import digests_of
from _lockstep._names import plain_name
from _lockstep._wrappers import broadcast_buffers


def named_buffers_of(roots):
    """Triples of a name, the module that has the buffer, and its name there."""
    for root in roots:
        for prefix, module in root.named_modules():
            for name in module._buffers.keys():  # of TorchScript, they are no dict
                yield plain_name(prefix + "." + name if prefix else name), module, name


def is_state(torch, module, name):
    """Whether a buffer is state of the training that all ranks have to share: it is saved, has real numbers, and is
    more than a normalisation layer's statistics of the samples it saw, which nothing reads in training."""
    value = getattr(module, name, None)
    return (isinstance(value, torch.Tensor) and value.is_floating_point()
            and name not in getattr(module, "_non_persistent_buffers_set", ())  # TorchScript has none
            and not isinstance(module, torch.nn.modules.batchnorm._NormBase))


class LastBuffers:
    """Those of models that are trained. What DistributedDataParallel broadcasts agrees before a forward pass, and may
    differ after it."""

    def __init__(self, torch):
        self._torch = torch
        self._facts = []

    def facts(self):
        """Like those of `Frozen`: digests after the last step."""
        return self._facts

    def look(self, references):
        """`references`: weak ones to the models; those that are gone are as they were at the last look. Raises nothing:
        these facts only make notes."""
        models = [model for model in (reference() for reference in references) if model is not None]
        if not models:
            return
        try:
            broadcast, found = broadcast_buffers(), {}
            for whole, module, name in named_buffers_of(models):
                value = getattr(module, name, None)
                if is_state(self._torch, module, name) and id(value) not in broadcast:
                    found.setdefault(whole, value)
            digests = digests_of(self._torch, list(found.values()))
            self._facts = [{"model": "", "name": name, "first": "", "last": digest, "is_buffer": True}
                           for name, digest in zip(found, digests) if digest]
        except Exception:  # of modules with odd attributes
            self._facts = []
