"""Watches small jobs to which something happens, each beside a twin that nobody watches:
do_no_harm.py LOCKSTEP PYTHON [--cases N] [--seed S] [--only FAULT] [--jobs J] [--out COUNTS.csv]
do_no_harm.py --table COUNTS.csv...

A case is a fault, a launcher, a way to watch and a job, drawn from its number so that all faults come in turn. Held:
the losses of the twin, bit for bit; its exit status, where Lockstep does not say another one by its table; none of
"ranks differ", "was changed" and tracebacks of Lockstep; the sentences that `sentences.txt` lists, and no others; no
process left behind; `report` reads the folder. Prints a table of faults and launchers with the number of cases that
held, and exits with 1 if one did not. What the machine does not permit is counted as skipped, with its reason.

--out writes the counts, and --table sums those of several portions. --jobs runs cases at the same time.
A slow file system is a stand-in (slow.c), and so is a clock that jumps (clock.c); all other faults are real."""

import argparse
import collections
import concurrent.futures
import contextlib
import copy
import csv
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import rooms
import sentences
from faults import FAULTS, LAUNCHERS, OF_EVIDENCE, OF_FILES, OF_JOB, OF_SIGNALS, QUICK

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 120
CONFIGURATION = '--config={"tokenizer=":"%s"}' % ("gpt2=" * 20_000)
FALSE_ALARMS = ("ranks differ", "FAILED: rank-", "was changed", "never called", "defect of Lockstep")


class Case:
    def __init__(self, number, only):
        drawn = random.Random(number)
        names = list(FAULTS)
        self.fault = only or names[number % len(names)]
        self.what = FAULTS[self.fault]
        self.job = drawn.choice(["ddp", "ddp", "fully_shard"])
        self.launcher = LAUNCHERS[number // len(names) % len(LAUNCHERS)]
        self.is_in_code = drawn.random() < 0.25 and self.what.in_code
        self.at = drawn.randint(3, 9)
        self.moment = drawn.uniform(0.0, 0.4)
        self.rank = drawn.randint(0, 1)
        self.share = drawn.random()  # of a limit

    def __str__(self):
        return "%s, %s, %s%s, step %d" % (self.fault, self.launcher, self.job,
                                          ", in code" if self.is_in_code else "", self.at)

    def without_fault(self):
        plain = copy.copy(self)
        plain.fault, plain.what = "nothing", FAULTS["nothing"]
        return plain

    def column(self):
        return self.launcher + (", in code" if self.is_in_code else "")

    def section(self):
        """Of sentences.txt."""
        return self.fault + (", in code" if self.is_in_code else "")


def environment_of(case, folder, runs, room, options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_WATCH")}
    environment.update(JOB=case.job, AT=str(case.at), OMP_NUM_THREADS="1", MARKER=folder, READY="ready",
                       SHARE=str(case.share))
    environment.pop("PYTHONPATH", None)
    if case.fault in OF_JOB:
        environment["HARM"] = case.fault
    if case.fault == "daemonises" or case.fault.startswith("executes itself"):
        environment["MEETING"] = os.path.join(folder, "meeting")
    if case.what.pause:
        environment.update(PAUSE="0.1")
    if case.is_in_code:
        environment.update(PYTHONPATH=os.path.join(options.prefix, "share/lockstep/python"))
        if runs:
            environment.update(IN_CODE=runs)
    environment.update(room.environment)
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


def is_tracker(process):
    """Whether it is the one of multiprocessing that is no rank."""
    try:
        with open("/proc/%d/cmdline" % process, "rb") as file:
            return b"resource_tracker" in file.read()
    except OSError:
        return True


def wait_for(path, process, limit=60):
    end = time.monotonic() + limit
    while not os.path.exists(path) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def target_of(case, process, folder):
    """The process that gets a signal; None: it is gone."""
    launcher = process.pid
    if not case.is_in_code:
        launcher = (children_of(process.pid) or [None])[0]
    if case.fault.endswith("the watch"):
        return process.pid
    if case.fault.endswith("the launcher") or launcher is None:
        return launcher
    ranks = ranks_of(folder)
    children = [child for child in children_of(launcher) if not is_tracker(child)]
    return ranks.get(case.rank) or (children[case.rank] if len(children) > case.rank else None)


def send_signal(case, process, folder):
    word, whom = case.fault.split()[0], case.fault.split(" to ")[-1]
    number = getattr(signal, "SIG" + word)
    try:
        if whom == "all":  # as a terminal and a batch system do
            os.killpg(process.pid, number)
            return
        target = target_of(case, process, folder)
        if target is None:
            return
        os.kill(target, number)
        if word == "STOP":
            time.sleep(0.5)
            os.kill(target, signal.SIGCONT)
    except OSError:
        pass  # it has ended


def harm_files(case, runs):
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


def disturb(case, process, folder, runs, room):
    """From outside."""
    if not case.what.pause:
        return
    wait_for(os.path.join(folder, "ready"), process)
    time.sleep(case.moment)
    if case.fault in OF_SIGNALS:
        send_signal(case, process, folder)
    elif case.fault in OF_FILES:
        harm_files(case, runs)
    else:
        room.disturb()


class Ended:
    def __init__(self, status, out, err, left):
        self.status, self.out, self.err, self.left = status, out, err, left
        self.losses = sorted(re.findall(r"^LOSS \d+ \S+", out, re.M))


def end_all(folder):
    """Returns how many processes of the job do not end by themselves."""
    end = time.monotonic() + 20  # ranks without their launcher train to their end
    while processes_with(folder) and time.monotonic() < end:
        time.sleep(0.05)
    left = processes_with(folder)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return len(left)


def run(case, is_watched, options, peak_of_twin=0):
    """The job in a folder of its own, watched or not."""
    folder = tempfile.mkdtemp(prefix="harm-")
    runs = os.path.join(folder, "runs")
    prepare(case, folder)
    room = rooms.Room(case, runs, is_watched, peak_of_twin)
    command = command_of(case, folder, options)
    if is_watched and not case.is_in_code:
        command = [options.lockstep, "watch", "--out", runs, "--", *command]
    with open(os.path.join(folder, "out"), "w") as out, open(os.path.join(folder, "err"), "w") as err:
        process = subprocess.Popen(room.prefix + command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env=environment_of(case, folder, runs if is_watched else "", room, options),
                                   start_new_session=True)
        if is_watched:  # a twin is left alone
            disturb(case, process, folder, runs, room)
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            status = "no end"
    status = 128 - status if isinstance(status, int) and status < 0 else status
    left = end_all(folder)
    room.end_of_run()
    texts = []
    for name in ("out", "err"):
        with open(os.path.join(folder, name), errors="replace") as file:
            texts.append(file.read())
    return folder, runs, room, Ended(status, *texts, left)


def faults_of_losses(twin, watched, may_end):
    faults = []
    if twin.losses != watched.losses and not may_end:
        faults.append("losses %s instead of %s" % (watched.losses, twin.losses))
    if may_end and not set(watched.losses) <= set(twin.losses) and len(twin.losses) == 2:
        faults.append("losses %s are not among %s" % (watched.losses, twin.losses))
    if "HARMED" in watched.out:
        faults.append("rows of Lockstep are in files of the job")
    return faults


def faults_of_words(case, watched, said, is_damage):
    faults = ["'%s' was said" % words for words in FALSE_ALARMS
              if words in said and not (is_damage and ("rank-" in words or "changed" in words))]
    # A job that is interrupted in Lockstep's code is told so there, as in its own.
    is_interrupted = case.fault.startswith("INT ") and "KeyboardInterrupt" in watched.err
    # Python lists the frames in which a process is when SEGV comes.
    is_interrupted = is_interrupted or case.fault.startswith("SEGV ")
    if re.search(r'File "[^"]*/(?:python|site-packages)/_?lockstep/', watched.err) and not is_interrupted:
        faults.append("a traceback of Lockstep")
    if "is no longer observed" in watched.err and re.search(r"ranks: (in lockstep|recorded): ", said):
        faults.append("the verdict takes the steps that were observed for all")
    # torch.multiprocessing ends interrupted ranks as those that finished, and in code only they can say it.
    is_silent = case.is_in_code and case.launcher == "spawn" and case.fault.startswith("INT ")
    if len(watched.losses) < 2 and not is_silent and re.search(r"ranks: (in lockstep|recorded): ", said):
        faults.append("the verdict takes a job that was ended for a whole one")
    words = case.what.words
    if case.fault == "KILL to the launcher" and case.launcher == "fork" and len(watched.losses) == 2:
        words = ("still train", "in lockstep", "interrupted after step 12")
    if words and not any(one in said for one in words):
        faults.append("none of %s was said" % (words,))
    return faults


def faults_of_ends(case, twin, watched, report, may_end, is_damage):
    faults = []
    allowed = {twin.status, 2, 3}
    if may_end:  # at a random moment, so perhaps after the end
        allowed |= {0, 1, *(128 + number for number in (1, 2, 9, 11, 15))}
    of_report = {0, 2, 3} if case.fault == "removes the folder" else {0, 1, 2, 3}
    ends_early = case.is_in_code and may_end  # before it calls lockstep.watch()
    if case.fault == "removes the folder" or is_damage or ends_early:
        of_report.add(64)
    if is_damage:
        allowed.add(1)
    if watched.status not in allowed:
        faults.append("status %s instead of %s" % (watched.status, twin.status))
    # A launcher that the system killed leaves ranks, and its twin had no limit.
    if watched.left > twin.left and not case.fault.startswith("cgroup"):
        faults.append("%d processes were left" % watched.left)
    if report.status not in of_report or report.status == 1 and not may_end and not is_damage:
        faults.append("report ended with %s: %s" % (report.status, " ".join(report.err.split())[:300]))
    return faults


def faults_of(case, twin, watched, report):
    """What was not held, in words."""
    if case.what.refused:
        return [] if (watched.status, watched.losses, report.status) == (64, [], 64) else ["it was not refused"]
    may_end = case.what.ends or case.fault == "ulimit -v" and twin.status != 0
    said = " ".join((watched.err + report.out + report.err).split())
    # Evidence that is gone or cut is a fault of the record, which names the file; it is no wrong alarm about ranks.
    is_damage = case.fault in OF_EVIDENCE and case.fault.split()[-1] in said
    return (faults_of_losses(twin, watched, may_end) + faults_of_words(case, watched, said, is_damage) +
            faults_of_ends(case, twin, watched, report, may_end, is_damage))


class Twins:
    """Their results. Jobs to which nothing happens that ends them share one, and so do those to which the same happens
    at different moments."""

    def __init__(self, options):
        self._options, self._results = options, {}
        self._mutex, self._mutexes = threading.Lock(), collections.defaultdict(threading.Lock)

    def of(self, case):
        twin = case if case.what.own_twin else case.without_fault()
        # Only what it does, not when: step and moment change no loss.
        share = case.share if case.fault.startswith("ulimit") else 0
        key = twin.fault, share, case.job, case.launcher, case.is_in_code
        with self._mutex:
            mutex = self._mutexes[key]
        with mutex:
            if key not in self._results:
                folder, _, room, result = run(twin, False, self._options)
                room.close()
                shutil.rmtree(folder, ignore_errors=True)
                result.peak = room.peak
                self._results[key] = result
        return self._results[key]


def report_of(runs, options):
    reported = subprocess.run([options.lockstep, "report", runs], capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)
    return Ended(reported.returncode, reported.stdout, reported.stderr, 0)


class Suite:
    def __init__(self, options):
        self._options, self._twins = options, Twins(options)
        self._mutex = threading.Lock()
        self.counts = collections.Counter()  # by fault, column, and "held", "not held" or the reason of a skip
        self.seen = collections.defaultdict(list)  # sentences, by section
        self._known = sentences.known()

    def hold(self, case):
        reason = rooms.why_not(case.fault)
        if reason:
            self._count(case, "skipped: " + reason)
            return
        twin = self._twins.of(case)
        folder, runs, room, watched = run(case, True, self._options, twin.peak)
        files = os.path.join(runs, "job")
        if os.path.isdir(files) and case.fault == "makes the folder unreadable":
            os.chmod(files, 0o755)
        report = report_of(runs, self._options)
        said = sentences.of_case(watched.err, report)
        faults = faults_of(case, twin, watched, report)
        if not os.environ.get("LOCKSTEP_UPDATE_GOLDENS"):
            faults += sentences.faults_of(said, self._known[case.section()])
        room.close()
        with self._mutex:
            self.seen[case.section()].append(said)
            if faults:
                print("%s:\n  %s" % (case, "\n  ".join(faults)))
                for text in (watched.err, report.out, report.err):
                    print("    | " + "\n    | ".join(text.strip().splitlines()[-14:]))
                if self._options.keep:
                    print("  files: %s" % folder)
                sys.stdout.flush()
        if not (faults and self._options.keep):
            shutil.rmtree(folder, ignore_errors=True)
        self._count(case, "not held" if faults else "held")

    def _count(self, case, result):
        with self._mutex:
            self.counts[case.fault, case.column(), result] += 1


def print_table(counts):
    """In Markdown. Returns whether all cases held."""
    columns = sorted({column for _, column, _ in counts},
                     key=lambda column: (LAUNCHERS.index(column.split(",")[0]), column))
    print("| fault | %s |\n|---|%s" % (" | ".join(columns), "---|" * len(columns)))
    skipped = collections.Counter()
    for fault in FAULTS:
        cells = []
        for column in columns:
            held, failed = (counts[fault, column, result] for result in ("held", "not held"))
            cells.append("%d of %d" % (held, held + failed) if held + failed else "-")
        if set(cells) != {"-"}:
            print("| %s | %s |" % (fault, " | ".join(cells)))
    for (fault, _, result), count in counts.items():
        if result.startswith("skipped"):
            skipped[fault, result] += count
    held, failed = (sum(count for place, count in counts.items() if place[2] == result)
                    for result in ("held", "not held"))
    print("\n%d of %d cases held, %d skipped" % (held, held + failed, sum(skipped.values())))
    for (fault, result), count in skipped.items():
        print("- %s: %d %s" % (fault, count, result))
    return not failed


def read_counts(paths):
    """Their sums."""
    counts = collections.Counter()
    for path in paths:
        with open(path, newline="") as file:
            for fault, column, result, count in csv.reader(file):
                counts[fault, column, result] += int(count)
    return counts


def write_counts(path, counts):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([*place, count] for place, count in counts.items())


def options_of_command():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep", nargs="?")
    parser.add_argument("python", nargs="?")
    parser.add_argument("--cases", type=int, default=len(FAULTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--quick", action="store_true", help="the %d faults of the quick tests" % len(QUICK))
    parser.add_argument("--keep", action="store_true", help="the files of cases that did not hold")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    parser.add_argument("--out", help="the file for the counts")
    parser.add_argument("--table", nargs="+", metavar="COUNTS", help="print the sums of these files, and run nothing")
    options = parser.parse_args()
    if not options.table:
        if options.python is None:
            parser.error("LOCKSTEP and PYTHON are needed")
        options.lockstep, options.python = map(os.path.abspath, (options.lockstep, options.python))
        options.prefix = os.path.dirname(os.path.dirname(options.lockstep))
    return options


def notice_signals():
    """Whoever is started in the background ignores INT, or HUP, and so would the jobs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def main():
    options = options_of_command()
    if options.table:
        sys.exit(0 if print_table(read_counts(options.table)) else 1)
    rooms.enter_namespace()
    notice_signals()
    cases = ([Case(options.seed + i, fault) for i, fault in enumerate(QUICK)] if options.quick else
             [Case(options.seed + i, options.only) for i in range(options.cases)])
    suite = Suite(options)
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(suite.hold, case) for case in cases]:
            done.result()
    rooms.remove_libraries()
    if os.environ.get("LOCKSTEP_UPDATE_GOLDENS"):
        order = list(FAULTS)
        sentences.update(suite.seen, lambda section: (order.index(section.removesuffix(", in code")), section))
    if options.out:
        write_counts(options.out, suite.counts)
    has_held = print_table(suite.counts)
    print("%.1f s per case" % ((time.monotonic() - begin) / len(cases)))
    sys.exit(0 if has_held else 1)


if __name__ == "__main__":
    main()
