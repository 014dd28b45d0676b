#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/base/exit_status.h"
#include "reports/record/cell.h"
#include "reports/record/claim.h"
#include "reports/record/comparison.h"
#include "reports/record/execution.h"
#include "reports/record/expected_outcome.h"
#include "reports/record/last_calls.h"
#include "reports/record/unreduced.h"

namespace lockstep {

/// Name and version of the record's schema (reports/record/record.schema.json). Any change of a
/// field is a new version. Only records of this version are read.
inline constexpr std::string_view kSchemaName = "lockstep.record";
inline constexpr std::string_view kSchemaVersion = "1.0";

/// How far the processes of a watched command came in which nothing was observed.
///   no_python  none of them was a Python that loads the hook
///   no_torch   none imported torch
///   no_step    torch was imported, and no step of an optimizer of it was observed
enum class Reach { unknown, no_python, no_torch, no_step };

template <>
struct Names<Reach> {
  static constexpr std::array<std::string_view, 4> values{"unknown", "no python", "no torch",
                                                          "no step"};
};

/// One expectation of a cell, compared with the findings.
struct Check {
  enum class Result { found, missed, false_alarm, as_promised, undecided };
  std::string promise;  ///< predicate with the subject "it": "breaks gradients agree across ranks",
                        ///< "meets <table>"
  Result result = Result::as_promised;
  std::string text;                 ///< the failure, or why it is undecided
  std::optional<Claim> claim = {};  ///< claim to hold or to be violated; absent: no claim

  bool operator==(const Check&) const = default;
};

template <>
struct Names<Check::Result> {
  static constexpr std::array<std::string_view, 5> values{"found", "missed", "false alarm",
                                                          "as promised", "undecided"};
};

/// Whether the promise was kept, or the declared break was found.
bool is_as_promised(const Check& check);

/// Verdict of a cell: findings compared with its expectation. Reports use the words of `Result`.
enum class CellVerdict { as_expected, not_applicable, undecided, missed, false_alarm };

template <>
struct Names<CellVerdict> {
  static constexpr std::array<std::string_view, 5> values{"as expected", "not applicable",
                                                          "undecided", "missed", "false alarm"};
};

/// One cell: its run and its expectation.
struct CellRecord : Execution {
  Cell cell;
  std::string reference_folder;  ///< of the reference cell; empty when there is none
  std::string source;            ///< the branch point: "scenarios/.../file.cc:41"
  std::string reproduce;         ///< the command that runs this cell alone
  Expectation expectation;
  std::vector<Check> checks;
  CellVerdict verdict = CellVerdict::undecided;

  bool operator==(const CellRecord&) const = default;
};

/// Parameters that were not compared between ranks, for one reason, or their gradients alone.
struct NotCompared {
  Kind kind = Kind::parameter;
  std::string reason;  ///< "every rank holds another part"
  std::int64_t count = 0;
  std::string example;  ///< the name of one of them

  bool operator==(const NotCompared&) const = default;
};

/// Tensors that were compared up to a step, since which no rank of a job observed them.
struct ComparedUntil {
  Kind kind = Kind::parameter;
  std::int64_t step = 0;
  std::int64_t count = 0;
  std::string example;  ///< the name of one of them

  bool operator==(const ComparedUntil&) const = default;
};

/// How much of a job the verdict covers.
struct Coverage {
  std::int64_t parameters = 0;  ///< observed on any rank
  std::int64_t compared = 0;    ///< of which several ranks hold copies
  std::int64_t unshared = 0;    ///< that may be no copies: they differed before the first step
  /// Of which each part has one holder by declaration: shards of DTensors or of an engine, stages
  /// of a pipeline.
  std::int64_t declared = 0;
  int ranks = 0;  ///< that observed any
  std::vector<NotCompared> not_compared;
  std::vector<ComparedUntil> until = {};  ///< by kind and step

  bool operator==(const Coverage&) const = default;
};

/// Quantity shown in a table.
///   element     one element per rank, and whether all ranks hold the same bits of the tensor
///   drift       max |value on rank i - value on rank j| over all pairs, whole tensor
///   norm        L2 norm per rank, whether all ranks hold the same bits, and the drift of all
///               parameters before the forward pass
///   distance    max |value on rank i - value on rank 0| per rank
enum class Quantity { element, drift, norm, distance };

template <>
struct Names<Quantity> {
  static constexpr std::array<std::string_view, 4> values{"element", "drift", "norm", "distance"};
};

/// A table that a scenario prints, in the layout of its published table.
struct TableSpec {
  struct Group {
    std::string heading;  ///< "BUGGY"
    std::string variant;

    bool operator==(const Group&) const = default;
  };
  std::string title;  ///< above the table, followed by a colon
  Quantity quantity = Quantity::element;
  Kind kind = Kind::gradient;
  Phase phase = Phase::pre_step;
  std::string tensor;        ///< empty: all tensors of the kind together
  std::int64_t element = 0;  ///< row-major index, for Quantity::element
  std::string symbol;        ///< "g" in the column heading "g_r0"
  int digits = 5;            ///< after the decimal point in print; 0: four significant ones
  std::vector<Group> groups;
  std::int64_t first_step = 1;      ///< the table's number of the first step: 0 or 1
  std::vector<std::int64_t> steps;  ///< steps to show, from 1; empty: all

  bool operator==(const TableSpec&) const = default;
};

/// A table with the values of one run, with one group of columns per variant.
struct Table {
  struct Entry {
    std::vector<double> values;  ///< one per rank, or the drift alone; NaN if not measured
    /// All ranks hold the same bits of the whole tensor; in a job, all that observed it.
    bool synced = false;
    std::optional<double> drift;  ///< for Quantity::norm; NaN if not measured
    /// For a Quantity::drift whose values were not stored: the L2 norm of the largest difference
    /// from rank 0, estimated from sketches.
    std::optional<double> estimate = {};

    bool is_measured() const;  ///< any value is not NaN

    bool operator==(const Entry&) const = default;
  };
  struct Row {
    std::int64_t step = 0;
    std::vector<Entry> entries;  ///< one per group

    bool operator==(const Row&) const = default;
  };
  std::string scenario;
  int world_size = 0;
  std::vector<AxisValue> axes;
  TableSpec spec;
  std::vector<Row> rows;

  bool operator==(const Table&) const = default;
};

/// Collectives that ranks called per step, from one optimizer step to the next.
struct Traffic {
  std::vector<int> ranks;       ///< all with the same calls, ascending
  int group_size = 0;           ///< of the process groups together that have this size
  std::int64_t first_step = 0;  ///< with this number of calls
  std::int64_t last_step = 0;
  std::int64_t collectives = 0;  ///< per step

  bool operator==(const Traffic&) const = default;
};

/// Steps of some ranks.
struct StepsOfRanks {
  std::vector<std::int64_t> steps;  ///< ascending
  std::vector<int> ranks;           ///< ascending

  bool operator==(const StepsOfRanks&) const = default;
};

/// A setting of a job's optimizers or processes, and the ranks with this value.
struct Setting {
  std::string name;        ///< "AdamW.lr"
  std::string value;       ///< at the optimizer's first step, as text
  std::vector<int> ranks;  ///< ascending

  bool operator==(const Setting&) const = default;
};

/// A hyperparameter that ranks had with other values in a later step than the first one.
struct SettingApart {
  std::string name;             ///< "AdamW.lr"
  std::int64_t step = 0;        ///< the first one with other values
  std::vector<Setting> values;  ///< in it

  bool operator==(const SettingApart&) const = default;
};

/// A type that a training computed in, where its tensors do not show it.
struct Precision {
  std::string operation;        ///< "autocast cpu"
  std::string dtype;            ///< as torch names it: "bfloat16"; or "tf32"
  std::int64_t first_step = 0;  ///< in which it was seen; it is taken to hold from then on
  std::vector<int> ranks;       ///< ascending

  bool operator==(const Precision&) const = default;
};

/// A process group that the training named, such as the dimension of a mesh.
struct NamedGroup {
  std::string name;        ///< "mesh_tp"
  int size = 0;            ///< ranks in one group of this name
  std::vector<int> ranks;  ///< of all such groups, ascending

  bool operator==(const NamedGroup&) const = default;
};

/// Parameters of a model that stayed as they were although they have gradients: the optimizer that
/// was made for it holds others, which it no longer has, or none was given them.
struct Untrained {
  std::string optimizer;    ///< its type: "AdamW"; empty: no optimizer holds others in their place
  std::string place;        ///< "train.py:12", that made it; empty: unknown
  bool is_sharded = false;  ///< fully_shard made them
  std::int64_t held = 0;    ///< parameters of the model that an optimizer holds
  std::int64_t first_step = 0;          ///< in which that was seen
  std::int64_t last_step = 0;           ///< before which no weight had changed since then
  std::vector<int> ranks;               ///< ascending
  std::vector<std::string> parameters;  ///< that none holds, ascending

  bool operator==(const Untrained&) const = default;
};

/// Parameters that a wrapper pairs with those of other ranks by their places.
struct PairedParameters {
  std::string wrapper;     ///< "DDP" or "fully_shard"
  std::int64_t count = 0;  ///< of parameters
  std::string names;       ///< digest of their names, sorted, and of the ranks that it pairs
  std::string order;       ///< digest of their names in their order
  std::vector<int> ranks;  ///< ascending

  bool operator==(const PairedParameters&) const = default;
};

/// Parameters that modules shared as one, and of which each is trained by itself.
struct BrokenTie {
  std::int64_t step = 0;                ///< in which their values were seen to differ
  std::vector<int> ranks;               ///< ascending
  std::vector<std::string> parameters;  ///< ascending

  bool operator==(const BrokenTie&) const = default;
};

/// Parameters that ranks did not have alike when a wrapper divided them, and that nothing has
/// written since: each keeps a part of its own.
struct DividedApart {
  std::string wrapper;                  ///< "fully_shard" or "FSDP"
  std::string place;                    ///< that called it: "train.py:12"; empty: unknown
  std::int64_t compared = 0;            ///< parameters that were divided there
  std::vector<std::string> parameters;  ///< of these, in the order of the model

  bool operator==(const DividedApart&) const = default;
};

/// How often a scheduler of learning rates was stepped.
struct ScheduleSteps {
  std::string name;       ///< type of the scheduler: "StepLR"
  std::string optimizer;  ///< as its hyperparameters begin: "AdamW"
  std::int64_t steps = 0;
  std::int64_t step = 0;   ///< of the training, in which that was seen
  std::vector<int> ranks;  ///< ascending

  bool operator==(const ScheduleSteps&) const = default;
};

/// A metric that a trainer reduced over all ranks when an epoch ended.
struct WrongMetric {
  std::string name;
  std::string operation;  ///< "mean", "sum", "max" or "min"
  std::int64_t step = 0;  ///< the last one before; 0: none
  double reported = 0;    ///< on the first rank
  double expected = 0;    ///< of what the ranks have

  bool operator==(const WrongMetric&) const = default;
};

/// A parameter that ranks have whole and do not train, or a buffer that all ranks have to share.
struct FrozenParameter {
  std::string model;  ///< its class: "Teacher"; empty: other parameters of the model are trained
  std::string name;
  std::string first;       ///< digest before the first observed step; of a buffer empty
  std::string last;        ///< after the last step; empty: unknown
  std::vector<int> ranks;  ///< ascending
  bool is_buffer = false;  ///< of a model that is trained

  bool operator==(const FrozenParameter&) const = default;
};

/// How ranks went through their part of a data set that torch's DistributedSampler divides.
struct SamplerUse {
  std::string name;          ///< its type: "DistributedSampler"
  std::string place;         ///< where they began to: "train.py:31"; empty: unknown
  std::int64_t samples = 0;  ///< of each part
  std::int64_t parts = 0;
  std::int64_t part = 0;    ///< from 0
  std::int64_t seed = -1;   ///< of the order that is divided; -1: it is not shuffled
  std::int64_t passes = 0;  ///< from the first to the last sample, in which the training took steps
  std::int64_t repeats = 0;  ///< of these, in the order of the one before
  std::vector<int> ranks;    ///< ascending

  bool operator==(const SamplerUse&) const = default;
};

/// Steps that ranks did not train, because their data had ended before that of others: in torch's
/// Join they went along with the collectives of these.
struct JoinedRanks {
  std::vector<int> ranks;  ///< ascending
  std::int64_t after = 0;  ///< their last step
  std::int64_t until = 0;  ///< the last one of the others; 0: these trained on, or it is unknown

  bool operator==(const JoinedRanks&) const = default;
};

/// The rank that the others waited for most, in collectives of all ranks, which were on one
/// machine. Clock fields.
struct Straggler {
  int rank = 0;
  std::int64_t steps = 0;  ///< of which the collectives are known
  std::int64_t late = 0;   ///< of these, in which this rank was the last by more than the others
  double waited_s = 0;     ///< for this rank alone, in all of these steps
  double duration_s = 0;   ///< of these steps

  bool operator==(const Straggler&) const = default;
};

/// Parameters that ranks hold on a device.
struct DeviceUse {
  std::string device;           ///< as they name it: "cuda:0"
  std::string id;               ///< of a GPU, by which no other one goes; empty: unknown
  std::int64_t parameters = 0;  ///< of each of the ranks
  std::vector<int> ranks;       ///< ascending
  /// Of the parameters, ascending, at most 64; empty: the ranks hold no more on any other device.
  std::vector<std::string> names;

  bool operator==(const DeviceUse&) const = default;
};

/// The most memory that each rank of a job held, in bytes, as far as its hook said it. Clock
/// fields.
struct PeakMemory {
  std::int64_t most = 0;
  int most_of = 0;  ///< rank
  std::int64_t least = 0;
  int least_of = 0;  ///< rank

  bool operator==(const PeakMemory&) const = default;
};

/// The ranks of a job that ran on one machine, and the files that they left there.
struct JobPart {
  std::string id;          ///< of the job in these files
  std::string folder;      ///< of the files, as `Execution::folder`
  std::vector<int> ranks;  ///< ascending
  std::optional<ManifestSeal> manifest = {};

  bool operator==(const JobPart&) const = default;
};

/// What the user of a watched job asked of it.
struct JobDemands {
  std::optional<ExpectedOutcome> expected = {};  ///< absent: that its ranks agree, as far as seen
  std::int64_t min_steps = 1;  ///< that all ranks observe, where they are expected to agree
  bool is_strict = false;      ///< a parameter that was not compared leaves the job undecided
  std::string error = {};      ///< a regular expression of RE2 for the error to raise; empty: any

  bool operator==(const JobDemands&) const = default;
};

/// A training job that was watched while it ran. Its steps may be unknown in number, sparse, and
/// end anywhere.
struct JobRecord : Execution {
  std::string id;     ///< random, drawn at the launch; its files contain it
  std::string title;  ///< name in sentences: "train.py --lr 0.1"
  std::string label;  ///< name in keys of findings: "train.py"; empty: the title
  int world_size = 0;
  /// Planned steps, from 1, all to be observed; absent: unknown.
  std::optional<std::int64_t> planned_steps = {};
  std::vector<std::string> faults;  ///< of its files: how they differ from the written ones
  Coverage coverage = {};
  std::string unsealed = {};       ///< why no manifest lists its files; empty: one does
  std::vector<Table> tables = {};  ///< of the tensors that all ranks hold copies of
  std::vector<std::int64_t> skipped_steps = {};  ///< that a gradient scaler left out on any rank
  std::int64_t agree_every = 0;  ///< ranks need to agree in one of so many steps; 0: in all
  /// In CUDA graphs, on the rank with most; what their replays changed was not observed.
  std::int64_t captured_updates = 0;
  /// Steps before which parameters were written on any rank since the step before, ascending.
  std::vector<std::int64_t> written_before = {};
  std::int64_t writes_known_until = 0;  ///< the last step of which that is known on all; 0: of none
  std::int64_t thinned_after = 0;     ///< step; later ones were observed now and then; 0: all were
  std::vector<Traffic> traffic = {};  ///< empty: collectives were not counted
  std::vector<Traffic> traffic_in_steps = {};     ///< those inside the steps of optimizers
  std::vector<Setting> configuration = {};        ///< by name and value; empty: unknown
  std::vector<SettingApart> settings_apart = {};  ///< by name; empty: none was seen
  /// By operation, type and first step; empty: none was seen.
  std::vector<Precision> precisions = {};
  /// Collectives in a forward pass of a model, at most, on any rank; -1: of some rank it is
  /// unknown.
  int calls_in_forward = -1;
  std::vector<std::string> state_buffers = {};  ///< that ranks have to share, of those observed
  std::vector<NamedGroup> groups = {};          ///< by name and size; empty: none, or unknown
  std::string node = {};                        ///< the machine, if it is one of several: `--node`
  std::vector<int> elsewhere = {};     ///< ranks on other machines, of which no file is here
  std::vector<int> left_running = {};  ///< ranks that trained on when the command had ended
  std::int64_t rendezvous = 0;  ///< equal for all ranks of a job, and for few others; 0: unknown
  std::vector<JobPart> parts = {};  ///< machines whose files were judged together; empty: one
  /// Of the job's command, as a shell reports it; absent: it was not seen to end.
  std::optional<int> command_status = {};
  std::vector<StepsOfRanks> skipped_by = {};  ///< `skipped_steps`, by the ranks that skipped them
  std::vector<Unreduced> unreduced = {};      ///< empty: none, or unknown
  /// By what ranks called and lacked; empty: all did the same, or it is unknown.
  std::vector<LastCalls> last_calls = {};
  std::vector<JoinedRanks> joined = {};  ///< by their steps; empty: none, as far as known
  std::vector<Untrained> untrained = {};
  std::vector<BrokenTie> broken_ties = {};  ///< seen with `--modules` only
  std::vector<DividedApart> divided_apart = {};
  std::vector<PairedParameters> parameter_orders = {};
  /// The first of `written_before`, by the ranks that wrote before them.
  std::vector<StepsOfRanks> written_by = {};
  std::vector<Setting> optimizers = {};  ///< the lines that made them, by name: "AdamW"
  /// Empty: all ranks stepped theirs equally often, or it is unknown.
  std::vector<ScheduleSteps> schedules = {};
  std::vector<DeviceUse> devices = {};           ///< by name and id; empty: unknown
  std::optional<PeakMemory> host_memory = {};    ///< absent: unknown
  std::optional<PeakMemory> device_memory = {};  ///< that torch allocated; absent: unknown, or none
  /// The error that ended a process of the command in which no optimizer stepped, if no rank was
  /// observed, or no rank tells why it ended; empty: none is known.
  std::string command_error = {};
  Reach reach = Reach::unknown;  ///< of the command; unknown once a rank was observed
  JobDemands demands = {};
  /// Parameters whose initial values were moved by a unit in the last place (`watch --perturb`), on
  /// the rank with fewest; absent: nobody asked for it.
  std::optional<std::int64_t> perturbed = {};
  /// An error of a rank, or `command_error`, is one that the user expects.
  bool has_expected_error = false;
  /// Ranks that train nothing, ascending: they made no optimizer, and their models have no
  /// gradients.
  std::vector<int> bystanders = {};
  /// Digests of the parameters of their models when they left the world, by name.
  std::vector<Setting> copies = {};
  std::optional<Straggler> straggler = {};  ///< absent: unknown
  std::vector<SamplerUse> samplers = {};
  std::vector<FrozenParameter> frozen = {};     ///< by rank, at most 1024
  std::vector<WrongMetric> wrong_metrics = {};  ///< the first one of each name
  /// Executions that the launcher ended and began again before this one, in the order of time;
  /// theirs are empty. They decide nothing.
  std::vector<JobRecord> earlier_attempts = {};

  bool operator==(const JobRecord&) const = default;
};

/// Calls `work` with each execution of the jobs, in the order of time: those that decide nothing,
/// too.
template <class Jobs, class Work>
void for_each_attempt(Jobs& jobs, const Work& work) {
  for (auto& job : jobs) {
    for (auto& earlier : job.earlier_attempts) work(earlier);
    work(job);
  }
}

/// How many ranks of a job train: those that are no bystanders, if these are several.
int training_ranks(const JobRecord& job);

/// Whether a rank did not train a step of the others, because it had joined.
bool has_joined(const std::vector<JoinedRanks>& joined, int rank, std::int64_t step);

/// The part with the files of a rank; null: the files of all are in the job's folder.
const JobPart* part_with(const JobRecord& job, int rank);

/// Versions, place and settings of a run. Clock and host fields differ from run to run; no other
/// field of a record does.
struct RunEnvironment {
  std::string started_utc;  ///< "2026-11-20T18:52:46Z"; a clock field
  std::string host;         ///< a host field
  std::string lockstep_version;
  std::string torch_version;
  std::string compiler;
  std::string digest;                                          ///< "lockstep-2"
  std::vector<std::pair<std::string, std::string>> variables;  ///< allow-listed variables, by name
  int jobs = 1;                                                ///< maximum cells at a time

  bool operator==(const RunEnvironment&) const = default;
};

/// Counts planned at the start of the run. They reveal cells, jobs or claims removed later.
struct PlannedCounts {
  std::int64_t cells = 0;
  std::int64_t claims = 0;  ///< of all cells and jobs
  std::int64_t jobs = 0;

  bool operator==(const PlannedCounts&) const = default;
};

/// One run: the input of every renderer and the content of record.json.
struct RunRecord {
  std::vector<std::string> command;
  RunEnvironment environment;
  std::vector<CellRecord> cells;
  std::vector<JobRecord> jobs;
  std::vector<Comparison> comparisons = {};
  std::vector<Table> tables;
  std::vector<std::string> notes;  ///< about the run as a whole: "134 of 512 choices"
  PlannedCounts planned = {};

  bool operator==(const RunRecord&) const = default;
};

/// Counts the cells and jobs of a run, and their claims.
PlannedCounts counts_of(const RunRecord& run);

/// Verdict of a judged job. It is violated if a claim is or if its files have faults. It is also
/// violated if the ranks failed in a way that no claim covers, such as dying. It holds if every
/// claim does, every rank finished and `unmet_demand` is empty, and for a recording.
Verdict verdict_of(const JobRecord& job);

/// Why a job whose ranks agreed is undecided all the same: "with --strict: 118 of 120 parameters
/// were compared". Empty: it has all that was asked of it.
std::string unmet_demand(const JobRecord& job);

/// Whether its ranks are expected to agree, also where nothing else was asked of the job.
bool is_to_agree(const JobRecord& job);

/// Whether no value of a rank was compared with another rank's, and none was found to be without
/// one.
bool is_incomparable(const JobRecord& job);

/// Whether the job only recorded values for later comparisons: it has one rank, or each part of its
/// tensors has one holder by declaration. Nothing else of it is undecided or wrong, and nobody
/// asked for ranks that agree.
bool is_recording(const JobRecord& job);

/// Exit status of a judged job: whether it is as expected (`JobDemands`). It is `not_applicable` if
/// the job is incomparable though all its ranks finished, and no recording.
ExitStatus status_of(const JobRecord& job);

/// Exit status of a judged run: that of its worst cell, job or comparison. It is `not_applicable`
/// if no cell applies and there is nothing else.
ExitStatus exit_status(const RunRecord& run);

}  // namespace lockstep
