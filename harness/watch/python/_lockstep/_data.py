"""The samples that a rank sees: the inputs of the outermost forward passes."""

from _lockstep._placement import is_stand_in
from _lockstep._rows import Named, Rows
from _lockstep._traffic import number_of_calls

_MOST_BATCHES = 1024  # of a step that are observed
_MOST_OF_EVALUATION = 64  # modules in evaluation mode may train, or run through a whole data set


class Data:
    def __init__(self, torch):
        self._torch = torch
        self._forwards = []  # modules whose forward passes run, outermost first
        self._batches = []  # inputs of the forward passes since the last step
        self._are_of_training = False  # of modules in training mode
        self._written = 0  # in this step
        self._inputs = {}  # by name
        self._calls = None  # collectives before the forward pass that runs
        self.most_calls = -1  # collectives in a forward pass of a training; -1: of none it is known

    def before_forward(self, module):
        self._forwards.append(module)
        if self._is_of_model():
            self._calls = number_of_calls()

    def _is_of_model(self):
        """Whether the innermost module that runs is the outermost but for DDP, which broadcasts buffers by itself."""
        if len(self._forwards) > 2:
            return False
        parallel = getattr(self._torch.nn.parallel, "DistributedDataParallel", ())
        is_inside = len(self._forwards) == 2 and isinstance(self._forwards[0], parallel)
        return is_inside or len(self._forwards) == 1 and not isinstance(self._forwards[0], parallel)

    def _count_calls(self):
        """Of a forward pass that ends: ranks of one model exchange parts of it there."""
        calls, before, self._calls = number_of_calls(), self._calls, None
        if calls is not None and before is not None and self._torch.is_grad_enabled():
            self.most_calls = max(self.most_calls, calls - before)

    def after_forward(self, module, args, kwargs, is_wanted):
        """Copies the inputs of the outermost forward pass of a training, as far as they count samples: trainers
        pass numbers as tensors without a dimension, too, and what needs a gradient is activations of a module or stage
        before. `kwargs`: None if it raised."""
        if self._forwards and self._forwards[-1] is module and self._is_of_model() and kwargs is not None:
            self._count_calls()
        while self._forwards and self._forwards.pop() is not module:
            pass  # of a module that raised
        is_recomputed = self._torch._C._current_graph_task_id() != -1  # in backward
        if self._forwards or not is_wanted or is_recomputed or kwargs is None:
            return
        if not self._torch.is_grad_enabled() or not self._has_room(module.training):
            return
        inputs = [("input %d" % i, value) for i, value in enumerate(args)] + sorted(kwargs.items())
        self._batches.append([(name, value.detach().clone()) for name, value in inputs
                              if isinstance(value, self._torch.Tensor) and value.dim() > 0
                              and not value.requires_grad and not is_stand_in(value) and not value.is_nested])

    def _has_room(self, is_of_training):
        """Passes in evaluation mode are those of an evaluation if others are in training mode."""
        if is_of_training and not self._are_of_training:
            self._are_of_training, self._batches = True, []
        if not is_of_training:
            return not self._are_of_training and len(self._batches) < _MOST_OF_EVALUATION
        return len(self._batches) < _MOST_BATCHES

    def begin_step(self):
        self._written = 0

    def take(self):
        """The inputs since the last call."""
        self._forwards, batches = [], self._batches
        self._batches, self._are_of_training = [], False
        return batches

    def write(self, batches, watch, rank):
        for inputs in batches:
            sizes = {value.shape[0] for _, value in inputs}
            rows = Rows(watch, self._torch)
            for name, value in inputs:
                named = self._inputs.setdefault(name, Named(name, (None, "rank %d" % rank)))
                named.reason = ("" if len(sizes) == 1 else
                                "no batch dimension: inputs differ in the size of dimension 0")
                rows.add(named, value, "pre_forward", "data", self._written)
                if type(value) is self._torch.Tensor and value.is_cuda:  # its copy may be of another stream
                    value.record_stream(self._torch.cuda.current_stream(value.device))
            rows.write()
            self._written += 1
