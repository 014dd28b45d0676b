#pragma once

#include <array>
#include <string>
#include <string_view>

#include "reports/base/error.h"

namespace lockstep {

/// Exit status of every command.
enum class ExitStatus {
  as_expected = 0,
  failed = 1,
  undecided = 2,
  not_applicable = 3,
  usage = 64,
  defect = 70,
  interrupted = 130,
  terminated = 143
};

struct ExitMeaning {
  ExitStatus status;
  std::string_view meaning;  ///< with 'commands' in quotes
};

/// Shown by `--help` and the README.
inline constexpr std::array<ExitMeaning, 8> kExitMeanings{
    ExitMeaning{ExitStatus::as_expected,
                "everything as expected; 'doctor': 'run' can work here, or no "
                "catalogue is installed"},
    {ExitStatus::failed,
     "a finding that was not expected, an expected one that is missing, a published value that is "
     "not met, or a requirement that is not there"},
    {ExitStatus::undecided,
     "could not be decided: nothing was observed, a difference is too small to call, or the "
     "machine failed (its memory ran out, say)"},
    {ExitStatus::not_applicable, "nothing applicable: no cell was run, no value compared"},
    {ExitStatus::usage,
     "wrong arguments, missing or malformed input, a place that cannot be "
     "written"},
    {ExitStatus::defect, "a defect of Lockstep"},
    {ExitStatus::interrupted, "interrupted (SIGINT), whatever was found until then"},
    {ExitStatus::terminated, "terminated (SIGTERM), whatever was found until then"}};

/// From worst to best: of several, the first of these counts.
inline constexpr std::array<ExitStatus, 8> kFromWorst{
    ExitStatus::terminated,     ExitStatus::interrupted, ExitStatus::defect,
    ExitStatus::usage,          ExitStatus::failed,      ExitStatus::undecided,
    ExitStatus::not_applicable, ExitStatus::as_expected};

/// Exit status of a command that ends with an error of this kind.
ExitStatus exit_status(Error::Kind kind);

/// The worse of two, by `kFromWorst`.
ExitStatus worse(ExitStatus a, ExitStatus b);

/// Both tables for a terminal.
std::string exit_statuses_as_text();

/// Both tables in Markdown.
std::string exit_statuses_as_markdown();

}  // namespace lockstep
