"""Plants mistakes in trainings by torch, accelerate, transformers, Lightning and DeepSpeed, and healthy ones beside
them, and prints what `lockstep report` says of each. With a Python that has these packages and lockstep:

    planted_causes.py LOCKSTEP OUT mistakes [NAME...]      those of mistakes.py; all if none is named
    planted_causes.py LOCKSTEP OUT healthy COUNT [SEED]    random ones of healthy_setups.py

Exits with 1 if a wrong cause or line was told, if too few were told, or if something was told of a healthy one. Those
whose package is missing are left out, and counted."""

import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.dirname(FOLDER)]
PACKAGES = {"accelerate": "accelerate", "transformers": "transformers", "Lightning": "lightning",
            "DeepSpeed": "deepspeed"}
MOST_MISSED = 0.1  # of the mistakes
# About ranks that are not in lockstep, and notes of what is not as it should be.
TOLD = (r"at the same time|Cause:|ranks differ|gradients (were \w+ |lack|are) |DistributedSampler|that no optimizer steps|"
        r"reduced the metric|saved with the model|other samples than")


class Report:
    """What `lockstep report` says of a run."""

    def __init__(self, lockstep, folder):
        outcome = subprocess.run([lockstep, "report", folder], capture_output=True, text=True, check=False)
        self.status, self.text = outcome.returncode, outcome.stdout + outcome.stderr

    def first(self):
        """The verdict, without the command."""
        line = re.search(r" ranks:\s((.|\n {4})*)", self.text)  # it goes on in lines that are indented
        return re.sub(r"\s+", " ", line.group(1)) if line else ""

    def cause(self):
        """The sentence after "Cause:"; "": none is told."""
        return self.first().partition("Cause: ")[2]

    def words(self, expression):
        """What is found of an expression in the report without its breaks of lines; "": nothing."""
        found = re.search(expression, re.sub(r"\s+", " ", self.text))
        return found.group() if found else ""


def run(script, name, folder):
    """Two ranks of a training. Whether they ended well."""
    import forked_ranks

    os.environ.update(TORCHELASTIC_RUN_ID=name, LOCAL_WORLD_SIZE="2", GROUP_RANK="0", DS_ACCELERATOR="cpu",
                      OMP_NUM_THREADS="1", ACCELERATE_USE_CPU="true", TORCHELASTIC_RESTART_COUNT="0",
                      TORCHELASTIC_MAX_RESTARTS="0", GROUP_WORLD_SIZE="1")
    log = os.open(folder + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    sys.stdout.flush()
    saved = os.dup(1), os.dup(2)
    os.dup2(log, 1), os.dup2(log, 2)
    try:
        return forked_ranks.run_world(2, os.path.join(FOLDER, script), [name, folder])
    finally:
        for number, one in enumerate(saved, 1):
            os.dup2(one, number)
            os.close(one)
        os.close(log)


def has(framework):
    package = PACKAGES.get(framework)
    return package is None or importlib.util.find_spec(package) is not None


def import_once(frameworks):
    """Ranks are forked from this process."""
    import torch._dynamo
    import torch.distributed.fsdp

    torch.set_num_threads(1)
    os.environ["DS_ACCELERATOR"] = "cpu"
    for framework in frameworks:
        if framework == "transformers":
            from transformers import GPT2LMHeadModel, Trainer
        elif framework in PACKAGES:
            __import__(PACKAGES[framework])
        if framework == "Lightning":
            import lightning.pytorch.strategies


def right_line(train):
    """Of the comment "the mistake"; 0: it has none, because the report cannot know."""
    lines, first = inspect.getsourcelines(train)
    return next((first + index for index, line in enumerate(lines) if line.rstrip().endswith("# the mistake")), 0)


def line_in(text):
    found = re.search(r"mistakes\.py:(\d+)", text)
    return int(found.group(1)) if found else 0


def cell(text):
    return text.replace("|", "\\|") or "-"


def plant(lockstep, out, names):
    from mistakes import MISTAKES

    chosen = {name: one for name, one in MISTAKES.items() if not names or name in names}
    import_once({one.framework for one in chosen.values() if has(one.framework)})
    counts = dict.fromkeys(("right", "missed", "wrong", "lines", "lines right", "lines wrong", "left out"), 0)
    print("| mistake | with | what it says | cause | line | right line |\n|---|---|---|---|---|---|")
    for name, one in chosen.items():
        if not has(one.framework):
            counts["left out"] += 1
            continue
        folder = os.path.join(out, name)
        run("mistakes.py", name, folder)
        report = Report(lockstep, folder)
        told = report.cause() or (report.words(one.cause) if one.is_note else "")
        answer = "right" if re.search(one.cause, told) else "wrong" if told else "missed"
        counts[answer] += 1
        line, right = line_in(told), right_line(one.train)
        if answer == "right" and right:
            counts["lines"] += 1
            counts["lines right"] += line == right
            counts["lines wrong"] += line not in (0, right)
        print("| %s | %s | %s | %s | %s | %s |" % (
            name, one.framework, cell(report.first() if not one.is_note else report.first() + " ... " + told), answer,
            line or "-", right or "-"), flush=True)
    ran = len(chosen) - counts["left out"]
    print("\n%d mistakes: cause right in %d, missed in %d, wrong in %d. Of %d that have a line: right in %d, wrong in "
          "%d. Left out for want of a package: %d" % (
              ran, *(counts[what] for what in ("right", "missed", "wrong", "lines", "lines right", "lines wrong",
                                               "left out"))))
    return bool(counts["wrong"] or counts["lines wrong"] or counts["missed"] > MOST_MISSED * ran)


def watch_healthy(lockstep, out, count, seed):
    from healthy_setups import FRAMEWORKS, drawn

    present = [framework for framework in FRAMEWORKS if has(framework)]
    import_once(present)
    told, failed, by_framework, undecided = [], [], {}, []
    for number in range(seed, seed + count):
        setup = drawn(number, present)
        name = "%d %s" % (number, json.dumps(setup))
        folder = os.path.join(out, "healthy-%d" % number)
        if not run("healthy_setups.py", json.dumps(setup), folder):
            failed.append(name)
            print("FAILED", name, flush=True)
            continue
        report = Report(lockstep, folder)
        by_framework[setup["framework"]] = by_framework.get(setup["framework"], 0) + 1
        if report.status == 1 or report.words(TOLD):
            told.append(name)
            print("TOLD", name, report.text, flush=True)
        elif report.status != 0:
            undecided.append(name)
            print("UNDECIDED", name, report.first(), flush=True)
        shutil.rmtree(folder)
    print("%d healthy trainings (%s): a finding or cause told in %d; no verdict on %d. %d did not train" % (
        sum(by_framework.values()), ", ".join("%s %d" % one for one in sorted(by_framework.items())), len(told),
        len(undecided), len(failed)))
    return bool(told or failed)


def main():
    lockstep, out, what = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    os.makedirs(out, exist_ok=True)
    if what == "mistakes":
        return plant(lockstep, out, sys.argv[4:])
    return watch_healthy(lockstep, out, int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else 0)


if __name__ == "__main__":
    sys.exit(main())
