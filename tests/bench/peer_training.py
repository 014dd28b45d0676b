"""The job of watch_overhead.py as a script of its own, for tools that observe whole scripts: prints, of rank 0,
the median CPU time of a step in ms, and the peak of the resident memory. tests/bench/peers.py runs it with
several tools."""

import os
import resource
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

STEPS, WARM = int(os.environ.get("BENCH_STEPS", "20")), 4

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, batch_first=True)
module = nn.Sequential(nn.Embedding(1000, 384), nn.TransformerEncoder(layer, 6), nn.Linear(384, 1000))
model = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.AdamW(model.parameters())
monitor = None
if "BENCH_MSPROBE" in os.environ:
    from msprobe.pytorch.monitor.module_hook import TrainerMon
    monitor = TrainerMon(os.environ["BENCH_MSPROBE"], params_have_main_grad=False)
    monitor.set_monitor(model, optimizer=optimizer, grad_acc_steps=1)
times = []
for _ in range(STEPS):
    tokens = torch.randint(0, 1000, (4, 128))
    begin = time.process_time()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    times.append(1000 * (time.process_time() - begin))
if dist.get_rank() == 0:
    print("median CPU time of a step: %.2f ms" % statistics.median(times[WARM:]), flush=True)
    print("peak of the resident memory: %.1f MiB"
          % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), flush=True)
dist.destroy_process_group()
