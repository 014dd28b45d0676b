"""Files that stay open in the process of a job."""

import errno
import fcntl
import os
import resource

from _lockstep._files import mode_beside

_HIGH = 4096


def _moved_up(fd):
    """The same file at a high number. Where the limit leaves no room it keeps its own."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    first = _HIGH if limit == resource.RLIM_INFINITY else min(limit, 2 * _HIGH) // 2
    if fd >= first:
        return fd
    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, first)
    except OSError:
        return fd
    os.close(fd)
    return high


class OwnFile:
    """An open file. The job may close any descriptor, and a file that it opens then gets the number; so it is a
    high one, and each use asks first whether it still is this file's. Nothing is mapped: another process may
    truncate the file."""

    def __init__(self, path, flags):
        self._fd = _moved_up(os.open(path, flags | os.O_CLOEXEC, mode_beside(path)))
        self._identity = self._identity_now()

    def _identity_now(self):
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino

    def fileno(self):
        """The descriptor. Raises OSError if the job closed it."""
        try:
            is_own = self._identity_now() == self._identity
        except OSError:
            is_own = False
        if not is_own:
            raise OSError(errno.EBADF, "the job closed a descriptor of Lockstep")
        return self._fd

    def read(self, size, place):
        """At most `size` bytes."""
        return os.pread(self.fileno(), size, place)

    def write(self, data):
        """From the beginning on."""
        os.pwrite(self.fileno(), data, 0)
