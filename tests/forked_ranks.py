"""Runs a training on ranks that are forked from one process, which has imported torch for all.

forked_ranks.py TRAINING WORLD [ARGUMENT...] [-- WORLD [ARGUMENT...]]...: one world after another. The ranks
find what torchrun tells its workers in their environment. Exits with 1 if a rank does not exit with 0.
"""

import gc

gc.disable()  # while torch is imported: a fourth less time
import ctypes
import os
import runpy
import signal
import socket
import sys
import traceback

import torch
import torch._dynamo  # DDP imports it on first use: once here, not in every rank
import torch.distributed as dist

PR_SET_PDEATHSIG = 1


def run_rank(rank, world, port, training, arguments):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    sys.argv = [training, *arguments]
    torch.set_num_threads(1)  # before another thread calls it: after a fork, two at once can abort
    try:
        runpy.run_path(training, run_name="__main__")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def run_world(world, training, arguments):
    """Whether all ranks exited with 0."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    ranks = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            listener.close()
            run_rank(rank, world, port, training, arguments)
        ranks.append(child)
    # In a process of its own, because it starts a thread, and the next world is forked from this one.
    server = os.fork()
    if server == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        store = dist.TCPStore(
            "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        while store is not None:
            signal.pause()
    listener.close()
    failed = [rank for rank in ranks if os.waitpid(rank, 0)[1] != 0]
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    return not failed


def worlds(words):
    """The arguments of each world."""
    while words:
        end = words.index("--") if "--" in words else len(words)
        yield int(words[0]), words[1:end]
        words = words[end + 1 :]


def main():
    training = sys.argv[1]
    sys.path[0] = os.path.dirname(training)
    torch.set_num_threads(1)
    gc.freeze()  # a collection in a rank would write to, and so copy, all that it shares
    gc.enable()
    results = [run_world(world, training, arguments) for world, arguments in worlds(sys.argv[2:])]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
