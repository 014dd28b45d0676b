"""Cost of `lockstep watch`, side by side: a transformer of 11 million parameters, 512 tokens per rank and
step, on the CPU. Steps of the same training are unobserved, hooked but not due, and observed, in turn, so
that all kinds see the same load of the machine.

    PYTHONPATH=harness/watch/python/start LOCKSTEP_WATCH_MODULES=1 \\
      LOCKSTEP_WATCH_LIBRARY=build/release/lib/lockstep/liblockstep_watch.so \\
      LOCKSTEP_WATCH_FOLDER=$(mktemp -d) LOCKSTEP_WATCH_JOB=bench \\
      torchrun --nproc-per-node 2 tests/bench/watch_overhead.py

Prints, of rank 0, the median time of an unobserved step, and the median difference of the other kinds to the
unobserved step next to them: in wall time and in CPU time of the process, which a busy machine changes less.
The cost of `--every 10` is that of one observed step and nine that are not due. With LOCKSTEP_WATCH_MODULES,
the same of --modules. Then the resident memory before and after."""

import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

BLOCKS, TRIPLES = 4, 8
SETTLING = 20  # steps until the job's own memory grows no more
NEVER = 2**61
KINDS = "unobserved", "not due", "observed"


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def training():
    """A function that trains one step, and the number of parameters."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, batch_first=True)
    module = nn.Sequential(nn.Embedding(1000, 384), nn.TransformerEncoder(layer, 6), nn.Linear(384, 1000))
    wrapped = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters())

    def step():
        tokens = torch.randint(0, 1000, (4, 128))
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    return step, sum(parameter.numel() for parameter in module.parameters())


def restart(modules):
    """Begins to observe in a new folder."""
    from _lockstep import _hook, _settings

    os.environ["LOCKSTEP_WATCH_FOLDER"] = tempfile.mkdtemp()
    os.environ["LOCKSTEP_WATCH_MODULES"] = "1" if modules else ""
    _settings.current = _settings.from_environment()
    _hook.watcher.restart()


def timed(step, kind):
    """Wall and CPU time of a step of a kind, in ms."""
    from _lockstep import _hook

    _hook.watcher._is_off = kind == "unobserved"
    _hook.watcher._settings.every = NEVER if kind == "not due" else 1
    dist.barrier()
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


def measure(step, modules):
    """A list of triples of (wall, CPU), in the order of KINDS."""
    from _lockstep import _hook, _watcher

    triples = []
    for _ in range(BLOCKS):
        restart(modules)
        for kind in KINDS:  # describes the tensors
            timed(step, kind)
        for _ in range(_watcher._STEPS_WITH_BOTH):  # observes parameters before the step, too
            timed(step, "observed")
        for turn in range(TRIPLES):
            order = KINDS[turn % 3:] + KINDS[:turn % 3]
            times = {kind: timed(step, kind) for kind in order}
            triples.append([times[kind] for kind in KINDS])
        _hook.watcher._is_off = False
        _hook.watcher.pause()
    return triples


def show(title, triples):
    for clock, name in enumerate(["wall", "CPU"]):
        plain = statistics.median(triple[0][clock] for triple in triples)
        idle, busy = (statistics.median(triple[kind][clock] - triple[0][clock] for triple in triples)
                      for kind in (1, 2))
        print("%s, %s time: unobserved %.1f ms a step; observed %+.2f ms: %+.2f %%; not due %+.2f ms: "
              "%+.2f %%; --every 10: %+.2f %%"
              % (title, name, plain, busy, 100 * busy / plain, idle, 100 * idle / plain,
                 (10 * busy + 90 * idle) / plain))


def main():
    from _lockstep import _hook

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    step, parameters = training()
    _hook.watcher.pause()
    for _ in range(SETTLING):
        step()
    before = resident_mib()
    has_modules = bool(os.environ.get("LOCKSTEP_WATCH_MODULES"))
    results = {"watch": measure(step, False)}
    after = resident_mib()
    if has_modules:
        results["watch --modules"] = measure(step, True)
    if dist.get_rank() == 0:
        print("%.1f million parameters" % (parameters / 1e6))
        for title, triples in results.items():
            show(title, triples)
        print("resident: %.1f MiB, after watch %.1f MiB" % (before, after))
    dist.destroy_process_group()


main()
