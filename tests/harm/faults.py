"""What happens to jobs: each fault with what is held of it."""

import typing


class Fault(typing.NamedTuple):
    words: tuple = ()  # one of them has to be said; none: Lockstep may say what it likes, if it is no alarm
    ends: bool = False  # it may end the job, at any step
    pause: bool = False  # comes from outside while the job trains, which then takes longer steps
    in_code: bool = True  # `lockstep.watch()` has a meaning with it
    own_twin: bool = False  # it may end a job that nobody watches, too, always in the same way
    refused: bool = False  # `lockstep watch` says before the job begins that it cannot watch


_HEALTHY = ("12 steps, 1 to 12", "recorded: 12 steps")
_HALTED = ("is no longer observed", "Cannot write", *_HEALTHY)

# What a job does to itself.
OF_JOB = {
    "nothing": Fault(_HEALTHY),
    "closes descriptors": Fault(("the job closed", *_HEALTHY), own_twin=True),
    "reuses descriptors": Fault(("the job closed", *_HEALTHY), own_twin=True),
    "few descriptors": Fault(own_twin=True),
    "changes folder": Fault(_HEALTHY),
    "umask": Fault(own_twin=True),
    "clears environment": Fault(_HEALTHY),
    "signal handlers": Fault(_HEALTHY),
    "clears sys.path": Fault(_HEALTHY),
    "clears sys.modules": Fault(_HEALTHY),
    "forks": Fault(_HEALTHY),
    "limited file sizes": Fault(_HALTED, own_twin=True),
    "replaces time.time": Fault(_HEALTHY),
    "little memory": Fault(own_twin=True),
    "closes stderr": Fault(_HEALTHY),
    "own excepthook": Fault(_HEALTHY),
    "daemonises": Fault(own_twin=True),
    "executes itself first": Fault(_HEALTHY, own_twin=True),
    "executes itself after some steps": Fault(("in another process", "UNDECIDED"), own_twin=True),
}
# What happens to the files of the run.
OF_FILES = {name: Fault(pause=True) for name in (
    "truncates watch.control", "truncates rank-0.progress", "truncates rank-0.csv", "truncates rank-1.index",
    "writes into watch.control", "removes the folder", "removes rank-1.csv", "makes the folder unreadable")}
OF_EVIDENCE = ("truncates rank-0.csv", "truncates rank-1.index", "removes rank-1.csv")
# To their file system.
OF_FILE_SYSTEMS = {
    "64 KB file system": Fault(_HALTED, in_code=False),
    "file system is full at a random write": Fault(_HALTED, pause=True),
    "file system is full for a while": Fault(_HALTED, pause=True),
    "file system is read-only": Fault(("Read-only file system",), in_code=False, refused=True),
    "file system turns read-only": Fault(_HALTED, pause=True),
    "file system is unmounted": Fault(pause=True),
    "slow file system": Fault(_HEALTHY),
}
# To what the machine gives it.
OF_MACHINE = {
    "clock jumps by hours": Fault(_HEALTHY, pause=True, own_twin=True),
    "ulimit -v": Fault(own_twin=True),
    "ulimit -n": Fault(own_twin=True),
    "cgroup with little memory": Fault(ends=True, own_twin=True),
}
_SIGNALS = ("KILL", "TERM", "INT", "HUP", "SEGV", "STOP and CONT")
# `lockstep watch` has no process besides itself, and is the parent of the launcher.
OF_SIGNALS = {"%s to %s" % (name, whom): Fault(ends=not name.startswith("STOP"), pause=True,
                                               in_code=whom != "the watch")
              for whom in ("a rank", "the launcher", "the watch") for name in _SIGNALS}
OF_SIGNALS.update({"%s to all" % name: Fault(ends=True, pause=True) for name in ("TERM", "INT", "HUP")})
OF_NAMES = {
    "own module lockstep": Fault(_HEALTHY, in_code=False),
    "own sitecustomize": Fault(_HEALTHY, in_code=False),
    "own modules of the hook's names": Fault(_HEALTHY, in_code=False),
    "100,000-character argument": Fault(_HEALTHY),
}
FAULTS = {**OF_JOB, **OF_FILES, **OF_FILE_SYSTEMS, **OF_MACHINE, **OF_SIGNALS, **OF_NAMES}
LAUNCHERS = ("fork", "torchrun", "spawn")
# Of the quick tests.
QUICK = ("reuses descriptors", "limited file sizes", "truncates rank-0.progress", "KILL to the launcher",
         "own module lockstep")
