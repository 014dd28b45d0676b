"""Starts two ranks of a script, as a launcher does that leaves them alone: two_ranks.py SCRIPT [FOLDER]
They meet in the folder, without it in a temporary one. Each rank is forked, so that torch is imported once."""

import gc

gc.disable()  # while torch is imported: a fourth less time
import atexit
import contextlib
import os
import runpy
import shutil
import signal
import sys
import tempfile


def start(rank, script):
    """The process of a rank."""
    process = os.fork()
    if process == 0:
        os.environ["RANK"] = str(rank)
        sys.argv = [script]
        sys.path[0] = os.path.dirname(script)
        runpy.run_path(script, run_name="__main__")
        leave(0)
    return process


def leave(status):
    """As multiprocessing does: to take the modules apart costs half as much as to import them."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)


def main():
    script = os.path.abspath(sys.argv[1])
    folder = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    os.environ.update(WORLD_SIZE="2", STORE="file://%s/store" % folder, STARTED=folder + "/started",
                      OMP_NUM_THREADS="1")
    import torch._dynamo  # which the first optimizer would import
    import torch.distributed

    gc.freeze()  # a collection in a rank would write to, and so copy, all that it shares
    gc.enable()
    ranks = [start(rank, script) for rank in range(2)]

    def end_ranks(number, _):
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(rank, number)

    signal.signal(signal.SIGTERM, end_ranks)
    status = 0
    for rank in ranks:
        code = os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])
        if code != 0:
            status = code if code > 0 else 128 - code
    if len(sys.argv) == 2:
        shutil.rmtree(folder)
    leave(status)


main()
