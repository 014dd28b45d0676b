"""What a training script may say to Lockstep: `watch` and `stop` in a script that nobody watches from
outside, and `observe` in any."""

import sys

__all__ = ["observe", "stop", "watch"]

_is_lockstep = True  # a job may have another module of this name
_in_code = None  # what `watch` has called, since a job may clear sys.modules


def observe(name, value):
    """Records `value`, a tensor or a number, under `name` in the current step: the one whose
    optimizer step was the last. No verdict depends on it. If nothing is watched, it does nothing."""
    hook = sys.modules.get("_lockstep._hook")
    if hook is not None and hook.watcher is not None:
        hook.watcher.observe_value(name, value)


def watch(out=None, every=1, start=1, until=None, tensors=None, ignore=None, replicas=None, data=False,
          also=(), agree_every=None, keep_before=False, keep=256, store_first=0, history=1024,
          modules=False, group_readable=False):
    """Observes the optimizers of this process from now on, as `lockstep watch` does from outside.
    `lockstep report OUT` says whether the ranks agree.

    All ranks call it with the same arguments, before or after they build their models; the next
    optimizer step is step 1. `stop` ends it, or the end of the process.

    out          folder of the files, new or empty; a single process may leave it out: runs/<utc>
    every        of so many steps one is observed
    start        the first observed step
    until        the last one
    tensors      a regular expression: only parameters with such names are observed
    ignore       the same: they are left out
    replicas     "tp=2": every 2 ranks in a row hold other parts of the tensors
    data         True: also observes which samples each rank sees
    also         some of "buffers", "optimizer-state", "random-state", "micro-batches"
    agree_every  ranks may differ after a step, if they agree before one of so many
    keep         MiB of values that each rank stores, once a report finds that ranks differ
    store_first  steps whose values are stored as well, as far as `keep` allows, so that `lockstep diff` is
                 exact there
    keep_before  True: copies the values of each step, so that those of the step in which the ranks are
                 asked for them are stored, too
    history      MiB of rows that each rank writes; then one of 100 steps is observed
    modules      True: also observes outputs of modules and the gradients at them, for `lockstep diff`;
                 slower
    group_readable  True: the group may read the files, else their owner alone

    Returns the absolute path of the run's folder. Inside `lockstep watch` it does nothing else.
    Raises ValueError if an argument is wrong, and RuntimeError if the folder holds an earlier job or
    cannot be written, if this process is watched already, or if Lockstep's library cannot be loaded.
    A failure while the job trains prints a line and raises nothing."""
    global _in_code
    if _in_code is None:
        from _lockstep import _in_code

    return _in_code.watch(out, _in_code.settings_of(every, start, until, tensors, ignore, replicas, data,
                                                    also, agree_every, keep_before, keep, store_first, history,
                                                    modules, group_readable))


def stop():
    """Ends what `watch` began: writes everything that is pending and closes the files. The last rank to
    stop completes the record of the job. Without `watch` it does nothing."""
    if _in_code is not None:
        _in_code.stop()
