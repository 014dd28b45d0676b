"""Watches small jobs to which something happens, each beside a twin that nobody watches:
do_no_harm.py LOCKSTEP PYTHON [--cases N] [--seed S] [--only FAULT]

A case is a fault, a launcher, a way to watch and a job, drawn from the seed so that all faults come in turn. Held:
the losses of the twin, bit for bit; its exit status, where Lockstep does not say another one by its table; none of
"ranks differ", "was changed" and tracebacks of Lockstep; a sentence where the fault ends the observation; no process
left behind; `report` reads the folder. Prints a table of faults and launchers with the number of cases that held, and
exits with 1 if one did not."""

import argparse
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 120

# What a job does to itself, and the words of which one has to be said; empty: the verdict is as without it.
OF_JOB = {
    "nothing": (),
    "closes descriptors": ("the job closed", "in lockstep"),
    "reuses descriptors": ("the job closed", "in lockstep"),
    "few descriptors": (),
    "changes folder": (),
    "umask": (),
    "clears environment": (),
    "signal handlers": (),
    "clears sys.path": (),
    "clears sys.modules": (),
    "forks": (),
    "full disk": ("is no longer observed", "Cannot write", "in lockstep"),
    "clock jumps": (),
    "little memory": (),
    "closes stderr": (),
    "own excepthook": (),
}
# What happens to it from outside.
OF_FILES = ["truncates watch.control", "truncates rank-0.progress", "truncates rank-0.csv", "truncates rank-1.index",
            "writes into watch.control", "removes the folder", "removes rank-1.csv", "makes the folder unreadable"]
OF_EVIDENCE = ("truncates rank-0.csv", "truncates rank-1.index", "removes rank-1.csv")
OF_SIGNALS = ["%s to %s" % (name, whom) for whom in ("a rank", "the launcher", "the watch")
              for name in ("KILL", "TERM", "INT", "HUP", "SEGV", "STOP and CONT")]
OF_NAMES = ["own module lockstep", "own sitecustomize", "own modules of the hook's names", "100,000-character argument"]
CONFIGURATION = '--config={"tokenizer=":"%s"}' % ("gpt2=" * 20_000)
FAULTS = [*OF_JOB, *OF_FILES, *OF_SIGNALS, *OF_NAMES]
LAUNCHERS = ["fork", "torchrun", "spawn"]
# An argument or a signal may end a job; its own status then counts.
ENDS = re.compile(r"^(KILL|TERM|INT|HUP|SEGV) to")
FALSE_ALARMS = ("ranks differ", "FAILED: rank-", "was changed", "never called", "defect of Lockstep")


class Case:
    def __init__(self, number, only):
        self.random = random.Random(number)
        self.fault = only or FAULTS[number % len(FAULTS)]
        self.job = self.random.choice(["ddp", "ddp", "fully_shard"])
        self.launcher = LAUNCHERS[number // len(FAULTS) % len(LAUNCHERS)]
        self.is_in_code = self.random.random() < 0.25 and "watch" not in self.fault
        if self.fault in OF_NAMES[:3]:
            self.is_in_code = False
        self.at = self.random.randint(3, 9)
        self.moment = self.random.uniform(0.0, 0.4)
        self.rank = self.random.randint(0, 1)

    def __str__(self):
        return "%s, %s, %s%s, step %d" % (self.fault, self.launcher, self.job,
                                          ", in code" if self.is_in_code else "", self.at)


def environment_of(case, folder, runs, options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_WATCH")}
    environment.update(JOB=case.job, AT=str(case.at), OMP_NUM_THREADS="1", MARKER=folder, READY="ready")
    environment.pop("PYTHONPATH", None)
    if case.fault in OF_JOB:
        environment["HARM"] = case.fault
    if case.fault in OF_FILES or case.fault in OF_SIGNALS:
        environment.update(PAUSE="0.1")
    if case.is_in_code:
        environment.update(PYTHONPATH=os.path.join(options.prefix, "share/lockstep/python"))
        if runs:
            environment.update(IN_CODE=runs)
    return environment


def command_of(case, folder, options):
    script = os.path.join(folder, "job.py")
    command = {"fork": [options.python, os.path.join(folder, "ranks.py"), "fork"],
               "spawn": [options.python, os.path.join(folder, "ranks.py"), "spawn"],
               "torchrun": [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                            script]}[case.launcher]
    return command + ([CONFIGURATION] if case.fault.startswith("100,000") else [])


def prepare(case, folder):
    for name in ("job.py", "ranks.py"):
        shutil.copy(os.path.join(HERE, name), folder)
    own = {"own module lockstep": ["lockstep"], "own sitecustomize": ["sitecustomize"],
           "own modules of the hook's names": ["_start", "_settings", "_process", "_hook", "observe"]}
    for name in own.get(case.fault, []):
        with open(os.path.join(folder, name + ".py"), "w") as file:
            file.write("VALUE = 42\n")
    if case.fault in own:
        script = os.path.join(folder, "job.py")
        with open(script) as file:
            text = file.read()
        imports = "".join("import %s\nassert %s.VALUE == 42\n" % (name, name) for name in own[case.fault]
                          if name != "sitecustomize")
        with open(script, "w") as file:
            file.write(text.replace('\nimport torch\n', "\n" + imports + "import torch\n", 1))


def processes_with(folder):
    """Of the job, as its environment says."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                words = file.read().split(b"\0")
            if b"MARKER=" + folder.encode() in words:
                with open("/proc/%s/stat" % name) as file:
                    if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                        found[int(name)] = words
        except OSError:
            pass
    return found


def ranks_of(folder):
    """By rank. Forked ones have the environment of their launcher, so their counters name them."""
    ranks = {}
    for process, words in processes_with(folder).items():
        for word in words:
            if word.startswith(b"RANK="):
                ranks[int(word[5:])] = process
    return ranks


def children_of(process):
    try:
        with open("/proc/%d/task/%d/children" % (process, process)) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def wait_for(path, process, limit=60):
    end = time.monotonic() + limit
    while not os.path.exists(path) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def target_of(case, process, is_watched, folder):
    """The process that gets a signal; None: it is gone."""
    launcher = process.pid
    if is_watched and not case.is_in_code:
        launcher = (children_of(process.pid) or [None])[0]
    if case.fault.endswith("the watch"):
        return process.pid
    if case.fault.endswith("the launcher") or launcher is None:
        return launcher
    ranks = ranks_of(folder)
    children = children_of(launcher)
    return ranks.get(case.rank) or (children[case.rank] if len(children) > case.rank else None)


def disturb(case, process, is_watched, folder, runs):
    """From outside. Of a twin only processes."""
    if case.fault not in OF_FILES and case.fault not in OF_SIGNALS:
        return
    wait_for(os.path.join(folder, "ready"), process)
    time.sleep(case.moment)
    if case.fault in OF_SIGNALS:
        target = target_of(case, process, is_watched, folder)
        if target is None:
            return
        word = case.fault.split()[0]
        try:
            os.kill(target, getattr(signal, "SIG" + word))
            if word == "STOP":
                time.sleep(0.5)
                os.kill(target, signal.SIGCONT)
        except OSError:
            pass
        return
    if not is_watched:
        return
    files = os.path.join(runs, "job")
    verb, name = case.fault.split()[0], case.fault.split()[-1]
    path = os.path.join(files, name)
    try:
        if verb == "truncates":
            os.truncate(path, 0)
        elif verb == "writes":
            with open(path, "r+b") as file:
                file.write(os.urandom(40))
        elif case.fault == "removes the folder":
            shutil.rmtree(runs, ignore_errors=True)
        elif verb == "removes":
            os.remove(path)
        else:
            os.chmod(files, 0)
    except OSError:
        pass  # there is none of that name: nothing happens


class Ended:
    def __init__(self, status, out, err, left):
        self.status, self.out, self.err, self.left = status, out, err, left
        self.losses = sorted(re.findall(r"^LOSS \d+ \S+", out, re.M))


def run(case, is_watched, options):
    """The job in a folder of its own, watched or not."""
    folder = tempfile.mkdtemp(prefix="harm-")
    runs = os.path.join(folder, "runs")
    prepare(case, folder)
    command = command_of(case, folder, options)
    if is_watched and not case.is_in_code:
        command = [options.lockstep, "watch", "--out", runs, "--", *command]
    with open(os.path.join(folder, "out"), "w") as out, open(os.path.join(folder, "err"), "w") as err:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env=environment_of(case, folder, runs if is_watched else "", options),
                                   start_new_session=True)
        disturb(case, process, is_watched, folder, runs)
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            status = "no end"
    status = 128 - status if isinstance(status, int) and status < 0 else status
    end = time.monotonic() + 20  # ranks without their launcher train to their end
    while processes_with(folder) and time.monotonic() < end:
        time.sleep(0.05)
    left = len(processes_with(folder))
    for left_behind in processes_with(folder):
        os.kill(left_behind, signal.SIGKILL)
    texts = []
    for name in ("out", "err"):
        with open(os.path.join(folder, name), errors="replace") as file:
            texts.append(file.read())
    return folder, runs, Ended(status, *texts, left)


def faults_of(case, twin, watched, report):
    """What was not held, in words."""
    faults = []
    if twin.losses != watched.losses and not ENDS.match(case.fault):
        faults.append("losses %s instead of %s" % (watched.losses, twin.losses))
    if ENDS.match(case.fault) and not set(watched.losses) <= set(twin.losses) and len(twin.losses) == 2:
        faults.append("losses %s are not among %s" % (watched.losses, twin.losses))
    if "HARMED" in watched.out:
        faults.append("rows of Lockstep are in files of the job")
    said = " ".join((watched.err + report.out + report.err).split())
    # Evidence that is gone or cut is a fault of the record, which names the file; it is no wrong alarm about ranks.
    is_damage = case.fault in OF_EVIDENCE and case.fault.split()[-1] in said
    faults += ["'%s' was said" % words for words in FALSE_ALARMS
               if words in said and not (is_damage and ("rank-" in words or "changed" in words))]
    if re.search(r'File "[^"]*/(?:python|site-packages)/_?lockstep/', watched.err) and "Traceback" in watched.err:
        faults.append("a traceback of Lockstep")
    allowed = {twin.status, 2, 3}
    if ENDS.match(case.fault):  # at a random moment, so perhaps after the end of one of both
        allowed |= {0, 1, *(128 + number for number in (1, 2, 9, 11, 15))}
    if is_damage:
        allowed.add(1)
    if watched.status not in allowed:
        faults.append("status %s instead of %s" % (watched.status, twin.status))
    words = OF_JOB.get(case.fault, ())
    if case.fault == "KILL to the launcher" and case.launcher == "fork" and len(watched.losses) == 2:
        words = ("still train", "in lockstep")
    if words and not any(one in said for one in words):
        faults.append("none of %s was said" % (words,))
    if watched.left > twin.left:
        faults.append("%d processes were left" % watched.left)
    is_gone = case.fault == "removes the folder"
    if report.status not in ((0, 2, 3, 64) if is_gone else (0, 1, 2, 3)) and not (is_damage and report.status == 64):
        faults.append("report ended with %s: %s" % (report.status, " ".join(report.err.split())[:300]))
    if report.status == 1 and not ENDS.match(case.fault) and not is_damage:
        faults.append("report ended with 1")
    return faults


TWINS = {}


def twin_of(case, options):
    """Its result. Only what a signal does differs from run to run."""
    own = case.fault if case.fault in OF_JOB or case.fault in OF_NAMES else "files"
    key = own, case.at if case.fault in OF_JOB else 0, case.job, case.launcher, case.is_in_code
    twin = TWINS.get(key)
    if twin is None or case.fault in OF_SIGNALS:
        folder, _, twin = run(case, False, options)
        shutil.rmtree(folder, ignore_errors=True)
        if case.fault not in OF_SIGNALS:
            TWINS[key] = twin
    return twin


def hold(case, options):
    twin = twin_of(case, options)
    folder, runs, watched = run(case, True, options)
    files = os.path.join(runs, "job")
    if os.path.isdir(files):
        os.chmod(files, 0o755)
    reported = subprocess.run([options.lockstep, "report", runs], capture_output=True, text=True, timeout=LIMIT_S)
    report = Ended(reported.returncode, reported.stdout, reported.stderr, 0)
    faults = faults_of(case, twin, watched, report)
    if faults:
        print("%s:\n  %s" % (case, "\n  ".join(faults)))
        for text in (watched.err, report.out):
            print("    | " + "\n    | ".join(text.strip().splitlines()[-14:]))
    sys.stdout.flush()
    if options.keep and faults:
        print("  files: %s" % folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return not faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep")
    parser.add_argument("python")
    parser.add_argument("--cases", type=int, default=len(FAULTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--quick", action="store_true", help="the eight faults of the quick tests")
    parser.add_argument("--keep", action="store_true", help="the files of cases that did not hold")
    options = parser.parse_args()
    options.lockstep, options.python = map(os.path.abspath, (options.lockstep, options.python))
    options.prefix = os.path.dirname(os.path.dirname(os.path.abspath(options.lockstep)))
    quick = ["reuses descriptors", "full disk", "truncates watch.control", "truncates rank-0.progress",
             "KILL to the launcher", "own module lockstep", "100,000-character argument", "clears environment"]
    cases = ([Case(options.seed + i, fault) for i, fault in enumerate(quick)] if options.quick else
             [Case(options.seed + i, options.only) for i in range(options.cases)])
    held = collections.Counter()
    all_cases = collections.Counter()
    for case in cases:
        place = case.fault, case.launcher + (", in code" if case.is_in_code else "")
        all_cases[place] += 1
        held[place] += hold(case, options)
    columns = sorted({launcher for _, launcher in all_cases})
    print("| fault | %s |\n|---|%s" % (" | ".join(columns), "---|" * len(columns)))
    for fault in FAULTS:
        if any(place[0] == fault for place in all_cases):
            counts = ("%d of %d" % (held[fault, one], all_cases[fault, one]) if all_cases[fault, one] else "-"
                      for one in columns)
            print("| %s | %s |" % (fault, " | ".join(counts)))
    print("%d of %d cases held" % (sum(held.values()), len(cases)))
    sys.exit(0 if sum(held.values()) == len(cases) else 1)


if __name__ == "__main__":
    main()
