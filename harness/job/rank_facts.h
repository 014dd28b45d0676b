#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/watched_progress.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Collectives per step over groups of one size.
struct CallsPerStep {
  std::int64_t first_step = 0;  ///< with this number
  std::int64_t last_step = 0;
  int group_size = 0;
  std::int64_t collectives = 0;

  auto operator<=>(const CallsPerStep&) const = default;
};

/// A process of a rank that trains and is not observed: one that the observed process forked, or
/// that took its place.
struct Elsewhere {
  std::int64_t process = 0;  ///< its number
  std::int64_t step = 0;     ///< of the observed process when it was forked; 0: that one is gone
};

/// A collective of all ranks.
struct Arrival {
  std::int64_t step = 0;    ///< to which it belongs
  std::int64_t group = 0;   ///< of those that have all ranks
  std::int64_t number = 0;  ///< in that group
  std::int64_t ns = 0;      ///< when the rank called it, by `RankFacts::clock`
};

/// A metric that a trainer reduced over all ranks.
struct ReducedMetric {
  std::string name;
  std::string operation;  ///< "mean", "sum", "max" or "min"
  double value = 0;       ///< of this rank; of a mean the sum
  double weight = 0;      ///< of this rank, by which the sum of a mean is divided
  double reported = 0;    ///< what came out
  std::int64_t step = 0;  ///< the last one before; 0: none
};

/// Parameters that a wrapper has divided, with digests of the whole ones that the rank had.
struct DividedParameters {
  std::string wrapper;
  std::string place;
  std::int64_t number = 0;  ///< of the call that divided them, the same on all ranks
  std::vector<std::string> parameters;
  std::vector<std::string> digests;  ///< one each
};

/// What the hook of a rank knows apart from tensors: `rank-N.watch.json` in the job's folder.
struct RankFacts {
  int world_size = 0;
  std::string torch;    ///< version
  std::string failure;  ///< why the hook switched itself off; empty: it did not
  std::vector<std::int64_t> skipped_steps = {};  ///< by a gradient scaler
  std::int64_t thinned_after = 0;                ///< step; 0: every step was observed
  /// Steps before which parameters were written since the step before, up to a step.
  std::vector<std::int64_t> written_before = {};
  std::int64_t writes_known_until = 0;
  std::int64_t agree_every = 0;       ///< steps, by its user or by torch's averagers; 0: in all
  std::int64_t captured_updates = 0;  ///< in CUDA graphs: their replays are not observed
  std::optional<std::int64_t> perturbed = {};  ///< parameters, as `JobRecord::perturbed`
  int calls_in_forward = -1;  ///< collectives in a forward pass, at most; -1: of none it is known
  bool has_copies = false;    ///< it observes parameters before each step, too
  bool has_only_copies = false;          ///< and of all others each rank holds another part
  std::vector<CallsPerStep> calls = {};  ///< empty: not counted
  std::vector<CallsPerStep> calls_in_steps = {};          ///< of optimizers; empty: not counted
  std::map<std::string, std::string> configuration = {};  ///< values as text, by name
  /// Those of optimizers that changed since the step before, by step; the first one has all.
  std::map<std::int64_t, std::map<std::string, std::string>> hyperparameters = {};
  std::int64_t hyperparameters_until = 0;               ///< the last step of which they are known
  std::vector<Precision> precisions = {};               ///< without ranks
  std::vector<Unreduced> unreduced = {};                ///< without ranks
  std::optional<LastCalls> last_calls = {};             ///< without ranks; absent: unknown
  std::vector<JoinedRanks> joined = {};                 ///< without ranks
  std::vector<Untrained> untrained = {};                ///< without ranks
  std::vector<BrokenTie> broken_ties = {};              ///< without ranks
  std::vector<DividedParameters> divided = {};          ///< as they are at the first step
  std::vector<PairedParameters> parameter_orders = {};  ///< without ranks
  std::vector<ScheduleSteps> schedules = {};            ///< without ranks
  std::vector<DeviceUse> devices = {};                  ///< without ranks
  std::vector<SamplerUse> samplers = {};                ///< without ranks
  std::vector<FrozenParameter> frozen = {};             ///< without ranks
  std::vector<ReducedMetric> metrics = {};              ///< in the order of time
  std::int64_t peak_bytes = 0;                          ///< of the host's memory; 0: unknown
  std::int64_t peak_device_bytes = 0;                   ///< 0: unknown, or no GPU
  std::map<std::string, std::string> optimizers = {};   ///< the lines that made them, by name
  std::vector<std::string> state_buffers = {};          ///< as `JobRecord::state_buffers`
  /// Numbers of ranks of the groups that the training named, by name.
  std::map<std::string, int> groups = {};
  RanksOfMachine machine = {};
  std::int64_t rendezvous = 0;  ///< equal for all ranks of a job, and for few others; 0: unknown
  StepPart error_part = StepPart::unknown;  ///< of the step in which that happened
  std::string last_call = {};    ///< the collective that it had called last; empty: unknown
  std::string error_place = {};  ///< of the error that ended it, in the user's code; empty: unknown
  std::vector<std::string> error_stack = {};  ///< as `RankExit::stack`
  std::optional<Elsewhere> elsewhere = {};    ///< absent: it trained in the observed process alone
  std::vector<Arrival> arrivals = {};         ///< of the last steps, each once; empty: unknown
  std::string clock = {};                     ///< of which machine since its start
};

/// Reads the facts of `rank`; empty if its hook never observed anything. Throws Error (usage) when
/// the file is malformed.
std::optional<RankFacts> read_rank_facts(const std::filesystem::path& folder, int rank);

/// The ranks whose hooks wrote facts, ascending.
std::vector<int> ranks_with_facts(const std::filesystem::path& folder);

/// Names and digests of parameters of a process. Its models may have some of the same name.
using DigestsOfNames = std::set<std::pair<std::string, std::string>>;

/// The ranks that trained nothing, each with what its models were when it left the world. Throws
/// Error (usage) when a file is malformed.
std::map<int, DigestsOfNames> bystanders_in(const std::filesystem::path& folder);

/// The larger of two numbers of calls, of which -1 is unknown: with it, so are both together.
int most_calls(int one, int other);

/// The smaller of two numbers of perturbed parameters; absent: neither is known.
std::optional<std::int64_t> fewest_perturbed(std::optional<std::int64_t> one,
                                             std::optional<std::int64_t> other);

/// Memory of more ranks, which may have the most, or the least; absent: none is known.
void add_memory(const std::optional<PeakMemory>& more, std::optional<PeakMemory>& memory);

/// The facts of all of them, by rank.
std::map<int, RankFacts> read_all_facts(const std::filesystem::path& folder);

}  // namespace lockstep
