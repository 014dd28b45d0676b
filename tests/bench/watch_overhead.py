"""Cost of `lockstep watch` at every step, side by side: a transformer of 10 million parameters, 512 tokens
per rank and step, on the CPU, in blocks of steps that are unobserved, observed, and observed with --modules in
turn.

    PYTHONPATH=harness/watch/python LOCKSTEP_WATCH_MODULES=1 LOCKSTEP_WATCH_LIBRARY=build/release/lib/lockstep/liblockstep_watch.so \\
      LOCKSTEP_WATCH_FOLDER=$(mktemp -d) LOCKSTEP_WATCH_JOB=bench \\
      torchrun --nproc-per-node 2 tests/bench/watch_overhead.py

Prints the median time of a step of each kind on rank 0, and the resident memory before and after. Without
LOCKSTEP_WATCH_MODULES there are two kinds."""

import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

BLOCKS, STEPS = 8, 6


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    from lockstep import _hook, _settings

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, batch_first=True)
    module = nn.Sequential(nn.Embedding(1000, 384), nn.TransformerEncoder(layer, 5), nn.Linear(384, 1000))
    wrapped = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters())
    count = sum(parameter.numel() for parameter in module.parameters())

    def step():
        tokens = torch.randint(0, 1000, (4, 128))
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    _hook.watcher.pause()
    step()
    kinds = ["unobserved", "observed"] + ["with --modules"] * bool(os.environ.get("LOCKSTEP_WATCH_MODULES"))
    times, memory = {kind: [] for kind in kinds}, {}
    for block in range(len(kinds) * BLOCKS):
        kind = kinds[block % len(kinds)]
        if kind != "unobserved":
            os.environ["LOCKSTEP_WATCH_FOLDER"] = tempfile.mkdtemp()
            os.environ["LOCKSTEP_WATCH_MODULES"] = "1" if kind == "with --modules" else ""
            _settings.current = _settings.from_environment()
            _hook.watcher.restart()
        for i in range(STEPS):
            dist.barrier()
            begin = time.perf_counter()
            step()
            if i > 0:  # the first one describes the tensors
                times[kind].append(time.perf_counter() - begin)
        memory.setdefault(kind, resident_mib())
        _hook.watcher.pause()
    if dist.get_rank() == 0:
        print("%.1f million parameters" % (count / 1e6))
        plain, before = 1000 * statistics.median(times["unobserved"]), memory["unobserved"]
        for kind in kinds:
            median = 1000 * statistics.median(times[kind])
            print("%s: %.1f ms a step: %+.1f %%; resident after the first: %.1f MiB: %+.2f %%"
                  % (kind, median, 100 * (median / plain - 1), memory[kind], 100 * (memory[kind] / before - 1)))
    dist.destroy_process_group()


main()
