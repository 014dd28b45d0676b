"""Runs a training on ranks that are forked from one process, which has imported torch for all.

forked_ranks.py WORLD TRAINING [ARGUMENT...]: the ranks find what torchrun tells its workers in their
environment. Exits with 1 if a rank does not exit with 0.
"""

import os
import runpy
import socket
import sys
import traceback

import torch
import torch._dynamo  # DDP imports it on first use: once here, not in every rank
import torch.distributed as dist


def run_rank(rank, world, port, training, arguments):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    sys.argv = [training, *arguments]
    try:
        runpy.run_path(training, run_name="__main__")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main():
    world, training, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    sys.path.insert(0, os.path.dirname(training))
    torch.set_num_threads(1)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    ranks = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            listener.close()
            run_rank(rank, world, port, training, arguments)
        ranks.append(child)
    # After the forks, because it starts a thread.
    store = dist.TCPStore(
        "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    failed = [rank for rank in ranks if os.waitpid(rank, 0)[1] != 0]
    del store
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
