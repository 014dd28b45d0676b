"""What is observed, and where to: as `lockstep watch` says it in the environment, or `lockstep.watch` in
its arguments."""

import os

_BYTES_OF_ROW = 1344  # about: of a row in the journal, and of its sketch
_SEGMENTS = 16  # files of rows in a history


class Settings:
    """`folder`: of the job's files; `job`: its id."""

    def __init__(self, folder="", job=""):
        self.folder, self.job = folder, job
        self.is_created = False  # by its ranks: no `lockstep watch` runs the job
        self.is_group_readable = False  # else its owner alone may read the run's folder
        self.is_shared = True  # the other ranks of the job find the folder
        self.every, self.first, self.last = 1, 1, 0  # observed steps; last 0: no limit
        self.tensors, self.ignored = "", ""  # regular expressions
        self.replicas = ""  # "tp=2"
        self.data = False
        self.modules = False
        self.also = frozenset()
        self.agree_every = 0  # 0: ranks need to agree in all steps
        self.keeps_before = False
        self.store_first = 0  # steps whose values are stored
        self.keep_bytes, self.history_bytes = 0, 0  # history 0: no limit
        self.threads = "1"  # that measure large values; "auto": on cores that the job leaves idle
        self.sources = ()  # folders whose executed files are recorded
        self.seed = None  # of rank 0, before the script begins
        self.perturbation = 0  # the seed that moves initial weights; 0: they stay
        self.tracer = None  # of lines, if any are traced
        self.pid = os.getpid()

    def history_rows(self):
        """After these a rank observes now and then. By rows, not by bytes: ranks with the same tensors then
        leave out the same steps. 0: never."""
        return 0 if self.history_bytes == 0 else max(self.history_bytes // _BYTES_OF_ROW, 1)

    def segment_rows(self):
        """Rows in a file, which `lockstep watch` thins once all ranks were seen to agree in it. 0: nobody
        does."""
        if self.is_created or self.history_bytes == 0:
            return 0
        return max(self.history_rows() // _SEGMENTS, 1)


def from_environment():
    """The settings of `lockstep watch` around this process."""
    def word(name, default=""):
        return os.environ.get("LOCKSTEP_WATCH_" + name, default)

    settings = Settings(word("FOLDER"), word("JOB"))
    settings.every, settings.first = int(word("EVERY", "1")), int(word("START", "1"))
    settings.last = int(word("UNTIL", "0"))
    settings.tensors, settings.ignored = word("TENSORS"), word("IGNORE")
    settings.replicas = word("REPLICAS")
    settings.data, settings.modules = bool(word("DATA")), bool(word("MODULES"))
    settings.also = frozenset(filter(None, word("ALSO").split(",")))
    settings.threads = word("THREADS", "1")
    settings.agree_every = int(word("AGREE_EVERY", "0"))
    settings.keeps_before = bool(word("KEEP_BEFORE"))
    settings.store_first = int(word("STORE_FIRST", "0"))
    settings.keep_bytes = int(word("KEEP_BYTES", "0"))
    settings.history_bytes = int(word("HISTORY_BYTES", "0"))
    settings.sources = tuple(filter(None, word("SOURCES").split("\n")))
    settings.seed = int(word("SEED")) if word("SEED") else None
    settings.perturbation = int(word("PERTURB", "0"))
    if word("LINES"):
        from _lockstep._lines import Tracer

        settings.tracer = Tracer(word("LINES"))
    return settings


def is_watched_from_outside():
    """Whether `lockstep watch` runs this process."""
    return bool(os.environ.get("LOCKSTEP_WATCH_FOLDER"))


current = None  # of this process; None: nothing is observed
watcher = None  # the one of `_hook`, which a job may remove from sys.modules
