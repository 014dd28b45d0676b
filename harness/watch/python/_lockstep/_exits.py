"""The error that ends this process: one that nobody catches, or one that a handler of the script ends it for, as in
`except Exception: traceback.print_exc(); sys.exit(1)`. Python forgets the latter."""

import functools
import os
import sys
import threading

from _lockstep._process import is_child

_left_after = None  # the error that was handled when the script asked to leave
_wrapped = False


class _Mark:
    """Of a SystemExit. The process leaves if it ends below no frame; else something has caught it."""

    def __del__(self):
        global _left_after
        try:
            sys._getframe(1)
        except ValueError:
            return
        _left_after = None

    def __reduce__(self):  # it is of this process
        return type(None), ()


def _behind_exit(error):
    """The error after which a script, or multiprocessing, leaves by SystemExit; others are their own."""
    if isinstance(error, SystemExit):
        return error.__context__ if error.code else None
    return error


def error_of_process():
    """At its end; None: there is none. The last one of an interactive Python did not end it."""
    if hasattr(sys, "ps1"):
        return None
    error = _behind_exit(sys.exc_info()[1] if is_child() else getattr(sys, "last_value", None))
    return error if error is not None else _left_after


def forget():
    """The process went on."""
    global _left_after
    _left_after = None


def _leave(leave, *arguments):
    """Calls a function that raises SystemExit."""
    global _left_after
    try:
        leave(*arguments)
    except SystemExit as left:
        # In other threads it ends nothing but the thread.
        if left.code and left.__context__ is not None and threading.current_thread() is threading.main_thread():
            _left_after, left._lockstep_mark = _behind_exit(left.__context__), _Mark()
        raise


def _runs_hook(frame):
    """Whether a signal has interrupted the hook, which may hold a lock."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("_lockstep."):
            return True
        frame = frame.f_back
    return False


def keep_errors(end_by):
    """From now on. `end_by`: called before the process leaves at once, by `os._exit`, with the error that is handled; None:
    with none, and status 0."""
    global _wrapped
    if _wrapped:
        return
    _wrapped = True
    leave, leave_at_once = sys.exit, os._exit

    @functools.wraps(leave)
    def exit(status=None, /):  # of `sys`
        _leave(leave, status)

    @functools.wraps(leave_at_once)
    def _exit(status):
        error = _behind_exit(sys.exc_info()[1])
        is_end = error is not None if status else threading.current_thread() is threading.main_thread()
        if is_end and not _runs_hook(sys._getframe(1)):
            end_by(error if status else None)
        leave_at_once(status)

    sys.exit, os._exit = exit, _exit
    _keep_errors_of_site()


def _keep_errors_of_site():
    """Of `exit` and `quit`, which scripts should not call."""
    try:
        from _sitebuiltins import Quitter
    except ImportError:
        return
    leave = Quitter.__call__

    @functools.wraps(leave)
    def __call__(self, code=None):
        _leave(leave, self, code)

    Quitter.__call__ = __call__
