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
  enum class Kind { unmet = 1, usage = 64, internal = 70 };

  Error(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

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

/// Ranks that MPI connects were not started by an mpirun.
Error no_mpi_launcher();

/// This build has no module for the MPI called `name`, whose launcher started the ranks; it has
/// those of `built`.
Error no_module_for(std::string_view name, const std::vector<std::string>& built);

/// The launcher started `wanted` ranks, but for the MPI called `name` the world has `found`: its
/// own is `launcher`.
Error other_mpi(std::string_view name, std::string_view launcher, int found, int wanted);

/// Something of ours went wrong: a defect.
Error internal_error(std::string_view what);

/// The one of `known` nearest to `given` by edits; empty when none is near enough to be meant.
std::string nearest_name(std::string_view given, const std::vector<std::string>& known);

}  // namespace lockstep
