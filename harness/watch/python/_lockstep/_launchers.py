"""In the process of a launcher: notes which ranks it saw die by a signal, and gives ranks that it begins again
files of their own. Nobody else hears of either."""

import functools
import json
import os

from _lockstep import _files, _settings
from _lockstep._start import say


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


class _Attempts:
    """The groups of ranks that this launcher has begun, one after the other. A group follows another one that
    did not succeed: it failed, or other machines joined or left. After one that did, another job begins."""

    def __init__(self):
        self._number = 1
        self._is_open = False  # one was begun, and is not known to have succeeded
        self._first = None  # folder and id of the first one

    def begin(self):
        """Before ranks are started, which inherit the environment of this process."""
        current = _settings.current
        if current is None or not _settings.is_watched_from_outside():
            return
        if self._first is None:
            self._first = current.folder, current.job
        elif self._is_open:
            from _lockstep import _library

            self._number += 1
            folder, job = ("%s-%d" % (first, self._number) for first in self._first)
            _library.begin_attempt(folder)
            os.environ["LOCKSTEP_WATCH_FOLDER"], os.environ["LOCKSTEP_WATCH_JOB"] = folder, job
            current.folder, current.job = folder, job
        self._is_open = True

    def note_end(self, result):
        """`result`: of waiting for the ranks; None: they still run."""
        if result is not None and not isinstance(result, BaseException) and not result.is_failed():
            self._is_open = False


def on_elastic_module(module):
    """`torch.distributed.elastic.multiprocessing.api` was imported: this process is torchrun, or one like it."""
    attempts = _Attempts()

    def note(result):
        for failure in getattr(result, "failures", {}).values():
            _note_death(failure.pid, failure.exitcode)
        attempts.note_end(result)

    _wrap(module.PContext, "wait", note)
    start = module.PContext.start

    @functools.wraps(start)
    def started(self, *args, **kwargs):
        try:
            attempts.begin()
        except Exception as error:  # the ranks then find the files of those before
            say("the ranks that are begun again are not watched: %s" % error)
        return start(self, *args, **kwargs)

    module.PContext.start = started


def on_spawn_module(module):
    """`torch.multiprocessing.spawn` was imported: this process may start ranks."""
    def note(result):
        if isinstance(result, module.ProcessExitedException):
            _note_death(result.error_pid, result.exit_code)

    _wrap(module.ProcessContext, "join", note)
