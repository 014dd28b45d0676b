"""Starts two ranks of `job.py`: ranks.py fork|spawn. Exits as the first rank that fails, 128 + n after signal n."""

import os
import runpy
import signal
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def environment(rank, port):
    return dict(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def train(rank, port):
    os.environ.update(environment(rank, port))
    runpy.run_path(os.path.join(HERE, "job.py"), run_name="__main__")


def fork(port):
    import torch.distributed  # once for both
    ranks = []
    for rank in range(2):
        process = os.fork()
        if process == 0:
            status = 1
            try:
                train(rank, port)
                status = 0
            except BaseException as error:
                print("RAISED %d %s" % (rank, error), file=sys.stderr)
            sys.stdout.flush()
            os._exit(status)
        ranks.append(process)

    def end(number, _):
        for process in ranks:
            try:
                os.kill(process, number)
            except OSError:
                pass
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    status = 0
    while ranks:
        process, waited = os.wait()
        if process not in ranks:
            continue
        ranks.remove(process)
        code = os.waitstatus_to_exitcode(waited)
        if code != 0 and status == 0:
            status = code if code > 0 else 128 - code
            for other in ranks:
                os.kill(other, signal.SIGTERM)
    sys.exit(status)


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    if sys.argv[1] == "fork":
        fork(number)
    import torch.multiprocessing as processes

    processes.spawn(train, args=(number,), nprocs=2)
