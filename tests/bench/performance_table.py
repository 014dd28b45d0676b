"""Writes the table of this processor in docs/performance.md: the rates of fingerprint_bench, each beside that of a plain sum of
64-bit integers in the same process. With a torch that Python can import, also torch.hash_tensor, SHA-1 as
Megatron-LM's check of its replicas computes it, and the all-gather of scripts that compare ranks, over Gloo: on
one of two ranks, in CPU time of all its threads.

    ci/build release fingerprint_bench
    python3 tests/bench/performance_table.py build/release/bin/fingerprint_bench [--repetitions 15]

The benchmarks run in random order, so that all see the same load of the machine; medians count, in CPU time."""

import argparse
import hashlib
import json
import multiprocessing
import os
import pathlib
import platform
import re
import statistics
import subprocess
import tempfile
import time

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- rates: %s -->", "<!-- end of rates -->"
BYTES = 256 * 2**20
SUM = "sum_of_words"


def measured(program, repetitions):
    """Rates in GB/s of CPU time by name of the benchmark, one per repetition."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([program, "--benchmark_repetitions=%d" % repetitions, "--benchmark_min_time=0.02",
                        "--benchmark_enable_random_interleaving=true", "--benchmark_out=" + out.name],
                       check=True, stdout=subprocess.DEVNULL)
        runs = json.load(open(out.name))["benchmarks"]
    rates = {}
    for run in sorted(runs, key=lambda run: run["family_index"]):
        if run["run_type"] == "iteration":
            rates.setdefault(run["run_name"].split("/")[0], []).append(run["bytes_per_second"] / 1e9)
    return rates


def timed(call):
    begin = time.process_time()
    call()
    return BYTES / (time.process_time() - begin) / 1e9


def measured_in_torch(repetitions):
    """The same of functions of Python; empty without torch."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    tensor = torch.randn(BYTES // 4)
    words = tensor.view(torch.int64)
    calls = {"torch, sum of int64": words.sum}
    if hasattr(torch, "hash_tensor"):
        calls["torch.hash_tensor"] = lambda: torch.hash_tensor(tensor)
    view = memoryview(bytearray(BYTES))
    calls["hashlib.sha1(tobytes())"] = lambda: hashlib.sha1(view.tobytes()).hexdigest()
    rates = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            rates[name].append(timed(call))
    return rates


def measured_on_two_ranks(repetitions):
    """Those of an all-gather; empty without torch."""
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        return {}
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(2) as ranks:
        jobs = [(rank, os.path.join(folder, "store"), repetitions) for rank in range(2)]
        return {"torch, all-gather of 2 ranks": ranks.starmap(gather, jobs, chunksize=1)[0]}


def gather(rank, store, repetitions):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    tensor = torch.randn(BYTES // 4)
    gathered = [torch.zeros_like(tensor) for _ in range(2)]
    rates = []
    for _ in range(repetitions + 1):
        dist.barrier()
        rates.append(timed(lambda: dist.all_gather(gathered, tensor)))
    dist.destroy_process_group()
    return rates[1:]


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def table(rates):
    sums = {"": statistics.median(rates[SUM])}
    small = next((name for name in rates if name.endswith(SUM) and name != SUM), None)
    sums["1000 x 4 KB"] = statistics.median(rates[small]) if small else None
    lines = ["| pass | GB/s | best | of the plain sum |", "|---|---|---|---|"]
    for name, values in rates.items():
        plain = sums["1000 x 4 KB"] if name.startswith("1000") else sums[""]
        median = statistics.median(values)
        lines.append("| %s | %.2f | %.2f | %.2f |" % (name, median, max(values), median / plain))
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--repetitions", type=int, default=15)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    rates = measured(options.program, options.repetitions)
    rates.update(measured_in_torch(min(options.repetitions, 5)))
    rates.update(measured_on_two_ranks(min(options.repetitions, 5)))
    lines = ["%s, %d cores; load average %.1f before and %.1f after; medians of %d repetitions in random order, in CPU time."
             % (processor(), os.cpu_count(), before, os.getloadavg()[0], options.repetitions), ""]
    begin = BEGIN % processor()
    text = "\n".join([begin] + lines + table(rates) + [END])
    page = PAGE.read_text()
    if begin in page:
        page = re.sub(re.escape(begin) + ".*?" + re.escape(END), lambda _: text, page, flags=re.S)
    else:  # after the last one
        before, after = page.rsplit(END, 1)
        page = before + END + "\n\n" + text + after
    PAGE.write_text(page)
    print(text)


if __name__ == "__main__":
    main()
