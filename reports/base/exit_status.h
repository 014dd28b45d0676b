#pragma once

#include <array>
#include <cstddef>
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

/// The table of `lockstep --help` and docs/commands.md.
inline constexpr std::array<ExitMeaning, 8> kExitMeanings{
    ExitMeaning{ExitStatus::as_expected,
                "everything as expected; 'doctor': 'run' can work here, or no "
                "catalogue is installed"},
    {ExitStatus::failed,
     "a finding that was not expected, an expected one that is missing, a published value that is "
     "not met, or an unmet requirement"},
    {ExitStatus::undecided,
     "could not be decided: nothing was observed, a difference is too small to call, or the "
     "machine failed (out of memory, for example)"},
    {ExitStatus::not_applicable, "nothing applicable: no cell was run, no value compared"},
    {ExitStatus::usage,
     "wrong arguments, missing or malformed input, a place that cannot be "
     "written"},
    {ExitStatus::defect, "a defect of Lockstep"},
    {ExitStatus::interrupted, "interrupted (SIGINT), regardless of the findings"},
    {ExitStatus::terminated, "terminated (SIGTERM, SIGHUP), regardless of the findings"}};

/// One way in which a command ends.
struct CommandExit {
  std::string_view command;
  ExitStatus status;
  std::string_view meaning;  ///< with 'commands' in quotes
};

/// The table in the `--help` of each command.
inline constexpr std::array<CommandExit, 64> kCommandExits{
    CommandExit{"list", ExitStatus::as_expected, "the scenarios are listed"},
    {"list", ExitStatus::failed, "the catalogue cannot be started"},
    {"list", ExitStatus::usage, "wrong arguments, or a filter that no scenario matches"},
    {"list", ExitStatus::defect, "a defect of Lockstep"},
    {"show", ExitStatus::as_expected, "the scenario is shown"},
    {"show", ExitStatus::failed, "the catalogue cannot be started"},
    {"show", ExitStatus::usage, "wrong arguments, or no scenario or variant of that name"},
    {"show", ExitStatus::defect, "a defect of Lockstep"},
    {"run", ExitStatus::as_expected, "everything as expected"},
    {"run", ExitStatus::failed,
     "a finding that was not expected, an expected one that is missing, or an unmet requirement"},
    {"run", ExitStatus::undecided,
     "could not be decided: nothing was observed, a difference is too small to call, or the "
     "machine failed (out of memory, for example)"},
    {"run", ExitStatus::not_applicable, "no cell was run"},
    {"run", ExitStatus::usage, "wrong arguments, or a place that cannot be written"},
    {"run", ExitStatus::defect, "a defect of Lockstep"},
    {"run", ExitStatus::interrupted, "interrupted (SIGINT), regardless of the findings"},
    {"run", ExitStatus::terminated, "terminated (SIGTERM, SIGHUP), regardless of the findings"},
    {"watch", ExitStatus::as_expected,
     "the ranks stayed in lockstep, the job only recorded, or it was as '--expect' says; with "
     "'--node' also if those of this machine did"},
    {"watch", ExitStatus::failed,
     "the ranks differed, parameters became not finite, or the job was not as '--expect' says; "
     "also "
     "the job's own status, like any other but 0, without '--expect'"},
    {"watch", ExitStatus::undecided,
     "could not be decided; with '--expect' also a job that failed for another reason"},
    {"watch", ExitStatus::not_applicable, "nothing could be compared between ranks"},
    {"watch", ExitStatus::usage, "wrong arguments, or a job that cannot be started"},
    {"watch", ExitStatus::defect, "a defect of Lockstep"},
    {"watch", ExitStatus::interrupted,
     "interrupted (SIGINT) with '--expect'; without it, the job's own status"},
    {"watch", ExitStatus::terminated, "the same of SIGTERM and SIGHUP"},
    {"validate", ExitStatus::as_expected, "FIXED; of one state: it trains as the reference does"},
    {"validate", ExitStatus::failed,
     "STILL THERE, NEW or NOT SHOWN; of one state: it does not train as the reference does"},
    {"validate", ExitStatus::undecided, "NOT DECIDED or REFUSED"},
    {"validate", ExitStatus::not_applicable, "no parameter has the same name on both sides"},
    {"validate", ExitStatus::usage,
     "wrong arguments, a state that cannot be made, or a job that cannot be started"},
    {"validate", ExitStatus::defect, "a defect of Lockstep"},
    {"validate", ExitStatus::interrupted, "interrupted (SIGINT), regardless of the findings"},
    {"validate", ExitStatus::terminated,
     "terminated (SIGTERM, SIGHUP), regardless of the findings"},
    {"report", ExitStatus::as_expected, "everything as expected"},
    {"report", ExitStatus::failed,
     "a finding that was not expected, or an expected one that is missing"},
    {"report", ExitStatus::undecided,
     "could not be decided: nothing was observed, a difference is too small to call, or memory ran "
     "out"},
    {"report", ExitStatus::not_applicable, "no cell was run"},
    {"report", ExitStatus::usage, "wrong arguments, or a folder or file without a valid run"},
    {"report", ExitStatus::defect, "a defect of Lockstep"},
    {"diff", ExitStatus::as_expected, "B is equal to A up to rounding, or as '--expect' says"},
    {"diff", ExitStatus::failed, "B differs from A, or is not as '--expect' says"},
    {"diff", ExitStatus::undecided,
     "could not be decided: the runs began with other weights or saw other samples, or rounding "
     "could be as large as a fault, or checkpoints may be of trainings that drifted apart"},
    {"diff", ExitStatus::not_applicable, "no parameter has the same name on both sides"},
    {"diff", ExitStatus::usage, "wrong arguments, or a run or checkpoint that cannot be read"},
    {"diff", ExitStatus::defect, "a defect of Lockstep"},
    {"compare", ExitStatus::as_expected, "every published value is met"},
    {"compare", ExitStatus::failed, "a published value is not met, or not in the run"},
    {"compare", ExitStatus::undecided, "memory ran out"},
    {"compare", ExitStatus::not_applicable, "the table has no value to compare"},
    {"compare", ExitStatus::usage, "wrong arguments, or a table or run that cannot be read"},
    {"compare", ExitStatus::defect, "a defect of Lockstep"},
    {"explain", ExitStatus::as_expected, "the kind is explained"},
    {"explain", ExitStatus::usage, "wrong arguments, or no kind of that name"},
    {"explain", ExitStatus::defect, "a defect of Lockstep"},
    {"runs", ExitStatus::as_expected, "the runs are listed, or removed"},
    {"runs", ExitStatus::usage,
     "wrong arguments, a folder that cannot be read, or a run that cannot be removed"},
    {"runs", ExitStatus::defect, "a defect of Lockstep"},
    {"pack", ExitStatus::as_expected, "the pack is written"},
    {"pack", ExitStatus::undecided, "memory ran out"},
    {"pack", ExitStatus::usage,
     "wrong arguments, a run that cannot be read or still runs, or a file that exists or cannot be "
     "written"},
    {"pack", ExitStatus::defect, "a defect of Lockstep"},
    {"doctor", ExitStatus::as_expected, "'run' can work here, or no catalogue is installed"},
    {"doctor", ExitStatus::failed, "'run' cannot work here"},
    {"doctor", ExitStatus::usage, "wrong arguments"},
    {"doctor", ExitStatus::defect, "a defect of Lockstep"}};

/// Of several, the first of these counts.
inline constexpr std::array<ExitStatus, 8> kFromWorst{
    ExitStatus::terminated,     ExitStatus::interrupted, ExitStatus::defect,
    ExitStatus::usage,          ExitStatus::failed,      ExitStatus::undecided,
    ExitStatus::not_applicable, ExitStatus::as_expected};

/// Exit status of a command that ends with an error of this kind.
ExitStatus exit_status(Error::Kind kind);

/// Exit status of a command that the user ends by this signal.
ExitStatus exit_status_of_signal(int signal);

/// The worse of two, by `kFromWorst`.
ExitStatus worse(ExitStatus a, ExitStatus b);

/// Both tables for a terminal, in lines of at most `width` columns.
std::string exit_statuses_as_text(std::size_t width);

/// The same of one command; the order only if it can end in several ways at once.
std::string exit_statuses_of(std::string_view command, std::size_t width);

}  // namespace lockstep
