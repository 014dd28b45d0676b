"""Tells a watch that this rank makes progress, and, when it asks, where the rank is: its collectives and
the Python stacks of its threads. A thread does so, because the main one may hang."""

import collections
import dis
import faulthandler
import json
import os
import pickle
import re
import signal
import struct
import sys
import threading
import time
import traceback

from _lockstep import _files, _library, _settings
from _lockstep._machines import machine, ranks_of_machine, rendezvous
from _lockstep._own_file import OwnFile
from _lockstep._process import at_end, has_joined, is_child, peak_bytes, rank_and_world
from _lockstep._start import say
from _lockstep._traffic import counts_of_groups, groups_of_process

_POLL_S = 0.25
_POLLS_OF_OTHERS = 3  # in which they have looked whether a rank aborts
_COUNTED = 8  # groups
_PROGRESS = struct.Struct("<%dQ" % (13 + _COUNTED))
_MACHINE = 11 + _COUNTED  # its place among them
_UNKNOWN = 2**64 - 1  # see docs/formats.md: rank-N.progress
_MARK = 0x707770636b6c6577  # of such a file
_ASKED = 8  # offset in watch.control
_REQUEST = struct.Struct("<I")
_MOST_FRAMES = 64
_MOST_MARKS = 512  # steps whose collectives are told apart
_UNKNOWN_STEP = -1
_SIGNAL = 9  # after SIGRTMIN

progress = None  # a Progress of this process, once torch.distributed is imported

_LIBRARIES = tuple({os.path.realpath(os.path.dirname(os.__file__)) + os.sep,
                    os.path.realpath(sys.prefix) + os.sep,
                    os.path.dirname(os.path.realpath(__file__)) + os.sep})


def _is_of_user(file):
    """Whether a file is neither a library's nor Python's own."""
    return (not file.startswith("<") and "site-packages" not in file
            and not os.path.realpath(file).startswith(_LIBRARIES))


def _shown(file):
    """A path as short as it is still found from where the job was started."""
    below = os.path.relpath(file) if os.path.isabs(file) else file
    return os.path.basename(file) if below.startswith("..") else below


def _place_of(frames):
    """Function and line of the innermost frame of the user's code; of all code if there is none."""
    own = next((frame for frame in frames if _is_of_user(frame["file"])), None)
    frame = own or (frames[0] if frames else None)
    if frame is None:
        return "", ""
    return frame["function"], "%s:%d" % (_shown(frame["file"]), frame["line"])


def _in_words(frames):
    """ "forward, model.py:31" of each."""
    return ["%s, %s:%d" % (frame["function"], _shown(frame["file"]), frame["line"]) for frame in frames]


_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


def _frames_within(error):
    """Those of an error that was caught elsewhere, as by a data loader's worker, whose text has them. Innermost first."""
    _, found, frames = str(error).rpartition("Traceback (most recent call last):\n")
    return [{"function": function, "file": file, "line": int(line)}
            for file, line, function in _FRAME.findall(frames)][::-1] if found else []


def _frames_of_error(error):
    """Innermost first."""
    frames = [{"function": frame.f_code.co_name, "file": frame.f_code.co_filename, "line": line or 0}
              for frame, line in traceback.walk_tb(error.__traceback__)]
    return _frames_within(error) + frames[::-1]


def stack_of_error(error):
    """Where an exception came from, innermost first: "forward, model.py:31"."""
    return _in_words(_frames_of_error(error)[:_MOST_FRAMES])


def place_of_error(error):
    """The innermost line of the user's code that an exception came from: "train.py:31"; empty: there is none."""
    own = next((frame for frame in _frames_of_error(error) if _is_of_user(frame["file"])), None)
    return "%s:%d" % (_shown(own["file"]), own["line"]) if own else ""


def place_of_caller(objects=frozenset()):
    """The innermost line of the user's code that is running in this thread: "train.py:31"; empty: there is none.
    `objects`: ids of those whose methods the user's code has called: the line is that of the call."""
    frame, place = sys._getframe(1), ""
    while frame is not None:
        code = frame.f_code
        if _is_of_user(code.co_filename):
            place = "%s:%d" % (_shown(code.co_filename), frame.f_lineno or 0)
            if not objects or id(frame.f_locals.get("self")) not in objects:
                break
        elif place and not frame.f_globals.get("__name__", "").startswith("torch."):
            break  # a trainer has called the method
        frame = frame.f_back
    return place


# Modules of torch that run a part of a step, and the functions in them: the outermost one says which.
_PARTS = (("torch.optim.optimizer", "", "update"), ("torch.optim.lr_scheduler", "", "update"),
          ("torch._tensor", "backward", "backward"), ("torch.autograd", "backward", "backward"),
          ("torch.autograd", "grad", "backward"), ("torch.nn.modules.module", "_call_impl", "forward"))


def part_of_error(error):
    """The part of a step that an exception came from: "forward", "backward" or "update"; "": unknown."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        for name, function, part in _PARTS:
            if module == name and function in ("", frame.f_code.co_name):
                return part
    return ""


def facts_of_error(error):
    """Of the exception that ends this rank; without one nothing is known."""
    if error is None:
        return {"error_place": "", "error_part": "", "error_stack": [], "last_call": ""}
    return {"error_place": place_of_error(error), "error_part": part_of_error(error),
            "error_stack": stack_of_error(error), "last_call": progress.note_end() if progress is not None else ""}


def _stack_of(frame):
    """Innermost first."""
    frames = []
    while frame is not None and len(frames) < _MOST_FRAMES:
        code = frame.f_code
        frames.append({"function": code.co_name, "file": code.co_filename, "line": frame.f_lineno or 0})
        frame = frame.f_back
    return frames


def _threads():
    """The stacks of the threads, the main one first."""
    frames = sys._current_frames()
    main = threading.main_thread()
    threads = [main] + [thread for thread in threading.enumerate() if thread is not main]
    told = []
    for thread in threads:
        if thread.ident not in frames or thread.ident == threading.get_ident():
            continue
        stack = _stack_of(frames[thread.ident])
        function, site = _place_of(stack)
        told.append({"name": thread.name, "function": function, "site": site, "stack": _in_words(stack)})
    return told


class _Marks:
    """How many collectives each group had called when each of the last steps began."""

    def __init__(self):
        self._marks = collections.deque(maxlen=_MOST_MARKS)  # pairs of step and counts

    def add(self, step, counts):
        self._marks.append((step, counts))

    def step_of(self, group, number):
        """The step whose update came first after collective `number` of a group."""
        marks = list(self._marks)
        for index, (step, counts) in enumerate(marks):
            if counts.get(group, 0) >= number:
                return step if index or step == 1 else _UNKNOWN_STEP
        return marks[-1][0] + 1 if marks else 1


def _call_of(entry, names, now_ns):
    frames = [{"function": frame["name"], "file": frame["filename"], "line": frame["line"]}
              for frame in entry.get("frames", [])]
    sizes, dtypes = entry.get("input_sizes") or [], entry.get("input_dtypes") or []
    elements = 0
    for size in sizes:
        count = 1
        for dimension in size:
            count *= dimension
        elements += count
    operation = entry["profiling_name"].split(":", 1)[-1].split(" ")[0].replace("_", "").lower()
    group = entry["process_group"][0]
    return {"group": names.get(group, group), "number": entry["collective_seq_id"],
            "operation": operation, "dtype": (dtypes[0] if dtypes else "").lower(),
            "shape": str(list(sizes[0])) if sizes else "", "tensors": len(sizes), "elements": elements,
            "is_complete": bool(entry["retired"]) or entry["state"] == "completed",
            "age_ns": max(0, now_ns - entry["time_created_ns"]), "called_ns": entry["time_created_ns"],
            "site": _place_of(frames)[1]}


def calls(groups, with_lines=True):
    """The calls in the flight recorder. None: this torch has none that can be read."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    recorders = [getattr(c10d, name, None) for name in ("_dump_fr_trace", "_dump_nccl_trace")]
    dumps = [pickle.loads(recorder(True, with_lines, False)).get("entries") for recorder in recorders if recorder]
    if not dumps:
        return None
    used = [dump for dump in dumps if dump]
    if len(used) > 1 and used[0] != used[1]:
        raise RuntimeError("the collectives of two backends have numbers of their own")
    dump = used[0] if used else []
    names = {group["name"]: group["title"] for group in groups}
    now_ns = time.time_ns()
    return [_call_of(entry, names, now_ns) for entry in dump if not entry.get("is_p2p")]


def _last_in_words(called):
    """The last of the collectives that a process called, which an error may have ended: "allgather of [104] float,
    train.py:9"; "": there is none."""
    if not called:
        return ""
    call = called[-1]
    values = " of %s %s" % (call["shape"], call["dtype"]) if call["shape"] else ""
    return "%s%s, %s" % (call["operation"], values, call["site"])


def _frame_of_main():
    """The innermost one of the main thread; None: it has ended."""
    return sys._current_frames().get(threading.main_thread().ident)


def _is_joining():
    """Whether the main thread is in the rendezvous of the world."""
    frame = _frame_of_main()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "init_process_group" and code.co_filename.endswith("distributed_c10d.py"):
            return True
        frame = frame.f_back
    return False


def _waits_natively(frame):
    """Whether a frame calls `wait()` of an object that is not of Python, as torch's Work is."""
    called = None
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return called == "wait" and instruction.opname.startswith("CALL") and not instruction.arg
        if instruction.opname in ("LOAD_METHOD", "LOAD_ATTR"):
            called = instruction.argval
    return False


def _awaits_message(made):
    """Whether the main thread waits for a message from point to point: for work of torch that is none of the
    collectives `made`, since they are all complete. None: they are unknown, as those of some backends are."""
    frame = _frame_of_main()
    if frame is None or made is None or not all(call["is_complete"] for call in made):
        return False
    is_of_torch = frame.f_code.co_filename.endswith("distributed_c10d.py")
    return (not is_of_torch or frame.f_code.co_name in ("recv", "send")) and _waits_natively(frame)


class _Standing:
    """Since when the main thread has computed nothing, and so has not moved, as far as samples say. One that waits for
    message after message in the same line computes between."""

    def __init__(self):
        self._cpu_s, self._since = 0.0, time.monotonic()

    def look(self):
        cpu_s = time.clock_gettime(time.pthread_getcpuclockid(threading.main_thread().ident))
        if cpu_s != self._cpu_s:
            self._cpu_s, self._since = cpu_s, time.monotonic()

    def seconds(self):
        return time.monotonic() - self._since


def _report(rank, world, request, marks, stands_s):
    """`marks`: steps of collectives. `stands_s`: seconds."""
    threads = _threads()
    groups, made, failure = [], None, ""
    try:
        groups = groups_of_process()
        made = calls(groups)
    except Exception as error:  # of private functions of torch
        failure = "%s: %s" % (type(error).__name__, error)
    called = counts_of_groups() or {}
    is_known = max(called, default=-1) < len(groups)  # else groups were destroyed
    if not is_known:
        called = {}
    numbers = {group["title"]: number for number, group in enumerate(groups)}
    for call in made or []:
        group = numbers.get(call["group"]) if is_known else None
        call["step"] = _UNKNOWN_STEP if group is None else marks.step_of(group, call["number"])
    for number, group in enumerate(groups):
        first = min((call["number"] for call in made or [] if call["group"] == group["title"]),
                    default=called.get(number, 0) + 1)
        group["first"] = first  # of the calls that are on record
    return {"rank": rank, "world_size": world, "request": request, "pid": os.getpid(),
            "is_joining": _is_joining(), "awaits_message": _awaits_message(made), "stands_s": stands_s,
            "groups": groups, "calls": made or [],
            "has_recorder": made is not None, "failure": failure, "threads": threads}


def _path_of(folder, rank):
    return os.path.join(folder, "rank-%d.progress" % rank)


def _is_taken(path):
    """Whether a living process of this machine counts in the file."""
    try:
        with open(path, "rb") as file:
            numbers = _PROGRESS.unpack(file.read(_PROGRESS.size))
        os.kill(numbers[1], 0)
        return numbers[_MACHINE] == machine() and numbers[1] != os.getpid() and not numbers[7]
    except (OSError, struct.error):
        return False


def is_counted_elsewhere(folder, rank):
    """Whether another living process of this machine counts as this rank."""
    return _is_taken(_path_of(folder, rank))


def _termination():
    """None: nothing delays it. The watch of a rank says why, once it opens."""
    try:
        return _library.Termination()
    except (_library.Failure, OSError):
        return None


class Progress:
    """The file in which a rank counts, and the thread that answers its watch."""

    def __init__(self):
        self._pid = os.getpid()
        self._file = None
        self._rank = self._world = None
        self._answered = 0
        self._steps = 0
        self._memory = 0
        self._marks = _Marks()
        self._standing = _Standing()
        self._is_ended = False
        self._has_joined = False
        self._lock = threading.Lock()
        self._machine = machine()
        self._has_said = False
        self._folder = _settings.current.folder
        self._aborted = os.path.join(self._folder, "watch.aborted")  # a rank is about to abort
        self._has_seen_abort = False
        self._termination = _termination()
        threading.Thread(target=self._run, name="lockstep", daemon=True).start()

    def step(self, number, counts):
        """A step began. `counts`: of `counts_of_groups`."""
        self._steps = number
        self._memory = peak_bytes()  # a rank that is killed cannot say it any more
        self._marks.add(number, counts or {})
        if number == 1:
            self._open_early()
        self._write(counts)

    def _open_early(self):
        """Before the thread does: a watch that switches the observation has to know how far the ranks are, and an error
        may end this rank at once."""
        try:
            if has_joined():
                self._open()
        except OSError:
            pass  # the thread tries again, and says so

    def end(self):
        """The process ends by itself."""
        if self._pid == os.getpid():
            self._is_ended = True
            self._write()

    def note_end(self, is_abort=False):
        """An error ends this rank: notes its collectives, since another rank may have aborted in one. Returns the
        last one in words; "": there is none, or this torch does not record it."""
        if self._file is None:
            self._open_early()
        if self._file is None or self._pid != os.getpid():
            return ""
        report = _report(self._rank, self._world, 0, self._marks, self._standing.seconds())
        try:
            self._write_report("rank-%d.ended.json", {**report, "is_abort": is_abort, "now_ns": time.monotonic_ns()})
        except OSError:
            pass  # without it, it is only known that the rank has ended
        return _last_in_words(report["calls"])

    def _run(self):
        control = None
        while True:
            try:
                control = control or self._control()
                if control is None:
                    return
                time.sleep(_POLL_S)
                if self._termination is not None and self._termination.is_near():
                    self._note_abort()
                if self._file is None:
                    self._open()
                if self._file is None:
                    continue
                self._write()
                self._look_at_others()
                self._standing.look()
                asked = control.read(_REQUEST.size, _ASKED)
                if len(asked) == _REQUEST.size and _REQUEST.unpack(asked)[0] != self._answered:
                    self._answer(_REQUEST.unpack(asked)[0])
            except Exception as error:  # perhaps of a module that is being imported
                if self._file is not None:
                    self._say_once(error)
                time.sleep(_POLL_S)

    def _control(self):
        path = os.path.join(self._folder, "watch.control")
        if not os.path.exists(path):
            return None
        return OwnFile(path, os.O_RDONLY)

    def _open(self):
        """Opens the file, once this process is known to be a rank of several."""
        with self._lock:
            path = self._path_of_rank() if self._file is None and self._pid == os.getpid() else None
            if path is None:
                return
            # For a process whose threads cannot run, by a signal that nobody else uses.
            stacks = OwnFile(os.path.join(self._folder, "rank-%d.stacks" % self._rank),
                             os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            if not faulthandler.is_enabled():
                faulthandler.enable(file=stacks)
            faulthandler.register(signal.SIGRTMIN + _SIGNAL, file=stacks, all_threads=True)
            file = OwnFile(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            file.write(self._packed(counts_of_groups() or {}))
            os.replace(path + ".tmp", path)
            self._file = file
            if is_child():  # `atexit`, at which an earlier `end` is registered, is not called there
                at_end(self.end)

    def _path_of_rank(self):
        """The path of the file. None: this process is not known to be a rank of several."""
        if is_child() and not has_joined():
            return None  # a worker of a data loader, or a rank that has not joined yet
        rank, world = rank_and_world()
        is_launcher = "torch.distributed.elastic.agent.server.api" in sys.modules
        if world < 2 or (is_launcher and not has_joined()):
            return None
        path = _path_of(self._folder, rank)
        if _is_taken(path):
            return None  # by the rank that started this process
        self._rank, self._world = rank, world
        return path

    def _write(self, counts=None):
        """`counts`: of `counts_of_groups`, if they have just been read."""
        if self._file is None or self._pid != os.getpid():
            return
        with self._lock:
            data = self._packed(counts or counts_of_groups() or {})
            try:
                self._file.write(data)
            except OSError as error:  # the disk is full, or the job closed the file
                self._say_once(error)

    def _say_once(self, error):
        if not self._has_said:
            self._has_said = True
            why = getattr(error, "strerror", None) or error
            say("rank %s cannot be asked where it is: %s" % (self._rank, why))

    def _packed(self, counts):
        groups = len(groups_of_process())
        is_known = max(counts, default=-1) < groups  # else groups were destroyed
        self._has_joined = self._has_joined or groups > 0 or _is_joining()
        return _PROGRESS.pack(_MARK, self._pid, self._rank, self._world, self._steps,
                            sum(counts.values()) + self._has_joined, self._answered, int(self._is_ended),
                            *(counts.get(group, 0) if is_known and group < groups else _UNKNOWN
                              for group in range(_COUNTED)),
                            *ranks_of_machine(self._rank, self._world), rendezvous(), self._machine, self._memory)

    def _answer(self, asked):
        report = _report(self._rank, self._world, asked, self._marks, self._standing.seconds())
        self._write_report("rank-%d.stall.json", report)
        self._answered = asked
        self._write()

    def _note_abort(self):
        """The other ranks note their collectives, too, while they still live: a launcher may end them at once."""
        try:
            self.note_end(is_abort=True)
            if self._file is not None:  # else this process is no rank
                with _files.opened(self._aborted, "a"):
                    self._has_seen_abort = True
                time.sleep(_POLLS_OF_OTHERS * _POLL_S)
        finally:
            self._termination.allow()

    def _look_at_others(self):
        if not self._has_seen_abort and os.path.exists(self._aborted):
            self._has_seen_abort = True
            self.note_end()

    def _write_report(self, name, report):
        path = os.path.join(self._folder, name % self._rank)
        with _files.opened(path + ".tmp", encoding="utf-8") as file:
            json.dump(report, file)
        os.replace(path + ".tmp", path)
