"""The cost of other observers on the job of watch_overhead.py (tests/bench/peer_training.py, 2 ranks): runs it
unobserved and with each tool in turn, several times, and writes the table of docs/performance.md.

    ci/build release
    python3 -m venv peers
    peers/bin/pip install torch==2.11.0 traincheck==0.2.0 mindstudio-probe==26.2.0
    peers/bin/python tests/bench/peers.py build/release [--repetitions 3]

A tool that fails appears with its first error. Medians of CPU time, of rank 0."""

import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- peers: tests/bench/peers.py -->", "<!-- end of peers -->"
TRAINING = HERE / "peer_training.py"
RESULT = re.compile(r"median CPU time of a step: ([0-9.]+) ms")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def plain(folder, build):
    return TORCHRUN + [str(TRAINING)], {}


def lockstep(folder, build):
    hook = {"PYTHONPATH": str(HERE.parents[1] / "harness" / "watch" / "python"), "LOCKSTEP_WATCH_JOB": "bench",
            "LOCKSTEP_WATCH_LIBRARY": str(build / "lib" / "lockstep" / "liblockstep_watch.so"),
            "LOCKSTEP_WATCH_FOLDER": folder}
    return TORCHRUN + [str(TRAINING)], hook


def msprobe(folder, build):
    """Norms and extremes of gradients and weights in each step."""
    path = os.path.join(folder, "monitor.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"targets": {}, "format": "csv", "ops": ["norm", "min", "max"], "wg_distribution": True,
                   "param_distribution": True}, file)
    os.chmod(path, 0o600)
    return TORCHRUN + [str(TRAINING)], {"BENCH_MSPROBE": path, "MONITOR_OUTPUT_DIR": folder}


def traincheck(*options):
    """Its collection of traces."""
    def of(folder, build):
        training = shutil.copy(TRAINING, folder)  # beside which it writes its version of it
        script = os.path.join(folder, "run.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(" ".join(TORCHRUN) + " %s\n" % TRAINING.name)
        collect = os.path.join(os.path.dirname(sys.executable), "traincheck-collect")
        return [collect, "-p", training, "-s", script, "--output-dir", os.path.join(folder, "traces"), *options], {}
    return of


TOOLS = {"unobserved": (plain, None), "`lockstep watch`, every step": (lockstep, None),
         "msprobe's monitor, norm, min and max of gradients and weights": (msprobe, "mindstudio-probe"),
         "TrainCheck, `--models-to-track module`": (traincheck("--models-to-track", "module"), "traincheck"),
         "TrainCheck, the same with `-t torch.nn torch.optim`":
             (traincheck("--models-to-track", "module", "-t", "torch.nn", "torch.optim"), "traincheck"),
         "TrainCheck, `-t torch.nn torch.optim --models-to-track model --model-tracker-style sampler`":
             (traincheck("--models-to-track", "model", "-t", "torch.nn", "torch.optim", "--model-tracker-style",
                         "sampler"), "traincheck")}


def run(tool, build, limit):
    """The median time of a step in ms; else why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        command, environment = tool(folder, build)
        try:
            done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return "not done after %d s" % limit
    found = RESULT.search(done.stdout)
    if found:
        return float(found.group(1))
    lines = re.sub("\x1b\\[[0-9;]*m", "", done.stdout).strip().splitlines()  # without colours
    return ([line.strip() for line in lines if "Error: " in line and "ChildFailed" not in line or "Signal 11" in line] or lines[-1:] or ["no output"])[0][:200]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--limit", type=int, default=1200, help="seconds for one run")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    results = {name: [] for name in TOOLS}
    for _ in range(options.repetitions):
        for name, (tool, _) in TOOLS.items():
            results[name].append(run(tool, options.build.resolve(), options.limit))
            print(name, results[name][-1], flush=True)
    base = statistics.median(results["unobserved"])
    lines = ["%s runs of each in turn; load average %.1f before and %.1f after; torch %s."
             % (options.repetitions, before, os.getloadavg()[0], importlib.metadata.version("torch")), "",
             "| tool | version | CPU time of a step | of the unobserved one |", "|---|---|---|---|"]
    for name, (_, package) in TOOLS.items():
        version = importlib.metadata.version(package) if package else ""
        times = [time for time in results[name] if isinstance(time, float)]
        if times:
            lines.append("| %s | %s | %.0f ms | %.2f |" % (name, version, statistics.median(times), statistics.median(times) / base))
        else:
            lines.append("| %s | %s | does not run: `%s` | |" % (name, version, results[name][-1].replace("|", "/")))
    text = "\n".join([BEGIN] + lines + [END])
    PAGE.write_text(re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: text, PAGE.read_text(), flags=re.S))
    print(text)


main()
