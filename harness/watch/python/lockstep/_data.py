"""The samples that a rank sees: the inputs of the outermost forward passes."""

from lockstep._placement import is_stand_in
from lockstep._rows import Named, Rows

_MOST_BATCHES = 1024  # of a step that are observed


class Data:
    def __init__(self, torch):
        self._torch = torch
        self._forwards = []  # modules whose forward passes run, outermost first
        self._batches = []  # inputs of the forward passes since the last step
        self._written = 0  # in this step
        self._inputs = {}  # by name

    def before_forward(self, module):
        self._forwards.append(module)

    def after_forward(self, module, args, kwargs, is_wanted):
        """Copies the inputs of the outermost forward pass of a training. `kwargs`: None if it raised."""
        while self._forwards and self._forwards.pop() is not module:
            pass  # of a module that raised
        is_recomputed = self._torch._C._current_graph_task_id() != -1  # in backward
        if self._forwards or not is_wanted or is_recomputed or kwargs is None or not module.training:
            return
        if not self._torch.is_grad_enabled() or len(self._batches) == _MOST_BATCHES:
            return
        inputs = [("input %d" % i, value) for i, value in enumerate(args)] + sorted(kwargs.items())
        self._batches.append([(name, value.detach().clone()) for name, value in inputs
                              if isinstance(value, self._torch.Tensor)
                              and not is_stand_in(value) and not value.is_nested])

    def begin_step(self):
        self._written = 0

    def take(self):
        """The inputs since the last call."""
        self._forwards, batches = [], self._batches
        self._batches = []
        return batches

    def write(self, batches, watch, rank):
        for inputs in batches:
            sizes = {value.shape[0] for _, value in inputs if value.dim() > 0}
            rows = Rows(watch, self._torch)
            for name, value in inputs:
                named = self._inputs.setdefault(name, Named(name, (None, "data %d" % rank)))
                named.reason = ("" if value.dim() > 0 and len(sizes) == 1 else
                                "no batch dimension: inputs differ in the size of dimension 0")
                rows.add(named, value, "pre_forward", "data", self._written)
                if type(value) is self._torch.Tensor and value.is_cuda:  # its copy may be of another stream
                    value.record_stream(self._torch.cuda.current_stream(value.device))
            rows.write()
            self._written += 1
