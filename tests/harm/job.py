"""A small training, DDP or fully_shard (JOB), of STEPS steps, whose ranks print their last loss. In the step AT it does
to itself what HARM says, as jobs do; see `do_no_harm.py`. READY: a file that rank 0 makes after its second step.
IN_CODE: the folder that `lockstep.watch()` is given. PAUSE: seconds in each step. A job that goes on in other processes
meets by the file MEETING."""

import os
import resource
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

AT = int(os.environ.get("AT", "4"))
STEPS = int(os.environ.get("STEPS", "12"))


def close_all():
    """As daemons do, and programs that start others: all descriptors that are not theirs to know."""
    wanted = {os.stat(fd).st_ino for fd in (0, 1, 2)}
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            is_socket = os.readlink("/proc/self/fd/" + name).startswith(("socket:", "anon_inode:"))
            if fd > 2 and not is_socket and os.stat(fd).st_ino not in wanted:
                os.close(fd)
        except OSError:
            pass


def reuse():
    """Closes them, and opens files of its own until the numbers are taken."""
    close_all()
    checkpoints = [open("checkpoint-%d.%d" % (os.getpid(), i), "wb") for i in range(600)]
    for file in checkpoints:
        file.write(b"CHECKPOINT")
        file.flush()
    return checkpoints


def check(checkpoints):
    for file in checkpoints:
        file.flush()
        with open(file.name, "rb") as again:
            if again.read() != b"CHECKPOINT":
                print("HARMED %s" % file.name, flush=True)
        os.remove(file.name)
        file.close()


def fork_child():
    child = os.fork()
    if child == 0:
        time.sleep(0.3)
        os._exit(0)
    return child


def daemonise():
    """As daemons begin. The launcher sees that its ranks have ended well."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.umask(0)
    os.closerange(3, 1 << 16)


def execute_itself():
    sys.stdout.flush()
    os.environ["HARM"] = ""
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__)])


def execute_itself_later():
    dist.barrier()
    dist.destroy_process_group()
    os.environ["MEETING"] += "-again"
    if os.environ.get("IN_CODE"):
        os.environ["IN_CODE"] += "-again"
    execute_itself()


def harm(kind):
    """Returns what has to stay alive."""
    if kind == "closes descriptors":
        close_all()
    elif kind == "reuses descriptors":
        return reuse()
    elif kind == "few descriptors":
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, hard))
    elif kind == "changes folder":
        os.chdir("/")
    elif kind == "umask":
        os.umask(0o777)
    elif kind == "clears environment":
        os.environ.clear()
    elif kind == "signal handlers":
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGRTMIN + 9):
            signal.signal(number, signal.SIG_IGN)
    elif kind == "clears sys.path":
        sys.path.clear()
    elif kind == "clears sys.modules":
        for name in [name for name in sys.modules if "lockstep" in name]:
            del sys.modules[name]
    elif kind == "forks":
        return [fork_child()]
    elif kind == "limited file sizes":  # stand-in: no file of this process grows any more
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = 1024 + int(float(os.environ["SHARE"]) * 20000)  # its own output is shorter
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    elif kind == "replaces time.time":
        earlier = time.time
        time.time = lambda: earlier() - 1e6
    elif kind == "little memory":
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
    elif kind == "closes stderr":
        os.close(2)
    elif kind == "own excepthook":
        sys.excepthook = lambda *_: None
    elif kind == "executes itself after some steps":
        execute_itself_later()
    return []


def wrapped_model(model):
    if os.environ.get("JOB") == "fully_shard":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        return fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return nn.parallel.DistributedDataParallel(model)


def join():
    meeting = os.environ.get("MEETING")
    if meeting:
        dist.init_process_group("gloo", init_method="file://" + meeting, rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]))
    else:
        dist.init_process_group("gloo")
    return dist.get_rank()


def main():
    ready, kind, pause = (os.environ.get(name, "") for name in ("READY", "HARM", "PAUSE"))
    if kind == "daemonises":
        daemonise()
    elif kind == "executes itself first":
        execute_itself()
    torch.set_num_threads(1)
    rank = join()
    if os.environ.get("IN_CODE"):
        import lockstep
        lockstep.watch(out=os.environ["IN_CODE"])
    torch.manual_seed(0)
    model = wrapped_model(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(100 + rank)
    here = os.getcwd()
    kept = []
    for step in range(STEPS):
        rows, wanted = torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)
        optimizer.zero_grad()
        loss = (model(rows) - wanted).pow(2).mean()
        loss.backward()
        optimizer.step()
        if step + 1 == AT:
            kept = harm(kind)
        if ready and rank == 0 and step == 1:
            with open(os.path.join(here, ready), "w"):
                pass
        time.sleep(float(pause or 0))
    if kind == "reuses descriptors":
        check(kept)
    os.write(1, b"LOSS %d %s\n" % (rank, loss.item().hex().encode()))  # in one piece
    if os.environ.get("IN_CODE"):
        lockstep.stop()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
