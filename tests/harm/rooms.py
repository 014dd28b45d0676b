"""What a case needs of the machine: file systems of its own, limits, and libraries that are loaded before libc.
`why_not` says what this machine does not permit. Mounts are made in a namespace of the suite, so they end with it."""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_MARK = "HARM_NAMESPACE"
_OWN_TMPFS = {"64 KB file system": "size=64k", "file system is full at a random write": "size=8m",
              "file system is full for a while": "size=8m", "file system is read-only": "size=8m",
              "file system is unmounted": "size=8m"}


def _succeeds(*command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def enter_namespace():
    """Starts this program anew where it may mount, if it can."""
    if _MARK in os.environ:
        return
    way = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-r", "-m"]
    if _succeeds(*way, "true"):
        os.environ[_MARK] = "1"
        os.execvp(way[0], [*way, sys.executable, *sys.argv])


def _root_of_cgroups():
    """The group of this process, where groups limit memory; "": nowhere."""
    with open("/proc/self/cgroup") as file:
        groups = dict(line.strip().split(":", 2)[1:] for line in file)
    for root, group in (("/sys/fs/cgroup/memory", groups.get("memory", "")), ("/sys/fs/cgroup", groups.get("", ""))):
        for place in (root + group, root):
            if os.path.exists(os.path.join(place, "cgroup.procs")) and os.access(place, os.W_OK):
                return place
    return ""


class Group:
    """A group of processes, with a limit or none."""

    def __init__(self, most=0):
        self.folder = tempfile.mkdtemp(prefix="harm-", dir=_root_of_cgroups())
        self._is_old = os.path.exists(self._file("memory.limit_in_bytes"))
        if most:
            with open(self._file("memory.limit_in_bytes" if self._is_old else "memory.max"), "w") as file:
                file.write(str(most))

    def _file(self, name):
        return os.path.join(self.folder, name)

    def prefix(self):
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', self._file("cgroup.procs")]

    def peak(self):
        with open(self._file("memory.max_usage_in_bytes" if self._is_old else "memory.peak")) as file:
            return int(file.read())

    def close(self):
        end = time.monotonic() + 5
        while os.path.exists(self.folder) and time.monotonic() < end:
            with contextlib.suppress(OSError):  # the last process is still being buried
                os.rmdir(self.folder)
            time.sleep(0.02)


_library_folders = []


@functools.lru_cache(maxsize=None)
def library(name):
    """The path of slow.c or clock.c, compiled; "": there is no compiler."""
    folder = tempfile.mkdtemp(prefix="harm-libraries-")
    _library_folders.append(folder)
    path = os.path.join(folder, name + ".so")
    is_made = any(_succeeds(compiler, "-shared", "-fPIC", "-O1", "-o", path, os.path.join(HERE, name + ".c"), "-ldl")
                  for compiler in ("cc", "gcc", "clang"))
    return path if is_made else ""


def remove_libraries():
    while _library_folders:
        shutil.rmtree(_library_folders.pop(), ignore_errors=True)


def _has_group():
    try:
        group = Group(1 << 30)
        group.peak()
        group.close()
    except OSError:
        return False
    return True


@functools.lru_cache(maxsize=None)
def _may_mount():
    folder = tempfile.mkdtemp(prefix="harm-")
    is_mounted = _MARK in os.environ and _succeeds("mount", "-t", "tmpfs", "-o", "size=64k", "harm", folder)
    if is_mounted:
        _succeeds("umount", folder)
    os.rmdir(folder)
    return is_mounted


@functools.lru_cache(maxsize=None)
def _may_loop():
    """Whether an ext4 of its own can be damaged."""
    folder = tempfile.mkdtemp(prefix="harm-")
    try:
        disk = Disk(os.path.join(folder, "runs"))
        has_failed = disk.fail()
        disk.close()
    except OSError:
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return has_failed


class Disk:
    """An ext4 that turns read-only at an error, as disks do that fail."""

    def __init__(self, place):
        self._image, self._place = place + ".image", place
        os.makedirs(place, exist_ok=True)
        with open(self._image, "wb") as file:
            file.truncate(16 << 20)
        if not (_may_mount() and _succeeds("mkfs.ext4", "-q", "-F", self._image) and
                _succeeds("mount", "-o", "loop,errors=remount-ro", self._image, place)):
            raise OSError("there is no ext4 on a loop device")
        os.rmdir(os.path.join(place, "lost+found"))

    def fail(self):
        device = subprocess.run(["findmnt", "-n", "-o", "SOURCE", self._place], capture_output=True, text=True,
                                check=False).stdout.strip()
        try:
            with open("/sys/fs/ext4/%s/trigger_fs_error" % os.path.basename(device), "w") as file:
                file.write("harm")
        except OSError:
            return False
        return True

    def close(self):
        _succeeds("umount", "-l", self._place)


@functools.lru_cache(maxsize=None)
def why_not(fault):
    """Why this machine cannot have the fault; "": it can."""
    if fault in _OWN_TMPFS and not _may_mount():
        return "no file system may be mounted (unshare -m)"
    if fault == "file system turns read-only" and not _may_loop():
        return "no ext4 may be mounted from a loop device"
    if fault == "slow file system" and not library("slow") or fault == "clock jumps by hours" and not library("clock"):
        return "there is no C compiler"
    if fault == "cgroup with little memory" and not _has_group():
        return "no control group of memory may be made"
    if fault == "makes the folder unreadable" and os.getuid() == 0 and not shutil.which("setpriv"):
        return "root reads every folder, and there is no setpriv"
    return ""


def _address_space(share):
    """In KiB: too little for torch, or enough for the job whether it is watched or not."""
    return int(8e5 + 3e6 * share) if share < 0.6 else int(4.5e6 + 3e6 * share)


class Room:
    """Of one run of a case: what stands before its command, what is added to its environment, what happens to it at
    the random moment (`disturb`), and what is undone at its end."""

    def __init__(self, case, runs, is_watched, peak_of_twin):
        self.prefix, self.environment, self.peak = [], {}, 0
        self._fault, self._runs, self._share = case.fault, runs, case.share
        self._disk = self._group = None
        self._is_mounted = False
        if is_watched:
            self._make_file_system()
        if case.fault == "clock jumps by hours":
            self.environment["LD_PRELOAD"] = library("clock")
        elif case.fault.startswith("ulimit -v"):
            self.prefix = ["sh", "-c", 'ulimit -v "$0" && exec "$@"', str(_address_space(case.share))]
        elif case.fault.startswith("ulimit -n"):
            self.prefix = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(int(96 + 200 * case.share))]
        elif case.fault == "cgroup with little memory":
            self._group = Group(int(peak_of_twin * (0.6 + 0.6 * case.share)) if is_watched else 0)
            self.prefix = self._group.prefix()
        elif case.fault == "makes the folder unreadable" and os.getuid() == 0:
            self.prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]

    def _make_file_system(self):
        if self._fault in _OWN_TMPFS:
            os.makedirs(self._runs, exist_ok=True)
            self._mount("-t", "tmpfs", "-o", _OWN_TMPFS[self._fault], "harm")
            if self._fault == "file system is read-only":
                self._mount("-o", "remount,ro")
        elif self._fault == "file system turns read-only":
            self._disk = Disk(self._runs)
        elif self._fault == "slow file system":
            self.environment.update(LD_PRELOAD=library("slow"), SLOW_FOLDER=self._runs)

    def _mount(self, *options):
        subprocess.run(["mount", *options, self._runs], check=True, capture_output=True)
        self._is_mounted = True

    def disturb(self):
        """At the random moment."""
        if self._fault.startswith("file system is full"):
            path = os.path.join(self._runs, "somebody's")
            with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"\0" * 4096):
                    pass
            if self._fault.endswith("for a while"):
                time.sleep(0.1 + 0.3 * self._share)
                os.remove(path)
        elif self._fault == "file system is unmounted":
            _succeeds("umount", "-l", self._runs)
        elif self._disk:
            self._disk.fail()

    def close(self):
        """After the report was read."""
        if self._group:
            self._group.close()
        if self._is_mounted:
            _succeeds("umount", "-l", self._runs)
        if self._disk:
            self._disk.close()

    def end_of_run(self):
        """When all processes have ended."""
        if self._group:
            self.peak = self._group.peak()
