#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/exit_status.h"

namespace CLI {
class App;
}

namespace lockstep {

/// A command line for users, without the name of the program.
struct Example {
  std::string_view arguments;
  std::string_view effect;
};

/// A command, as named in `--help`.
struct CommandName {
  std::string_view name;
  std::string_view summary;
  std::array<Example, 2> examples;
};

/// All commands, in the order of `--help`.
inline constexpr std::array<CommandName, 12> kCommands{
    CommandName{
        "list",
        "List the scenarios",
        {{{"list sharding", "the scenarios of a class"},
          {"list 'loss*' --format json", "those whose id begins with 'loss', for a script"}}}},
    {"show",
     "Show everything about one scenario",
     {{{"show loss-on-unwrapped-module", "its origin, axes, claims and variants"},
       {"show loss-on-unwrapped-module/bypass", "one variant and its expectations"}}}},
    {"run",
     "Run scenarios on real ranks, judge and report them",
     {{{"run loss-on-unwrapped-module --ranks 2,3", "all its variants, in two worlds"},
       {"run 'collective*' --out found --format junit", "several scenarios, with a file for CI"}}}},
    {"watch",
     "Run any training job and say whether its ranks stay in lockstep",
     {{{"watch -- torchrun --nproc-per-node 8 train.py", "the job unchanged, and a verdict"},
       {"watch --expect agrees --min-steps 20 -- torchrun --nproc-per-node 2 train.py",
        "for a test of a fix"}}}},
    {"validate",
     "Prove a fix: run the code before and after it, and compare both with a reference",
     {{{"validate main..fix --reference 'python train.py' -- torchrun --nproc-per-node 2 train.py",
        "two commits"},
       {"validate --reference 'python train.py' -- torchrun --nproc-per-node 2 train.py",
        "does the working folder train as the reference does?"}}}},
    {"report",
     "Judge a run's files again and show the report",
     {{{"report runs/latest", "the last run"},
       {"report runs/latest --format markdown", "the same, for a comment on a pull request"}}}},
    {"diff",
     "Compare two watched jobs or checkpoints, whatever their layout: is B right, if A is?",
     {{{"diff one-gpu eight-gpus", "the first step and tensor that differ, and the ratio"},
       {"diff eight-gpus model.safetensors", "a job's last weights, and a checkpoint"}}}},
    {"compare",
     "Compare a published table with a run, to the printed digit",
     {{{"compare opentslm-49-drift runs/latest", "a table that comes with Lockstep"},
       {"compare mine.csv runs/latest", "a table of your own"}}}},
    {"explain",
     "Say what a kind of finding means, its usual causes, and what helps; or a scenario",
     {{{"explain scaled-by-world-size", "one kind, as a report names it; none: all kinds"},
       {"explain loss-on-unwrapped-module", "a scenario: what goes wrong, and what mends it"}}}},
    {"runs",
     "List the runs in a folder, and remove old ones",
     {{{"runs", "those in ./runs, the newest first"},
       {"runs --keep 10 --older-than 30 --dry-run", "what would be removed"}}}},
    {"pack",
     "Pack a run in one file, to attach to an issue",
     {{{"pack runs/latest", "without host, environment and command lines"},
       {"pack runs/latest --redact '^encoder'", "with other names for what matches"}}}},
    {"doctor",
     "Show what is installed and missing, and test whether 'run' works",
     {{{"doctor", "the verdict first"},
       {"doctor --timeout 5", "if a launcher or a driver does not answer"}}}}};

/// An environment variable that some commands read.
struct Variable {
  std::string_view name;
  std::string_view meaning;
  std::string_view commands;  ///< their names, separated by blanks; empty: the build
};

/// Environment variables in `--help`: a command's own, or all without a command.
inline constexpr std::array<Variable, 9> kVariables{
    Variable{"LOCKSTEP_CATALOGUE",
             "the program with the scenarios (default: libexec/lockstep/lockstep-catalogue next to "
             "the folder of this program)",
             "list show run doctor"},
    {"COLUMNS", "the width of the output (default: the terminal's, else 100)",
     "list show run report diff explain"},
    {"GITHUB_STEP_SUMMARY", "with --format github: the file of the job's summary, appended to",
     "run watch report"},
    {"GITHUB_ACTIONS", "with --format github: 'true' prints annotations", "run watch report"},
    {"MASTER_ADDR, MASTER_PORT",
     "the rendezvous of ranks on several machines, if they share no folder", "run"},
    {"CUDA_VISIBLE_DEVICES", "the GPUs that ranks may use", "run doctor"},
    {"LOCKSTEP_MPI", "openmpi or mpich: the MPI of --backend mpi (default: the launcher's)", "run"},
    {"LOCKSTEP_PYTHON", "when Lockstep is built: a Python that has torch", ""},
    {"XDG_CACHE_HOME", "when Lockstep is built: the folder for ci/bootstrap's torch", ""}};

/// For completions: the words that an option ("--format") or positional ("KIND") may be.
using OfferedWords = std::map<std::string, std::vector<std::string>, std::less<>>;

/// A program's implementation of one of `kCommands`.
struct Command {
  std::string_view name;
  /// Adds the options; `run` then reads their values.
  std::function<void(CLI::App&)> add_options;
  std::function<ExitStatus()> run;
  /// Receives the words after `--`, the command line of another program; empty: it starts none.
  std::function<void(std::vector<std::string>)> take_command = {};
  std::function<OfferedWords()> offered = [] { return OfferedWords(); };
};

}  // namespace lockstep
