#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// An error of the environment or the user: thrown at the edge, caught in `main`, where `kind` is
/// the exit status. A violated claim is a `Finding`, not an error.
class Error : public std::runtime_error {
 public:
  enum class Kind { unmet = 1, machine = 2, usage = 64, internal = 70 };

  Error(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// Converts the exception being handled. A system error about a file names that file, a memory
/// error blames the machine, and any other is a defect. Requires: called while an exception is
/// handled.
Error caught_error();

// The sentences. Each states the failure, the value and the remedy; error.cc contains them all.

/// No `what` (scenario, variant, axis, format, ...) is called `given`. Suggests the nearest of
/// `known`, or lists them.
Error unknown_name(std::string_view what, std::string_view given,
                   const std::vector<std::string>& known);

/// `given` is no value for `option`; `wanted` describes one: "a whole number from 1 to 64".
Error bad_value(std::string_view option, std::string_view given, std::string_view wanted);

/// The file at `path` is malformed at `line` and `column` (both from 1; 0: unknown).
Error malformed(std::string_view path, std::int64_t line, std::int64_t column,
                std::string_view expected, std::string_view found);

/// The file at `path` is `what` ("a record") of the version `found` (empty: it says none), but this
/// program reads the version `own`.
Error other_version(std::string_view path, std::string_view what, std::string_view found,
                    std::string_view own);

/// The file or folder at `path` cannot be read; `why` is the system's message.
Error unreadable(std::string_view path, std::string_view why);

/// The file or folder at `path` cannot be written; `why` is the system's message.
Error unwritable(std::string_view path, std::string_view why);

/// A process of a job closed the descriptor of its own file at `path`, which Lockstep writes.
Error closed_by_job(std::string_view path);

/// `--require` asked for `what`: why it is not met, and the remedy. One line of an Error (unmet),
/// which may have several.
std::string unmet_requirement(std::string_view what, std::string_view why, std::string_view remedy);

/// All requirements of `--require` are met, but no cell was run.
Error nothing_ran();

/// `--backend` asked for a backend that this build lacks, and the remedy. Text of an Error (unmet).
std::string backend_not_built(std::string_view backend, std::string_view remedy);

/// The part of Lockstep at `path`, which `command` needs, is not there.
Error missing_part(std::string_view path, std::string_view command);

/// The catalogue program cannot be started from `path`.
Error no_catalogue(std::string_view path, std::string_view why);

/// The catalogue at `path` was built with another version of Lockstep than this program, `own`.
Error other_catalogue(std::string_view path, std::string_view version, std::string_view own);

/// The torch library that the catalogue was linked with is unreadable.
Error unreadable_torch(std::string_view library, std::string_view why, std::string_view release);

/// The torch in `folder` has another `version` than the `release` ("2.11") of the catalogue.
Error other_torch(std::string_view folder, std::string_view version, std::string_view release);

/// Ranks of the MPI backend were not started by an mpirun.
Error no_mpi_launcher();

/// This build has no module for the MPI `name`, whose launcher started the ranks. It has modules
/// for `built`.
Error no_module_for(std::string_view name, const std::vector<std::string>& built);

/// The launcher started `wanted` ranks, but the world of the MPI `name` has `found`. Its own
/// launcher is `launcher`.
Error other_mpi(std::string_view name, std::string_view launcher, int found, int wanted);

/// A launcher set the variable `given` without `missing`.
Error unset_variable(std::string_view missing, std::string_view given);

/// The program named by `--launcher` is missing.
Error no_such_launcher(std::string_view program);

/// The launcher did not start the ranks of a cell. `how`: its exit, "exited with status 1".
/// `last_words`: the end of its output.
Error launcher_started_nothing(std::string_view launcher, std::string_view how,
                               std::string_view last_words);

/// The launcher started worlds of another size than the cell's.
Error launcher_world_differs(std::string_view launcher, int started, int wanted);

/// This process is one rank of a world started by `launcher`, and one rank cannot do the requested
/// work. `wanted` names a valid request.
Error not_for_one_rank(std::string_view launcher, int rank, int world_size,
                       std::string_view wanted);

/// The process of rank 0 did not write the rendezvous address into `folder`.
Error no_place_to_meet(std::string_view folder);

/// The launcher of this process ended first.
Error launcher_is_gone(std::string_view launcher);

/// The `--launcher` program started this program without giving it a rank.
Error launcher_gave_no_rank();

/// The folder of a new run is not empty.
Error not_empty(std::string_view folder);

/// The files of `rank` exist in the folder of its job.
Error rank_observed_before(int rank);

/// No process can be created; `why` is the system's message.
Error no_process(std::string_view why);

/// A foreign signal ended the process that ran a cell, and its ranks; `how` describes its exit.
Error cell_process_ended(std::string_view how);

/// The machine denies a resource to the ranks: its fault, not that of the requested work.
Error machine_fault(std::string_view problem, std::string_view remedy);

/// The program of the command to watch cannot be started; `why`: the system's message.
Error cannot_start(std::string_view program, std::string_view why);

/// A GPU lost values that it was given to measure; `what` says how.
Error gpu_failed(std::string_view what);

/// The rendezvous address and port (0: any) are unavailable.
Error nowhere_to_meet(std::string_view address, int port, std::string_view why);

/// A defect in Lockstep.
Error internal_error(std::string_view what);

}  // namespace lockstep
