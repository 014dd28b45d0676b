"""Notes which ranks a launcher saw die by a signal: nobody else hears of it."""

import functools
import json
import os

from _lockstep import _files, _settings


def _note_death(process, status):
    """`status`: of a process that ended, negative by a signal, as Python tells it."""
    if process is None or status is None or status >= 0 or _settings.current is None:
        return
    path = os.path.join(_settings.current.folder, "process-%d.signal.json" % process)
    try:
        with _files.opened(path, encoding="utf-8") as file:
            json.dump({"process": process, "signal": -status}, file)
    except OSError:
        pass  # it says less then


def _wrap(owner, name, note):
    """Passes what a method returns or raises to `note`, which must not fail the job."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        try:
            result = method(self, *args, **kwargs)
        except BaseException as error:
            _attempt(note, error)
            raise
        _attempt(note, result)
        return result

    setattr(owner, name, wrapped)


def _attempt(note, result):
    try:
        note(result)
    except Exception:
        pass


def on_elastic_module(module):
    """`torch.distributed.elastic.multiprocessing.api` was imported: this process is torchrun, or one like it."""
    def note(result):
        for failure in getattr(result, "failures", {}).values():
            _note_death(failure.pid, failure.exitcode)

    _wrap(module.PContext, "wait", note)


def on_spawn_module(module):
    """`torch.multiprocessing.spawn` was imported: this process may start ranks."""
    def note(result):
        if isinstance(result, module.ProcessExitedException):
            _note_death(result.error_pid, result.exit_code)

    _wrap(module.ProcessContext, "join", note)
