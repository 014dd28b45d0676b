"""`lockstep.watch` and `lockstep.stop`: a training that observes itself, without `lockstep watch` around
it. Wrong arguments raise, since the script called us; a failure while it trains does not."""

import operator
import os
import re
import sys

from _lockstep import _library, _objects, _settings, _start
from _lockstep._process import has_joined, rank_and_world

_MOST_STEPS = 2**62 - 1
_MOST_MEBIBYTES = 2**20
_MOST_HISTORY = 1536  # MiB: a journal of more than 2 GiB cannot be read
_MOST_RANKS = 4096
_ALSO = ("buffers", "optimizer-state", "random-state", "micro-batches")
_RECORDS = "2000"  # of torch's flight recorder, in which collectives are counted


def _refuse(name, value, wanted):
    raise ValueError("%s cannot be %r: give %s." % (name, value, wanted))


def _whole(name, value, least, most):
    wanted = "a whole number from %d to %d" % (least, most)
    try:
        number = operator.index(value)
    except TypeError:
        _refuse(name, value, wanted)
    if isinstance(value, bool) or not least <= number <= most:
        _refuse(name, value, wanted)
    return number


def _expression(name, value):
    if value is None:
        return ""
    try:
        return re.compile(value).pattern
    except (re.error, TypeError):
        _refuse(name, value, "a regular expression")


def _replicas(value):
    if value is None:
        return ""
    name, _, size = value.partition("=") if isinstance(value, str) else ("", "", "")
    if not name or not size.isdigit() or not 2 <= int(size) <= _MOST_RANKS:
        _refuse("replicas", value, "a name and a number of ranks, like 'tp=2'")
    return value


def _words(value):
    try:
        words = value.split(",") if isinstance(value, str) else list(value)
    except TypeError:
        words = [value]
    for word in words:
        if word not in _ALSO:
            _refuse("also", word, "some of %s" % ", ".join(_ALSO))
    return frozenset(words)


def _agree_every(value, every):
    if value is None:
        return 0
    if every != 1:
        _refuse("every", every, "1, since agree_every needs every step")
    return _whole("agree_every", value, 1, _MOST_STEPS)


def _out(value):
    """The absolute path of the run's folder; "": a new one."""
    if value is None:
        return ""
    try:
        path = os.fsdecode(os.fspath(value))
    except TypeError:
        path = ""
    if not path or "\0" in path:
        _refuse("out", value, "the path of a folder")
    return os.path.abspath(path)


def settings_of(every, start, until, tensors, ignore, replicas, data, also, agree_every, keep_before, keep,
                store_first, history, modules, group_readable):
    """Raises ValueError if one of the arguments of `lockstep.watch` is wrong."""
    settings = _settings.Settings()
    settings.every = _whole("every", every, 1, _MOST_STEPS)
    settings.first = _whole("start", start, 1, _MOST_STEPS)
    settings.last = 0 if until is None else _whole("until", until, settings.first, _MOST_STEPS)
    settings.tensors, settings.ignored = _expression("tensors", tensors), _expression("ignore", ignore)
    settings.replicas = _replicas(replicas)
    settings.data, settings.modules, settings.also = bool(data), bool(modules), _words(also)
    settings.agree_every = _agree_every(agree_every, settings.every)
    settings.keeps_before = bool(keep_before)
    settings.is_group_readable = bool(group_readable)
    settings.keep_bytes = _whole("keep", keep, 0, _MOST_MEBIBYTES) * 2**20
    settings.store_first = _whole("store_first", store_first, 0, _MOST_STEPS)
    settings.history_bytes = _whole("history", history, 1, _MOST_HISTORY) * 2**20
    return settings


def _title():
    """The job in reports."""
    if hasattr(sys, "ps1") or not sys.argv or not sys.argv[0]:
        return "an interactive Python"
    words = ["python"] + sys.argv if sys.argv[0] == "-c" else sys.argv
    # The program masks secrets by their names, and needs to see where a word ends.
    return " ".join(repr(word) if any(c.isspace() for c in word) else word for word in words)


def _label():
    """The job in keys of findings, which stay when its arguments or its folder change."""
    if hasattr(sys, "ps1") or not sys.argv or sys.argv[0] in ("", "-c"):
        return _title()
    return os.path.basename(sys.argv[0]) if os.path.isabs(sys.argv[0]) else sys.argv[0]


def _known_placement():
    """Rank and size of the world; the size is 0 while this process has not joined one."""
    rank, world = rank_and_world()
    is_known = world > 1 or has_joined() or "WORLD_SIZE" in os.environ
    return (rank, world) if is_known else (0, 0)


def _folder_from_outside():
    if os.environ.get("RANK", "0") == "0":
        _start.say("lockstep.watch() does nothing here: 'lockstep watch' observes this job already")
    return os.path.dirname(os.environ["LOCKSTEP_WATCH_FOLDER"])


def _is_watching():
    return _settings.current is not None and _settings.current.pid == os.getpid()


def _begin(settings):
    if _objects.are_hidden():
        _start.say("gc.freeze() was called before lockstep.watch(): modules that it has hidden are not found, so "
                   "parameters have no names, and those that no optimizer holds are not compared")
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", _RECORDS)  # works until torch's first collective
    _settings.current = settings
    try:
        _start.install()
        _start.take_imported()
    except Exception as error:  # of private functions of torch
        _settings.current = None
        raise RuntimeError("This process cannot be watched: %s." % error) from error


def watch(out, settings):
    """Returns the folder of the run."""
    if _settings.is_watched_from_outside():
        return _folder_from_outside()
    if _is_watching():
        raise RuntimeError("This process is watched already, in %s. Call lockstep.stop() first."
                           % os.path.dirname(_settings.current.folder))
    path = _out(out)
    rank, world = _known_placement()
    if not path and world > 1:
        raise ValueError("lockstep.watch() needs out, because each of the %d ranks would make a folder of "
                         "its own: give all of them the same new folder." % world)
    try:
        folder, settings.job = _library.create(path, _title(), _label(), settings.agree_every, rank, world,
                                                settings.is_group_readable)
    except _library.Failure as error:
        raise RuntimeError(str(error)) from None
    settings.folder = os.path.abspath(folder)
    settings.is_created, settings.is_shared = True, bool(path)
    _begin(settings)
    return os.path.dirname(settings.folder)


def stop():
    if not _is_watching() or not _settings.current.is_created:
        return
    if _settings.watcher is not None:
        _settings.watcher.stop()
    _settings.current = None
