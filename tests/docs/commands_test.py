#!/usr/bin/env python3
"""Runs every command of the documents as it is written there.

    commands_test.py [--slow] [--wheel WHEEL] PROGRAM PYTHON

Commands run block by block, each block in a folder of its own with a real train.py and the runs and
checkpoints that documents name. Those of README.md run in its order, in one folder without any run. PYTHON has torch.
A command that is not listed below is run and exits with 0. --slow also runs those that are listed as slow, and starts
ranks by torchrun itself instead of forked_ranks.py, which imports torch once for all of them. --wheel runs README.md
alone, with the program that its `pip install` installs. Sessions with output are run by ci/check-docs, those of README.md
here, too. Commands inside sentences are not run: their options are those that the program, or the script of ci/, has."""

import argparse
import collections
import dataclasses
import importlib.machinery
import importlib.util
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from documented_commands import cmake_files_of, commands_in_sentences, commands_of, without_comment

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
IN_ORDER = "README.md"  # its commands run one after another, as a reader types them
LONGEST = 600  # seconds that a block may take


@dataclasses.dataclass
class Listed:
    """What is particular about a command."""
    status: int = 0      # its exit status
    says: str = ""       # a part of its output
    before: str = ""     # what the reader did before, for a shell
    slow: bool = False   # it takes more than a few seconds
    wheel: bool = False  # it needs the wheel
    cannot: str = ""     # why it is not run at all


FUZZ = Listed(cannot="builds and runs for minutes; fuzz_tests reads the corpus, and the soak runs the rest")
BUILDS = Listed(cannot="builds for minutes; ci/test does it")
MUTANTS = Listed(cannot="builds for minutes; the soak's part `mutants` runs it")
IN_SOAK = Listed(cannot="the soak runs it")
PEERS = Listed(cannot="downloads torch and measures for minutes")
MATRIX = Listed(cannot="downloads torch and builds for many minutes")
EIGHT = Listed(slow=True)
FORKED_RANKS = """#!/bin/sh
[ $# -ge 3 ] && [ "$1" = --nproc-per-node ] || { echo "unknown here: torchrun $*" >&2; exit 64; }
ranks=$2 training=$3
shift 3
exec "%s" "%s/tests/forked_ranks.py" "$training" "$ranks" "$@"
"""
TORCHRUN = "torchrun --nproc-per-node 2 train.py"
OUTSIDE = """rm -r scenarios build CMakeLists.txt && cmake --install "$LOCKSTEP_BUILD" --prefix PREFIX >/dev/null &&
cp -r tests/package/scenarios outside/. . && cp outside/scenarios/CMakeLists.txt scenarios && export CMAKE_GENERATOR=Ninja"""
AS_ROOT = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
HISTORY = """examples/bisect/make_history.sh demo && cd demo && git bisect start main v1 >/dev/null"""
FIXES = """examples/validate/make_repositories.py . inner-module && cd inner-module"""
MPI = AS_ROOT + """ && mkdir bin && cp "$LOCKSTEP_BUILD/bin/libtorch_loop" bin && printf '%s\\n' '#!/bin/sh' \\
'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec bin/libtorch_loop none store' >bin/train &&
printf 'train:\\n\\tcp bin/train train; chmod +x train\\n' >Makefile"""

BYPASS = "lockstep watch -- torchrun --nproc-per-node 2 examples/loss_on_unwrapped_module/train.py"

LISTED = {
    ("README.md", "ci/wheel --build"): Listed(cannot="builds for minutes; the soak's part `wheel` does it"),
    ("README.md", "pip install build/wheel/lockstep_watch-*.whl"): Listed(wheel=True),
    ("README.md", BYPASS): Listed(status=1, says="FAILED: gradients were never synchronised"),
    ("README.md", "lockstep explain gradients-differ"): Listed(says="`model.module(...)`"),
    ("README.md", "lockstep report runs/latest --format html >report.html"): Listed(status=1),  # that of the job
    ("README.md", BYPASS + " --fixed"): Listed(says="in lockstep: 4 of 4 parameters compared"),
    ("README.md", "lockstep validate main..fix --reference 'python train.py' -- torchrun --nproc-per-node 2 train.py"):
        Listed(before=FIXES, says="FIXED: equal up to rounding in 4 steps, 1 to 4", slow=True),
    ("docs/commands.md",
     "lockstep validate main..fix --reference 'python train.py' -- torchrun --nproc-per-node 2 train.py"):
        Listed(before=FIXES, slow=True),
    ("docs/validating.md",
     "lockstep validate main..fix --reference 'python train.py' -- torchrun --nproc-per-node 2 train.py"):
        Listed(before=FIXES, slow=True),
    ("docs/validating.md",
     "lockstep validate main..fix --set ranks=2,4 --set layout=ddp,fsdp2 --reference 'python train.py' "
     "-- torchrun --nproc-per-node {ranks} train.py --layout {layout}"):
        Listed(cannot="its train.py has layouts"),
    ("README.md", "ci/demo"): BUILDS,
    ("README.md", "ci/test"): Listed(cannot="the tests themselves"),
    ("docs/commands.md", "git bisect run lockstep watch --bisect -- torchrun --nproc-per-node 2 train.py"):
        Listed(before=HISTORY, slow=True),
    ("docs/commands.md", "lockstep run loss-on-unwrapped-module --launcher 'mpirun -n {ranks}'"):
        Listed(before=AS_ROOT, slow=True),
    ("docs/commands.md", "torchrun --nnodes 2 --node-rank 0 --master-addr HOST --no-python --nproc-per-node 2 "
                         "lockstep run loss-on-unwrapped-module/bypass --out DIR"): Listed(cannot="needs two machines"),
    ("docs/building.md", "cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build"):
        Listed(before=OUTSIDE, slow=True),
    ("docs/building.md", "build/scenarios/my-bugs run --ranks 2"): Listed(slow=True),
    ("CONTRIBUTING.md", "ci/build release lockstep"): BUILDS,
    ("CONTRIBUTING.md", "build/release/bin/lockstep run my-fault --ranks 2,3,4"): Listed(cannot="needs that build"),
    ("CONTRIBUTING.md", "ci/build release scenario_tests"): BUILDS,
    ("CONTRIBUTING.md", "build/release/bin/scenario_tests --gtest_filter='*my_fault*'"):
        Listed(cannot="needs that build"),
    ("CONTRIBUTING.md", "ci/test"): Listed(cannot="the tests themselves"),
    ("CONTRIBUTING.md", "ci/test --soak list"): BUILDS,
    ("CONTRIBUTING.md", "ci/mutants"): MUTANTS,
    ("CONTRIBUTING.md", "ci/test --soak random 60"): Listed(cannot="a part of the soak, of many minutes"),
    ("CONTRIBUTING.md", "ci/wheel"): IN_SOAK,
    ("CONTRIBUTING.md", "ci/wheel catalogue"): IN_SOAK,
    ("CONTRIBUTING.md", "ci/neon"): IN_SOAK,
    ("CONTRIBUTING.md", "ci/gpu"): Listed(cannot="needs a GPU"),
    ("docs/performance.md", "ci/gpu"): Listed(cannot="needs a GPU"),
    ("CONTRIBUTING.md", "ci/torch-matrix"): MATRIX,
    ("CONTRIBUTING.md", "cmake --workflow --preset dev"): BUILDS,
    ("CONTRIBUTING.md", "cmake --workflow --preset asan"): BUILDS,
    ("CONTRIBUTING.md", "cmake --workflow --preset tsan"): BUILDS,
    ("CONTRIBUTING.md", "ctest --preset release -R package"): Listed(cannot="tests of ci/test"),
    ("CONTRIBUTING.md", "build/release/bin/torch_tests --forked --gtest_filter='*Zero*'"): Listed(slow=True),
    ("CONTRIBUTING.md", "ci/lint"): Listed(cannot="runs clang-tidy for minutes; lint.sources_are_formatted runs the rest"),
    ("docs/architecture.md", "ci/bootstrap fuzz"): FUZZ,
    ("docs/architecture.md", "ci/fuzz"): FUZZ,
    ("docs/architecture.md", "ci/mutants"): MUTANTS,
    ("docs/architecture.md", "ci/mutants --paths harness/diff --number 50"): MUTANTS,
    ("docs/architecture.md", "ci/mutants --only 5f01c2aa"): MUTANTS,
    ("docs/architecture.md", "ci/fuzz journal 1000000"): FUZZ,
    ("CONTRIBUTING.md", "ci/check-docs"): Listed(cannot="docs.quote_the_program runs it"),
    ("docs/ci.md", "python3 ci/github/comment.py run/report.md --key my-report"):
        Listed(cannot="writes to GitHub; ci.github_action runs it against a server of its own"),
    ("docs/ci.md", "lockstep watch --format github,markdown,summary --out run -- %s" % TORCHRUN): Listed(slow=True),
    ("docs/ci.md", "#!/usr/bin/env bash make -j || exit 125 exec lockstep watch --bisect -- mpirun -n 2 ./train"):
        Listed(before=MPI, slow=True),
    ("docs/ci.md", "git bisect run lockstep watch --bisect -- torchrun --nproc-per-node 2 train.py"):
        Listed(says="reduce matrices only", slow=True),
    ("docs/detection.md", "tests/trial/blind_trial.py build/release/bin/lockstep --cells 300 --seed 1"): Listed(slow=True),
    ("docs/trust.md", "tests/watch/planted_causes.sh build/release/bin/lockstep . mistakes"): IN_SOAK,
    ("docs/trust.md", "tests/watch/planted_causes.sh build/release/bin/lockstep . healthy 100 0"): IN_SOAK,
    ("docs/comparing.md", "lockstep watch --data --out one -- python train.py"): Listed(slow=True),
    ("docs/comparing.md", "lockstep watch --data --out eight -- torchrun --nproc-per-node 8 train.py"): EIGHT,
    ("docs/comparing.md", "lockstep diff reference/w2 divided-twice/w2"): Listed(status=1),
    ("docs/comparing.md", "lockstep watch --data --out runs/straight -- torchrun --nproc-per-node 2 train.py"):
        Listed(cannot="its train.py has checkpoints; tests/layouts resumes trainings"),
    ("docs/comparing.md",
     "lockstep watch --data --out runs/resumed -- torchrun --nproc-per-node 2 train.py --resume step-100.pt"):
        Listed(cannot="its train.py has checkpoints; tests/layouts resumes trainings"),
    ("docs/comparing.md", "lockstep diff --align A=101,B=1 runs/straight runs/resumed"):
        Listed(cannot="needs those runs"),
    ("docs/detection.md", "tests/others/catalogue_table.py --write build/release/bin/lockstep PYTHON"):
        Listed(cannot="runs for minutes"),
    ("docs/faq.md", "lockstep run loss-on-unwrapped-module --launcher 'mpirun -n {ranks}'"): Listed(slow=True),
    ("docs/faq.md", "xargs -d '\\n' rm <build/release/install_manifest.txt"): Listed(
        before="rm build/release && mkdir build/release && touch a && echo $PWD/a >build/release/install_manifest.txt"),
    ("docs/others.md", "tests/others/table.py --write build/release/bin/lockstep PYTHON"):
        Listed(cannot="runs for 20 minutes"),
    ("docs/performance.md", "ci/build release fingerprint_bench"): BUILDS,
    ("docs/performance.md", "python3 tests/bench/performance_table.py build/release/bin/fingerprint_bench"):
        Listed(cannot="measures for minutes"),
    ("docs/performance.md", "PYTHONPATH=harness/watch/python/start "
     "LOCKSTEP_WATCH_LIBRARY=build/release/lib/lockstep/liblockstep_watch.so LOCKSTEP_WATCH_FOLDER=$(mktemp -d) "
     "LOCKSTEP_WATCH_JOB=bench OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 tests/bench/watch_overhead.py"):
        Listed(cannot="measures for minutes"),
    ("docs/performance.md", "torchrun --standalone --nproc-per-node 2 tests/bench/peer_training.py"):
        Listed(slow=True),
    ("docs/performance.md", "build/release/bin/lockstep watch --out $(mktemp -du) -- "
     "torchrun --standalone --nproc-per-node 2 tests/bench/peer_training.py"): Listed(slow=True),
    ("docs/performance.md", "build/release/bin/lockstep watch --out $(mktemp -du) --data -- python3 "
     "tests/bench/cost_of_samples.py tokens 120"): Listed(slow=True),
    ("docs/performance.md", "LD_LIBRARY_PATH=build/release/standin tests/bench/thread_of_gpu.py "
     "build/release/lib/lockstep/liblockstep_watch.so"): Listed(slow=True),
    ("docs/performance.md", "ci/build release"): BUILDS,
    ("docs/performance.md", "TMPDIR=/dev/shm build/release/bin/linear_tests --gtest_output=xml:slopes.xml"):
        Listed(cannot="linear_tests runs in ci/test by itself, and shared memory is watched by other tests"),
    ("docs/performance.md", "cmake --preset release -B build/plain -D LOCKSTEP_HARDENING=OFF"): BUILDS,
    ("docs/performance.md", "cmake --build build/plain --target lockstep fingerprint_bench"): BUILDS,
    ("docs/performance.md",
     "BENCH_MIB=64 build/plain/bin/fingerprint_bench --benchmark_filter='digest|everything'"): BUILDS,
    ("docs/performance.md", "python3 -m venv peers"): PEERS,
    ("docs/performance.md",
     "peers/bin/pip install torch==2.11.0 traincheck==0.2.0 mindstudio-probe==26.2.0"): PEERS,
    ("docs/performance.md",
     "BENCH_STEPS=12 peers/bin/python tests/bench/peers.py build/release --repetitions 2"): PEERS,
    ("docs/reading-a-report.md", "lockstep watch --known known.txt -- %s" % TORCHRUN): Listed(slow=True),
    ("docs/trust.md",
     "python3 tests/harm/do_no_harm.py build/release/bin/lockstep PYTHON --cases 500 --jobs 2 --out counts.csv"):
        Listed(cannot="runs for half an hour; watch.does_no_harm runs eight of them"),
    ("docs/trust.md", "python3 tests/harm/do_no_harm.py --table counts.csv"): Listed(cannot="needs the counts"),
    ("docs/watching.md", "lockstep watch -- torchrun --nproc-per-node 8 train.py"): EIGHT,
    ("docs/watching.md", "lockstep watch --out runs/job7 --node $(hostname) -- torchrun --nnodes 2 ... train.py"):
        Listed(cannot="needs two machines"),
    ("docs/wheel.md", "pip install lockstep_watch-0.1.0-py3-none-manylinux_2_28_x86_64.whl"):
        Listed(cannot="needs the wheel; the soak's part `wheel` builds and installs it"),
    ("docs/wheel.md", "lockstep watch -- torchrun --nproc-per-node 8 train.py"): EIGHT,
    ("docs/wheel.md", "cpack -G DEB -B build/deb --config build/release/CPackConfig.cmake"): Listed(slow=True),
    ("docs/wheel.md", "sudo apt-get install ./build/deb/lockstep_0.1.0_amd64.deb"):
        Listed(cannot="installs on this machine; soak.debian_packages unpacks the package"),
    ("docs/wheel.md", "pip install --find-links build/wheel 'lockstep-watch[catalogue]' 'torch==2.11.*'"): IN_SOAK,
    ("docs/wheel.md", "lockstep run 'loss*' --ranks 2"): Listed(slow=True),
    ("docs/wheel.md", "ci/wheel"): IN_SOAK,
    ("docs/wheel.md", "ci/wheel catalogue"): IN_SOAK,
    ("docs/references.md",
     "lockstep validate --reference 'python with_torch.py' -- torchrun --nproc-per-node 2 with_torch.py"):
        Listed(before="cp examples/validate/references/with_torch.py .", slow=True),
    **{("docs/references.md", "lockstep validate --reference 'python with_%s.py' -- torchrun --nproc-per-node 2 "
        "with_%s.py" % (name, name)): Listed(cannot="needs %s; the soak runs it" % name)
       for name in ("accelerate", "transformers", "lightning")},
    ("docs/torch-releases.md", "ci/torch-matrix"): MATRIX,
    ("docs/torch-releases.md", "ci/torch-matrix 2.6.0 2.12.0"): MATRIX,
}


# Of files: no commands.
FIRST_LINES = ("lockstep step index 1", "lockstep sketches 3")


def load_check_docs():
    loader = importlib.machinery.SourceFileLoader("check_docs", str(ROOT / "ci/check-docs"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_docs", loader))
    loader.exec_module(module)
    return module


class Workplace:
    """Folders with all that commands name."""

    def __init__(self, folder, program, python, has_torchrun, wheel=None):
        self._build = program.parent.parent
        home = folder / "home"
        (home / ".cache/lockstep").mkdir(parents=True)
        instead = folder / "instead"  # of programs on PATH
        instead.mkdir()
        if not has_torchrun:
            (instead / "torchrun").write_text(FORKED_RANKS % (python, ROOT))
            (instead / "torchrun").chmod(0o755)
        environment = dict(
            os.environ, NO_COLOR="1", COLUMNS="100", OMP_NUM_THREADS="1", HOME=str(home), LOCKSTEP_PYTHON=str(python),
            LOCKSTEP_BUILD=str(self._build), GIT_CONFIG_NOSYSTEM="1", PET_STANDALONE="1",  # torchrun has a free port
            PATH="%s:%s:%s:%s" % (instead, program.parent, python.parent, os.environ["PATH"]))
        for name in ("LOCKSTEP_CATALOGUE", "PYTHONPATH"):
            environment.pop(name, None)
        self.adopt(folder, environment)
        self._fill_clean()
        if wheel:
            self._take_wheel(wheel, python)
        else:
            self._fill_base()

    def adopt(self, folder, environment):
        self._folder, self._environment = folder, environment
        self._base, self._clean = folder / "base", folder / "clean"
        self._base.mkdir()
        self._clean.mkdir()

    def _fill_clean(self):
        """As after the build of a fresh checkout, with a train.py of the reader's own."""
        for path in ROOT.iterdir():
            if path.name not in ("build", "scenarios", "runs") and not path.name.startswith("."):
                (self._clean / path.name).symlink_to(path)
        shutil.copytree(ROOT / "scenarios", self._clean / "scenarios")
        (self._clean / "build").mkdir()
        (self._clean / "build/release").symlink_to(self._build)
        shutil.copy(ROOT / "tests/docs/train.py", self._clean)

    def _take_wheel(self, wheel, python):
        """Where pip would find it, and an environment with nothing but torch in place of the build's program."""
        (self._clean / "build/wheel").mkdir()
        shutil.copy(wheel, self._clean / "build/wheel")
        environment = self._folder / "environment"
        subprocess.run([python, "-m", "venv", environment], check=True)
        paths = [subprocess.run([one, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True,
                                stdout=subprocess.PIPE, check=True).stdout.strip()
                 for one in (python, environment / "bin/python")]
        pathlib.Path(paths[1], "torch.pth").write_text(paths[0] + "\n")
        self._environment["PATH"] = ":".join([str(environment / "bin"), *(
            path for path in self._environment["PATH"].split(":") if path != str(self._build / "bin"))])

    def _fill_base(self):
        shutil.copytree(self._clean, self._base, symlinks=True, dirs_exist_ok=True)
        for name, text in cmake_files_of((ROOT / "docs/building.md").read_text()).items():
            (self._base / "outside" / name).parent.mkdir(parents=True, exist_ok=True)
            (self._base / "outside" / name).write_text(text)
        status, output = self._shell(self._base, """set -e
            export TRAIN_SAVES=.
            lockstep watch --data --out one -- python train.py
            mv one.dcp before.dcp && cp -r before.dcp one.dcp && cp -r before.dcp after-resharding.dcp
            mv model.safetensors step-100.safetensors
            lockstep watch --data --out eight -- torchrun --nproc-per-node 2 train.py
            rm -r one.dcp && cp -r before.dcp one.dcp
            mkdir runs && cp -r eight runs/good && cp -r eight runs/cpu && cp -r eight runs/gpu && cp -r eight runs/job7
            cp -r one one-gpu && cp -r eight eight-gpus && cp -r eight DIR && cp -r eight runs/one
            ln -s good runs/latest""")
        if status:
            raise RuntimeError("the runs of the documents could not be made:\n" + output)

    def _shell(self, folder, script):
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=self._environment, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=LONGEST)
        return done.returncode, done.stdout

    def run_block(self, number, commands, is_clean=False):
        """Runs commands (text, what comes before) in one shell. Returns status, output and seconds of each."""
        folder = self._folder / ("block %d" % number)  # with a blank, as folders of users have
        shutil.copytree(self._clean if is_clean else self._base, folder, symlinks=True)
        script = ""
        for place, (text, before) in enumerate(commands):
            here = folder.parent / ("said %d %d" % (number, place))
            (folder.parent / ("%s.sh" % here.name)).write_text(text + "\n")
            here.write_text("")
            begin = "source" if not text.startswith("#!") else "bash"
            for out in made_by(text):
                script += "rm -rf %s\n" % out
            run = "%s '%s.sh' >'%s' 2>&1" % (begin, here, here)
            script += "t=$EPOCHREALTIME\n%s\n" % ("(%s && %s)" % (before, run) if before else run)
            script += "echo $? $t $EPOCHREALTIME >'%s.end'\n" % here
        _, output = self._shell(folder, script)
        ends = []
        for place in range(len(commands)):
            here = folder.parent / ("said %d %d" % (number, place))
            status, begin, end = pathlib.Path("%s.end" % here).read_text().split()
            ends.append((int(status), output + here.read_text(errors="replace"), float(end) - float(begin)))
        shutil.rmtree(folder)
        return ends


def made_by(text):
    """The folders that a command makes, which must not exist before."""
    words = text.split()
    return [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--out" and words[0] == "lockstep"]


def sorted_out(commands, sessions, runs_slow, has_wheel=False):
    """Commands to run by block, the numbers of those that are not, and faults of the list."""
    blocks, counts, faults, used = collections.OrderedDict(), collections.Counter(), [], set()
    for command in commands:
        key = (command.page, without_comment(command.text))
        listed = LISTED.get(key, Listed())
        used.add(key)
        if (command.page, command.line) in sessions and command.page != IN_ORDER:
            counts["by ci/check-docs"] += 1
        elif listed.cannot:
            counts["not run"] += 1
            print("not run: %s:%d: %s: %s" % (command.page, command.line, key[1], listed.cannot))
        elif (listed.slow and not runs_slow) or (listed.wheel and not has_wheel):
            counts["in the soak"] += 1
        else:
            counts["here"] += 1
            block = (command.page, None if command.page == IN_ORDER else command.block)
            blocks.setdefault(block, []).append((command, listed))
    for page, text in sorted(set(LISTED) - used):
        faults.append("%s no longer has the command that is listed in tests/docs/commands_test.py: %s" % (page, text))
    return blocks, counts, faults


@functools.cache
def options_of(program, command):
    """The options of a command of the program, "" for its own; none at all if it has no such command."""
    done = subprocess.run([program, *command.split(), "--help"], text=True, stdout=subprocess.PIPE)
    return set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", done.stdout, re.MULTILINE))


def fault_of_sentence(program, text):
    """Why a sentence may not name this command; "" if it may."""
    words = text.removeprefix("lockstep ").split(" -- ")[0].split()
    named = {option for word in words for option in re.findall(r"^\[?(--[a-z][\w-]*)", word)}
    if words[0].startswith("ci/"):
        path = ROOT / words[0]
        known = path.exists() and {option for option in named if option in path.read_text()} | {""}
    elif text in FIRST_LINES:
        return ""
    else:
        known = options_of(program, "" if words[0].startswith("-") else words[0])
    if not known:
        return "there is no %s" % words[0]
    return "" if named <= known else "%s has no %s" % (words[0], ", ".join(sorted(named - known)))


def faults_of_sentences(program, commands):
    for command in commands:
        fault = fault_of_sentence(program, command.text)
        if fault:
            yield "%s:%d: `%s`: %s" % (command.page, command.line, command.text, fault)


def check_block(workplace, number, block):
    ends = workplace.run_block(number, [(command.text, listed.before) for command, listed in block],
                               is_clean=block[0][0].page == IN_ORDER)
    for (command, listed), (status, output, seconds) in zip(block, ends):
        name = "%s:%d: %s" % (command.page, command.line, without_comment(command.text))
        print("%5.1f s  %s" % (seconds, name), flush=True)
        if status != listed.status:
            yield "%s: exit status %d, not %d:\n%s" % (name, status, listed.status, output)
        elif listed.says not in output:
            yield "%s: does not say '%s':\n%s" % (name, listed.says, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("python", type=pathlib.Path)
    options = parser.parse_args()
    check_docs = load_check_docs()
    pages = {page: (ROOT / page).read_text() for page in [*check_docs.DOCUMENTS, "CHANGELOG.md"]}
    commands = [command for page, text in pages.items() for command in commands_of(page, text)]
    sessions = {(page, text.count("\n", 0, session.start("command")) + 1)
                for page, text in pages.items() for session in check_docs.SESSION.finditer(text)}
    blocks, counts, faults = sorted_out(commands, sessions, options.slow, options.wheel is not None)
    if options.wheel:
        blocks = {block: content for block, content in blocks.items() if block[0] == IN_ORDER}
    named = [command for page, text in pages.items() for command in commands_in_sentences(page, text)]
    faults += faults_of_sentences(options.program, named)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        workplace = Workplace(pathlib.Path(folder), options.program.absolute(), options.python.absolute(),
                              has_torchrun=options.slow, wheel=options.wheel)
        print("%5.1f s  the runs that documents name" % (time.monotonic() - began))
        for number, block in enumerate(blocks.values()):
            for fault in check_block(workplace, number, block):
                print("FAILED", flush=True)
                faults.append(fault)
    print("%d commands: %s" % (len(commands), ", ".join("%d %s" % (n, what) for what, n in sorted(counts.items()))))
    print("%d commands inside sentences" % len(named))
    for fault in faults:
        print("FAILED: " + fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
