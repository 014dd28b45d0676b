#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/job/job_process.h"
#include "reports/base/names.h"
#include "reports/base/private_files.h"
#include "reports/record/expected_outcome.h"
#include "reports/record/known_findings.h"

namespace lockstep {

/// What `lockstep watch --also` observes apart from gradients and parameters.
///   buffers          of the modules, after the step
///   optimizer_state  tensors that the optimizers keep of each parameter, after the step
///   random_state     of the generators of torch, Python and NumPy, after the step
///   micro_batches    gradients of each backward pass, before they are accumulated and reduced
enum class Also { buffers, optimizer_state, random_state, micro_batches };

template <>
struct Names<Also> {
  static constexpr std::array<std::string_view, 4> values{"buffers", "optimizer-state",
                                                          "random-state", "micro-batches"};
};

/// A difference from another job, while the job runs.
struct ForeignDifference {
  std::int64_t step = 0;  ///< of the job
  std::string sentence;
};

/// The arguments of `lockstep watch`.
struct WatchRequest {
  std::vector<std::string> job;      ///< the command that trains, and its arguments
  std::vector<std::string> command;  ///< the whole command line, for the record
  std::int64_t every = 1;            ///< of so many steps one is observed
  std::int64_t start = 1;            ///< the first observed step
  std::int64_t until = 0;            ///< the last one; 0: the job's last
  bool begins_off = false;           ///< observes nothing until it is switched on
  std::int64_t agree_every = 0;      ///< ranks need to agree in one of so many steps; 0: in all
  std::vector<Also> also = {};       ///< what else is observed
  bool keeps_before = false;         ///< each rank copies the values of the last observed step
  std::string tensors;               ///< names to observe, a regular expression; empty: all
  std::string ignore;                ///< names to leave out; empty: none
  std::string replicas;      ///< "tp=2": every 2 ranks in a row hold other parts; empty: none
  bool has_data = false;     ///< observes the samples that each rank sees
  bool has_modules = false;  ///< observes outputs of modules, and the gradients at them
  std::uint64_t history_bytes = 0;  ///< of rows of one rank; then one of 100 steps is observed
  std::uint64_t keep_bytes = 0;     ///< of snapshots of one rank
  std::int64_t store_first = 0;     ///< steps whose values are stored; later ones once ranks differ
  bool fails_fast = false;          ///< ends the job at the first difference
  double stall_s = 300;       ///< without progress of any rank, until each is asked where it is
  bool ends_stalled = false;  ///< ends a job that hangs
  bool is_strict = false;     ///< a tensor that cannot be compared leaves the job undecided
  std::optional<ExpectedOutcome> expected = {};
  std::string error;  ///< a regular expression of RE2 for the error that is expected; empty: any
  std::optional<KnownFindings> known = {};  ///< do not fail
  std::string label;                        ///< the job's name in reports; empty: its command
  /// Compares the files so far with those of another job; empty: the job is not compared.
  std::function<std::optional<ForeignDifference>(const JobRecord& job,
                                                 const std::filesystem::path& folder)>
      compare = {};
  std::int64_t min_steps = 1;  ///< that all ranks must have observed for `agrees`
  JobPlace place = {};         ///< where the job runs, and prints
  /// Of its environment, beside those of Lockstep.
  std::vector<std::pair<std::string, std::string>> variables = {};
  /// Absolute folders: which files below them a rank executes is recorded.
  std::vector<std::string> sources = {};
  std::filesystem::path lines = {};       ///< a file with lines to look for in these; empty: none
  std::optional<std::int64_t> seed = {};  ///< of rank 0; rank r gets this + r. Absent: none is set
  int perturbation = 0;                   ///< seed that moves the initial weights; 0: they stay
  std::string out;                        ///< the run's folder; empty: runs/<utc>
  Readers readers = Readers::owner;
  std::string node;  ///< this machine, if it is one of several; the folder is then out/node
  std::vector<std::string> formats;
  bool fills_charts = false;  ///< one of them shows charts
};

}  // namespace lockstep
