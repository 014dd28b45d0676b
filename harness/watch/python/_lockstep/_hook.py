"""Registers the watcher of this process with torch: once per module of torch, when it is imported."""

import atexit
import functools
import os

from _lockstep import _divided, _settings, _stalls
from _lockstep._metrics import note_reductions
from _lockstep._optimizers import note_made as note_optimizer
from _lockstep._process import at_end, has_joined
from _lockstep._ties import note as note_parameter
from _lockstep._watcher import Watcher
from _lockstep._wrappers import note_made

watcher = None  # of this process, once torch's optimizers are imported
_optimizers = None  # the module `torch.optim.optimizer`
_registered = []  # handles of our hooks there


def _register(before, after):
    """Replaces our hooks of torch's optimizers."""
    while _registered:
        _registered.pop().remove()
    _registered.append(_optimizers.register_optimizer_step_pre_hook(before))
    _registered.append(_optimizers.register_optimizer_step_post_hook(after))


def on_optimizer_module(module):
    """`torch.optim.optimizer` was imported."""
    global watcher, _optimizers
    import torch

    if watcher is not None:
        watcher.restart()
    else:
        watcher, _optimizers = Watcher(torch), module
        _note_optimizers(module.Optimizer)
        _settings.watcher = watcher
        _register(watcher.before_step, watcher.after_step)
    if "micro-batches" in _settings.current.also:
        _wrap_optimizers(module.Optimizer)
        watcher.has_optimizers(module.Optimizer)


def on_distributed_module(module):
    """`torch.distributed.distributed_c10d` was imported: from now on this process may hang."""
    if _settings.current.is_created:  # nobody asks where its ranks are
        return
    _stalls.progress = _stalls.Progress()
    atexit.register(_stalls.progress.end)
    at_end(_end_without_step)
    if module is not None and _is_first("destroy_process_group"):
        _note_leaving(module)


def _note_leaving(module):
    """At its end a process has often left the world, and its models are gone."""
    destroy = module.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        if watcher is not None and group in (None, module.GroupMember.WORLD):
            watcher.leave_world()
        return destroy(group)

    module.destroy_process_group = destroy_process_group


def _end_without_step():
    if watcher is not None and has_joined():
        watcher.end_without_step()


def _is_rank():
    """Whether this process trains: it has joined a world, or an optimizer stepped."""
    return has_joined() or watcher is not None and watcher.has_begun()


def _begin_in_child():
    """This process was forked. By a rank: it is a data worker or the like, and not observed. By another
    process, such as a launcher that has imported torch: it may become a rank, and observes its own training."""
    if not _settings.is_watched_from_outside() or _is_rank():
        return
    if watcher is not None:
        watcher.restart()
    if _stalls.progress is not None:
        on_distributed_module(None)


os.register_at_fork(after_in_child=_begin_in_child)

_wrapped = set()  # what is replaced or hooked once, though this process may be watched several times


def _is_first(name):
    is_first = name not in _wrapped
    _wrapped.add(name)
    return is_first


def _note_optimizers(optimizer_type):
    """Nothing else tells where an optimizer is made."""
    make = optimizer_type.__init__

    @functools.wraps(make)
    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        note_optimizer(self)

    optimizer_type.__init__ = __init__


def _wrap_optimizers(optimizer_type):
    """An optimizer is given its parameters by this method, also when it is made: before the first
    backward pass."""
    if not _is_first("add_param_group"):
        return
    add = optimizer_type.add_param_group

    def add_param_group(self, *args, **kwargs):
        result = add(self, *args, **kwargs)
        watcher.has_parameters(self, self.param_groups[-1]["params"])
        return result

    optimizer_type.add_param_group = add_param_group


def on_module_module(module):
    """`torch.nn.modules.module` was imported."""
    current = _settings.current
    if current.modules and _is_first("register_parameter"):
        _note_parameters(module.Module)
    if not (current.data or current.modules or current.perturbation) or not _is_first("forward"):
        return

    def before(module, args):
        import torch

        if watcher is not None and not torch.compiler.is_compiling():
            watcher.before_forward(module, args)

    def after(module, args, *rest):  # rest: kwargs and output; if it raised, an output alone
        import torch

        if watcher is not None and not torch.compiler.is_compiling():
            watcher.after_forward(module, args, rest[0] if len(rest) == 2 else None, rest[-1])

    module.register_module_forward_pre_hook(before)
    module.register_module_forward_hook(after, with_kwargs=True, always_call=True)


def _note_parameters(module_type):
    """Nothing else tells which parameters modules shared."""
    register = module_type.register_parameter

    @functools.wraps(register)
    def register_parameter(self, name, param):
        register(self, name, param)
        note_parameter(self, name, param)

    module_type.register_parameter = register_parameter


def on_dynamo_module(module):
    """`torch._dynamo` was imported: it would compile the hooks into an optimizer's step, and with them
    change the step's numbers."""
    if watcher is not None:
        _register(module.disable(watcher.before_step), module.disable(watcher.after_step))


def on_scaler_module(module):
    """`torch.amp.grad_scaler` was imported: it does not call the optimizer in a step that it skips."""
    if not _is_first("_maybe_opt_step"):
        return
    step_if_finite = module.GradScaler._maybe_opt_step

    def _maybe_opt_step(self, optimizer, *args, **kwargs):
        before = watcher.steps_of(optimizer) if watcher is not None else 0
        result = step_if_finite(self, optimizer, *args, **kwargs)
        if watcher is not None and watcher.steps_of(optimizer) == before:
            watcher.skipped_step(optimizer)
        return result

    module.GradScaler._maybe_opt_step = _maybe_opt_step


def on_wrapper_module(module):
    """`torch.nn.parallel.distributed` was imported: nothing else tells where a wrapper is made."""
    if not _is_first("DistributedDataParallel"):
        return
    make = module.DistributedDataParallel.__init__

    @functools.wraps(make)
    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if watcher is not None:
            note_made(self, kwargs.get("init_sync", True))

    module.DistributedDataParallel.__init__ = __init__


def on_divided_module(module):
    """A module of FSDP was imported: nothing else sees the parameters of a rank before they are divided."""
    if not _is_first(module.__name__):
        return
    for owner, name, around in (("FSDPParam", "_init_sharded_param", _divided.around_parameter),
                                ("FlatParamHandle", "shard", _divided.around_flat)):
        divide = getattr(getattr(module, owner, None), name, None)
        if divide is not None:
            setattr(getattr(module, owner), name, functools.wraps(divide)(around(divide)))


def on_sampler_module(module):
    """`torch.utils.data.distributed` was imported: it divides data sets between ranks."""
    if not _is_first("DistributedSampler"):
        return
    begin = module.DistributedSampler.__iter__

    @functools.wraps(begin)
    def __iter__(self):
        indices = begin(self)
        return indices if watcher is None else watcher.goes_through(self, indices)

    module.DistributedSampler.__iter__ = __iter__


def on_metrics_module(module):
    """The module of Lightning with its metrics was imported."""
    if _is_first(module.__name__):
        note_reductions(module, lambda: watcher.present_step() if watcher is not None else 0)


def on_join_module(module):
    """`torch.distributed.algorithms.join` was imported: ranks whose data has ended go along with the others."""
    if not _is_first("Join"):
        return
    torch, join = module.torch, module.Join
    enter, leave, notify = join.__enter__, join.__exit__, join.notify_join_context

    @functools.wraps(enter)
    def __enter__(self):
        if watcher is not None:
            watcher.enters_join(self)
        return enter(self)

    @functools.wraps(leave)
    def __exit__(self, kind, value, traceback):
        if watcher is None:
            return leave(self, kind, value, traceback)
        has_raised = True
        try:
            if kind is None:
                watcher.awaits_others(self)
            result = leave(self, kind, value, traceback)
            has_raised = kind is not None
            return result
        finally:
            watcher.leaves_join(self, has_raised)

    @functools.wraps(notify)
    def notify_join_context(joinable):
        work = notify(joinable)
        # None: it is in no Join, as nearly always. A compiled forward pass of DDP has this function in it: what it
        # computes stays the same.
        if work is not None and not torch.compiler.is_compiling() and watcher is not None:
            watcher.goes_on_in_join(joinable)
        return work

    join.__enter__, join.__exit__, join.notify_join_context = __enter__, __exit__, staticmethod(notify_join_context)


def on_autocast_module(module):
    """`torch.amp.autocast_mode` was imported: optimizers step outside of autocast, so nobody sees it there."""
    if not _is_first("autocast"):
        return
    torch = module.torch
    enter = module.autocast.__enter__

    # TorchScript compiles the source of the method that this one replaces, with the names that are seen from here.
    @functools.wraps(enter)
    def __enter__(self):
        result = enter(self)
        # Some models switch it off in every layer, so this is quick. Evaluation does not count.
        if (watcher is not None and getattr(self, "_enabled", False)
                and (self.device, self.fast_dtype) not in watcher.autocasts and torch.is_grad_enabled()):
            watcher.has_autocast(self)
        return result

    module.autocast.__enter__ = __enter__
