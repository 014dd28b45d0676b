#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A wrong world or a wrong user: thrown at the edge, caught in `main`, where `kind` is the exit
/// status. A claim that does not hold is no error, it is a `Finding`.
class Error : public std::runtime_error {
 public:
  enum class Kind { unmet = 1, machine = 2, usage = 64, internal = 70 };

  Error(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// What is being caught, as an Error: one of the system about a file is about that file, one of
/// memory about the machine, and any other is a defect. Requires: called while an exception is
/// handled.
Error caught_error();

// The sentences. Each says what failed, with which value, and what to do; error.cc holds them all.

/// No `what` (scenario, variant, axis, format, ...) is called `given`; offers the nearest of
/// `known`, else lists them.
Error unknown_name(std::string_view what, std::string_view given,
                   const std::vector<std::string>& known);

/// `given` is no value for `option`; `wanted` says what is: "a whole number from 1 to 64".
Error bad_value(std::string_view option, std::string_view given, std::string_view wanted);

/// The file at `path` is not what it should be at `line` and `column` (both count from 1; 0: not
/// known).
Error malformed(std::string_view path, std::int64_t line, std::int64_t column,
                std::string_view expected, std::string_view found);

/// The file or folder at `path` cannot be read; `why` in the system's words.
Error unreadable(std::string_view path, std::string_view why);

/// The file or folder at `path` cannot be written; `why` in the system's words.
Error unwritable(std::string_view path, std::string_view why);

/// Says that `--require` asked for `what`, why it is not met, and what helps. One line of an Error
/// (unmet), which may have several.
std::string unmet_requirement(std::string_view what, std::string_view why, std::string_view remedy);

/// All that `--require` asked for is there, but no cell was run.
Error nothing_ran();

/// `--backend` asked for what this build does not have, and what helps. Text of an Error (unmet).
std::string backend_not_built(std::string_view backend, std::string_view remedy);

/// The program with the scenarios cannot be started from `path`.
Error no_catalogue(std::string_view path, std::string_view why);

/// The one at `path` was built with another version of Lockstep than this program, `own`.
Error other_catalogue(std::string_view path, std::string_view version, std::string_view own);

/// The library of torch that the catalogue was linked with.
Error unreadable_torch(std::string_view library, std::string_view why);

/// Ranks that MPI connects were not started by an mpirun.
Error no_mpi_launcher();

/// This build has no module for the MPI called `name`, whose launcher started the ranks; it has
/// those of `built`.
Error no_module_for(std::string_view name, const std::vector<std::string>& built);

/// The launcher started `wanted` ranks, but for the MPI called `name` the world has `found`: its
/// own is `launcher`.
Error other_mpi(std::string_view name, std::string_view launcher, int found, int wanted);

/// A launcher set the variable `given`, and `missing` is not set beside it.
Error unset_variable(std::string_view missing, std::string_view given);

/// The program that `--launcher` names is not there.
Error no_such_launcher(std::string_view program);

/// The launcher did not start the ranks of a cell; `how` it ended, "exited with status 1", and its
/// last words.
Error launcher_started_nothing(std::string_view launcher, std::string_view how,
                               std::string_view last_words);

/// The launcher started worlds of another size than the cell has.
Error launcher_world_differs(std::string_view launcher, int started, int wanted);

/// This process is one rank of a world, started by `launcher`, and was asked for something that one
/// rank cannot do; `wanted` says what to ask for.
Error not_for_one_rank(std::string_view launcher, int rank, int world_size,
                       std::string_view wanted);

/// The process of rank 0 did not say in `folder` where ranks meet.
Error no_place_to_meet(std::string_view folder);

/// The launcher of this process ended before it did.
Error launcher_is_gone(std::string_view launcher);

/// A launcher that `--launcher` named started this program without telling it its rank.
Error launcher_gave_no_rank();

/// The folder of a new run holds something.
Error not_empty(std::string_view folder);

/// No process can be made; `why` in the system's words.
Error no_process(std::string_view why);

/// The process that ran a cell, and its ranks, was ended by somebody else: `how` it ended.
Error cell_process_ended(std::string_view how);

/// The machine does not give ranks what they need: its fault, not that of what was to be run.
Error machine_fault(std::string_view problem, std::string_view remedy);

/// The address and port (0: any) at which ranks are to meet cannot be had.
Error nowhere_to_meet(std::string_view address, int port, std::string_view why);

/// Something of ours went wrong: a defect.
Error internal_error(std::string_view what);

/// The one of `known` that `given` is nearest to by edits, or begins; empty: none can be meant.
std::string nearest_name(std::string_view given, const std::vector<std::string>& known);

}  // namespace lockstep
