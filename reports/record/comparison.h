#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/exit_status.h"
#include "reports/base/names.h"
#include "reports/record/execution.h"
#include "reports/record/finding_kind.h"

namespace lockstep {

/// How a tensor of B compares with that of A.
///   equal       the same bits
///   rounding    apart by no more than layouts that round otherwise are
///   no_evidence the gradient is 0 up to rounding on both sides, so it and its updates are noise
///   undecided   further apart, but not by as much as a fault, or by an unknown amount
///   different   further apart than rounding explains
enum class Likeness { equal, rounding, no_evidence, undecided, different };

/// How many values it has.
inline constexpr std::size_t kLikenesses = 5;

template <>
struct Names<Likeness> {
  static constexpr std::array<std::string_view, kLikenesses> values{
      "equal", "rounding", "no_evidence", "undecided", "different"};
};

/// A quantity of a step.
///   loss             recorded by the script; ranks may record their own, so it decides nothing
///   gradient         before the optimizer's step
///   update           of a parameter by the optimizer: W(s) - W(s-1)
///   optimizer_state  what an optimizer keeps of a parameter, after the step
///   buffer           of a module, after the step: state of the training, or statistics of the same
///                    samples
///   statistic        another buffer, which ranks may keep for themselves, so it decides nothing
///   weight           a parameter, or another tensor of a checkpoint
///   output           of a module in a forward pass
///   output_gradient  that arrives there
enum class Compared {
  loss,
  gradient,
  update,
  optimizer_state,
  buffer,
  statistic,
  weight,
  output,
  output_gradient
};

template <>
struct Names<Compared> {
  static constexpr std::array<std::string_view, 9> values{
      "loss",      "gradient", "update", "optimizer_state", "buffer",
      "statistic", "weight",   "output", "output_gradient"};
};

/// Whether a difference in it is one of the training. Else it is told.
constexpr bool decides(Compared quantity) {
  return quantity != Compared::loss && quantity != Compared::statistic;
}

/// Two tensors of one shape, A and B, compared element by element.
struct ElementDifferences {
  std::int64_t elements = 0;  ///< of each
  /// That have not the same bits; of tensors of two types, not the same value.
  std::int64_t differing = 0;
  std::int64_t rows = 0;            ///< along the first dimension
  std::int64_t differing_rows = 0;  ///< that have such an element
  double apart = 0;                 ///< L2 of B - A, of the elements that are finite on both sides

  /// Each element of one side is a nearest number, in its type, to that of the other side.
  bool is_rounded = true;

  /// The largest error, in units in the last place of the coarser type; in whole numbers if both
  /// have no fraction. Infinite if an element is finite on one side only.
  double ulps = 0;
  std::vector<std::int64_t> place;  ///< of that element; empty: none differs
  double value_a = 0;               ///< there; of a complex element its component
  double value_b = 0;

  bool operator==(const ElementDifferences&) const = default;
};

/// One tensor of one step on both sides.
struct TensorDifference {
  Compared quantity = Compared::gradient;
  std::string name;
  Likeness likeness = Likeness::equal;
  double relative = 0;           ///< L2 of B - A, over the larger norm of both
  double tolerance = 0;          ///< of `relative`, by rounding
  std::optional<double> ratio;   ///< <A, B> / <A, A>; absent: unknown
  std::optional<double> cosine;  ///< absent: unknown
  /// Of `relative`, if it is an estimate from sketches: 0.13 of it.
  std::optional<double> estimate_error = {};
  /// Ratio, cosine and rest are such estimates, whose errors are in `reports/record/estimates`.
  bool is_estimate = false;
  bool is_of_all = false;  ///< `relative` is over 0.01 of the norm of all tensors, which is larger
  bool is_finite = true;   ///< false: neither side is
  std::optional<Ratio> multiple;    ///< of A, that B is; absent: it is none
  std::optional<FindingKind> kind;  ///< of the fault, as far as the values show it
  std::string cause;                ///< how it differs, or why it is undecided; empty: by values
  /// On which it is so: of an output, or of an update that ranks of B do not have alike. Empty: on
  /// all together.
  std::vector<int> ranks = {};
  std::optional<double> rest = {};  ///< L2 of B - `ratio` * A, over the norm of B; absent: unknown
  /// Of an update: the parameter before it and all gradients so far have the same bits.
  bool has_equal_inputs = false;
  /// Of tensors of two checkpoints: `relative`, `ratio` and `cosine` are exact then.
  std::optional<ElementDifferences> elements = {};

  bool operator==(const TensorDifference&) const = default;

  /// Whether `relative` is known. Of values that could not be compared it is 0.
  bool is_measured() const { return likeness != Likeness::undecided || relative != 0; }
};

/// How outputs of modules are compared.
///   nothing      one side or both did not observe any
///   by_rank      each rank with that of the other side
///   whole_batch  the norms of the outputs of all ranks together; a gradient is that of the mean
///                over a rank's own samples, so gradients are not compared
enum class ModuleBasis { nothing, by_rank, whole_batch };

template <>
struct Names<ModuleBasis> {
  static constexpr std::array<std::string_view, 3> values{"nothing", "by_rank", "whole_batch"};
};

/// A tensor of a module that the two sides do not have alike.
struct NotComparable {
  Compared quantity = Compared::output;
  std::string name;
  std::string reason;  ///< "rank 0: 512 elements in A and 256 in B"

  bool operator==(const NotComparable&) const = default;
};

/// Outputs of modules of a step, and the gradients that arrive there.
struct ModuleDifferences {
  ModuleBasis basis = ModuleBasis::nothing;
  bool decides = false;  ///< each rank is known to have the same samples on both sides
  std::vector<TensorDifference> tensors;  ///< in the order of execution
  std::vector<NotComparable> not_comparable;
  std::array<std::int64_t, 2> alone{};  ///< tensors that only one side has

  bool operator==(const ModuleDifferences&) const = default;

  /// The first one of a quantity with a likeness; null: there is none.
  const TensorDifference* first(Compared quantity, Likeness likeness) const;

  std::int64_t count(Compared quantity) const;
  std::int64_t count(Compared quantity, Likeness likeness) const;

  /// Whether an output is different in spite of the same samples. A gradient alone is none: losses
  /// are scaled in many ways that the gradients of parameters do not show.
  bool has_finding() const { return decides && first(Compared::output, Likeness::different); }
};

/// One step on both sides.
struct StepDifference {
  std::int64_t step = 0;   ///< of A
  std::int64_t other = 0;  ///< of B
  /// Of the parameters before it: L2 of B - A, over the larger norm; absent: unknown.
  std::optional<double> weights_apart = {};
  std::string undecidable;  ///< why rounding cannot be told from a fault; empty: it can
  std::vector<TensorDifference> tensors;  ///< in the order of execution
  ModuleDifferences modules = {};
  /// By likeness, of a step whose tensors were left out; absent: `tensors` has all.
  std::optional<std::array<std::int64_t, kLikenesses>> counts = {};
  /// At least three of four of its gradients that are not 0 agree, of at least 4: both sides
  /// computed them from the same samples.
  bool most_gradients_agree = false;

  bool operator==(const StepDifference&) const = default;

  /// Tensors that have it, of those that decide, without modules.
  std::int64_t count(Likeness likeness) const;

  /// Leaves out the tensors and counts them, to save memory. What decides nothing stays, tensors
  /// that are not finite, and outputs of modules that do not agree.
  void leave_out_tensors();
};

/// What should be equal before runs are compared. Without equal initial weights and samples a
/// comparison means nothing; the others may explain a difference. That a side has fewer steps is
/// told.
enum class Prerequisite { configuration, initial_weights, samples, random_states, steps };

template <>
struct Names<Prerequisite> {
  static constexpr std::array<std::string_view, 5> values{"configuration", "initial weights",
                                                          "samples", "random states", "steps"};
};

struct Precondition {
  Prerequisite prerequisite = Prerequisite::initial_weights;
  Likeness likeness = Likeness::equal;
  std::string text;  ///< "equal, bit for bit: 12 tensors"
  /// Of samples, in B's step 1: it is a fault, since B goes on with the training of A, and saw
  /// those of another step of it.
  bool is_fault = false;

  bool operator==(const Precondition&) const = default;
};

/// How the training of a side went, as far as it was seen.
///   trained        it ended, or was seen to train; its values decide
///   ranks_differ   its ranks held different values
///   wrong          its ranks agreed on what its own files show to be wrong: gradients that are no
///                  mean of all, weights that nothing trains, or with which nobody computed
///   not_finite     its parameters became NaN or infinite
///   raised         an error ended it
///   out_of_memory  an error that says so ended it
///   hung           ranks waited for others that did not come
///   died           a signal ended a rank, or a rank left without an error
enum class SideOutcome {
  trained,
  ranks_differ,
  wrong,
  not_finite,
  raised,
  out_of_memory,
  hung,
  died
};

template <>
struct Names<SideOutcome> {
  static constexpr std::array<std::string_view, 8> values{
      "trained", "ranks differ", "wrong", "not finite", "raised", "out of memory", "hung", "died"};
};

/// A run or a checkpoint that is compared with another one.
struct ComparedSide {
  std::string folder;
  std::string title;
  std::string label;  ///< in keys of findings; empty: the title
  int world_size = 0;
  std::int64_t steps = 0;  ///< observed
  /// Of a checkpoint, all that its files hold of the model; absent: the side is a job.
  std::optional<std::int64_t> tensors;
  std::int64_t optimizer_tensors = 0;  ///< of a checkpoint, left out
  std::int64_t other_values = 0;       ///< of a checkpoint, left out: they are no tensors
  bool has_modules = false;            ///< of a job: outputs of its modules were observed
  SideOutcome outcome = SideOutcome::trained;
  std::optional<Finding> fault = {};      ///< the finding behind `outcome`; absent: it trained
  std::optional<double> duration_s = {};  ///< absent: unknown, or not told. A clock field
  /// The most memory of the host that a rank held, in bytes; absent: unknown. A clock field.
  std::optional<std::int64_t> peak_bytes = {};
  /// The same of its devices, as torch allocated it; absent: unknown, or it used none.
  std::optional<std::int64_t> peak_device_bytes = {};

  bool operator==(const ComparedSide&) const = default;
};

/// A tensor that one side has twice, and the other one once: such as a head that shares its weights
/// with an embedding. Nothing is missing.
struct TiedTensor {
  std::size_t side = 0;  ///< that has both: 0 is A
  std::string name;      ///< that the other side lacks
  std::string same;      ///< of the tensor with the same bits, which both sides have

  bool operator==(const TiedTensor&) const = default;
};

/// The steps of a comparison of which some were left out to keep the record small.
struct AllSteps {
  std::int64_t count = 0;
  std::array<std::int64_t, kLikenesses> tensors{};  ///< of all of them, by likeness

  bool operator==(const AllSteps&) const = default;
};

/// Two runs, or a checkpoint and another or a run, compared. Verdicts are about B, the second side,
/// A being right.
struct ComparedPair {
  std::array<ComparedSide, 2> sides;
  std::vector<std::string> noise;  ///< repetitions that measure it
  std::vector<Precondition> preconditions;
  std::array<std::vector<std::string>, 2> unmatched;  ///< names that only one side has
  std::int64_t matched = 0;                           ///< names of parameters
  std::vector<StepDifference> steps;                  ///< that both sides observed, ascending
  std::vector<TiedTensor> tied = {};                  ///< of checkpoints; not in `unmatched`
  std::vector<std::string> unmapped;  ///< old names of `--map` that no tensor of A has
  /// Parameters whose gradient carried no evidence in a step, by name.
  std::vector<std::string> without_evidence = {};
  /// Types computed in, that differ: "autocast cpu is absent in A and bfloat16 in B".
  std::vector<std::string> precisions = {};
  /// Of optimizers, that differ: "lr is 0.001 in A and 0.002 in B".
  std::vector<std::string> hyperparameters = {};
  /// All gradients of B are those of A times this, as by a scale that the optimizer's step takes
  /// back, and the updates agree. Absent: they are not.
  std::optional<double> gradient_scale = {};
  std::optional<AllSteps> all = {};  ///< absent: `steps` holds all
  ClaimResult result = {};           ///< that B equals A, with a finding for each kind of fault

  bool operator==(const ComparedPair&) const = default;
};

/// What a comparison is made for.
///   reference    B should equal A, which is right: `diff`, `watch --against`
///   repetition   B repeats A, to measure what does not reproduce: `watch --repeat`
///   fix          the job before a fix and the one after it, each with one that is right; without
///                such a one, the two with each other
enum class ComparisonPurpose { reference, repetition, fix };

template <>
struct Names<ComparisonPurpose> {
  static constexpr std::array<std::string_view, 3> values{"reference", "repetition", "fix"};
};

/// What the user said that B does: `diff --expect`.
///   agrees       it equals A
///   bug          it differs from A, or did not train
///   diverges     the same, in finite values
///   not_finite   its values are NaN or infinite where A's are finite
///   raises       an error ended it
///   hangs        its ranks hang
enum class ComparisonExpectation { agrees, bug, diverges, not_finite, raises, hangs };

template <>
struct Names<ComparisonExpectation> {
  static constexpr std::array<std::string_view, 6> values{"agrees",     "bug",    "diverges",
                                                          "not-finite", "raises", "hangs"};
};

/// Lines that a fix changed, in the sources that ranks executed, as far as they are code.
struct ChangedLines {
  std::int64_t count = 0;
  std::int64_t executed = 0;         ///< of them, by any rank
  std::vector<std::string> missing;  ///< the others: "src/a.py:31-33"

  bool operator==(const ChangedLines&) const = default;
};

/// A side of which a second run of the same command trained otherwise, while the reference repeats.
enum class Unrepeatable { neither, before, after };

template <>
struct Names<Unrepeatable> {
  static constexpr std::array<std::string_view, 3> values{"neither", "before", "after"};
};

/// The code of a fix that was validated (`lockstep validate`), as far as ranks executed it.
struct FixedCode {
  std::array<std::string, 2> states;  ///< before and after: "v1 (3f2a1c9)"
  std::vector<std::string> changed;   ///< files that differ between them
  std::vector<std::string> executed;  ///< of them, on a rank of either side
  std::vector<std::string> shared;    ///< executed by both sides in one place: not those of a state
  bool has_other_files = false;  ///< some of `changed` are no source of Python, so nobody sees them
  bool is_seen = false;          ///< ranks of both sides said what they executed
  /// The reference trains otherwise with the code after the fix than with that before it.
  bool changes_reference = false;
  /// How the reference went before the fix: if it fails there, too, that state may lack something.
  SideOutcome reference_before = SideOutcome::trained;
  std::optional<ChangedLines> lines = {};  ///< absent: nobody looked (`--coverage`)
  Unrepeatable unrepeatable = Unrepeatable::neither;

  bool operator==(const FixedCode&) const = default;
};

/// Runs that were compared with one that is right.
struct Comparison {
  ComparisonPurpose purpose = ComparisonPurpose::reference;
  ComparisonExpectation expected = ComparisonExpectation::agrees;  ///< of B; not of a fix
  /// One, or two of a fix: before and after, with the same first side. A fix without a reference
  /// has one: A is the state before it and B that after it. Empty: none was made.
  std::vector<ComparedPair> pairs;
  std::string failure = {};            ///< why none was made; empty: one was
  std::string cell = {};               ///< of a matrix: "ranks=2, layout=ddp"; empty: there is none
  std::optional<FixedCode> code = {};  ///< absent: nobody knows what the sides executed

  bool operator==(const Comparison&) const = default;
};

/// Whether a side is a checkpoint. Then there is one step, of weights: that of a job, else 0.
bool is_of_weights(const ComparedPair& diff);

/// Compares the names of both sides.
void match_names(const std::set<std::string>& a, const std::set<std::string>& b,
                 ComparedPair& diff);

/// The first step in which a tensor or an output of a module is different; null: none is.
const StepDifference* first_different(const ComparedPair& diff);

/// The first step that could not be decided; null: all could.
const StepDifference* first_undecided(const ComparedPair& diff);

/// Whether all tensors of all steps have the same bits. It is false without a step.
bool has_same_bits(const ComparedPair& diff);

/// The precondition that is a fault itself; null: there is none.
const Precondition* faulty_precondition(const ComparedPair& diff);

/// Whether something other than the training differs, so that differences say nothing about it.
bool is_void(const ComparedPair& diff);

/// The first step in which a tensor has elements that are not finite on both sides; null: none has.
const StepDifference* first_non_finite(const ComparedPair& diff);

/// The factor of which all gradients of a step that carry evidence are multiples of A's, which
/// other samples do not give; absent: they are not, or differ by no more than rounding.
std::optional<double> common_factor(const StepDifference& step);

/// Whether differences may be those of other samples, which are unknown: no tensor of the first
/// step that differs is a known multiple, differs between ranks of B, has another shape or none on
/// one side, or is an update by equal gradients, and not all gradients are one multiple of A's.
bool may_be_samples(const ComparedPair& diff);

/// Whether differences may be those of another precision: both sides are known to have computed in
/// other types, and nothing in the first step that differs is more than another value.
bool may_be_precision(const ComparedPair& diff);

/// Whether what is apart by rounding may come from other hyperparameters instead.
bool may_be_hyperparameters(const ComparedPair& diff);

/// The claim that a difference of a quantity breaks: B equals A.
Claim claim_of(Compared quantity);

/// How far values are apart, in quarters of a factor of ten: those of one class are as far for a
/// reader.
int size_class_of(const TensorDifference& difference);

/// The tensors that differ in a step, the furthest first, of the first quantity that does: updates
/// follow gradients, and outputs of modules, in the order of execution, are findings alone.
std::vector<const TensorDifference*> faults_of(const StepDifference& step);

/// A pattern of names that they match, and no other tensor of the quantity; empty: there is none,
/// or all differ.
std::string pattern_of_faults(const StepDifference& step);

/// The kind of fault that a difference shows.
FindingKind kind_of(const TensorDifference& difference);

/// That of the first fault of a step. Requires: it has one.
FindingKind kind_of(const StepDifference& step);

/// Steps that were compared.
std::int64_t steps_compared(const ComparedPair& diff);

/// Tensors of all steps that have a likeness.
std::int64_t count(const ComparedPair& diff, Likeness likeness);

/// The same of any likeness.
std::int64_t count(const ComparedPair& diff);

/// Whether B ended in a way that values do not show, and A did not: an error, a hang, values that
/// are not finite. A signal from outside is none.
bool is_ended_by_fault(const ComparedPair& diff);

/// Whether a rank of B was killed, and none of A. A signal may come from outside, so it is no fault
/// of B, and B is not seen to be equal either.
bool has_died_alone(const ComparedPair& diff);

/// Violated if a tensor is different; holds if all are equal in every step, or apart by rounding
/// with the same hyperparameters.
Verdict verdict_of_values(const ComparedPair& diff);

/// The same, and violated if B was ended by a fault. `ComparedPair::result` has this verdict,
/// unless findings were left out of it as known.
Verdict verdict_of(const ComparedPair& diff);

/// What a fix did to a job.
///   fixed        it was faulty before, and is equal to the reference now
///   still_there  it was faulty before, and is now
///   new_fault    it is faulty now alone
///   not_shown    it was not seen to be faulty before, and is not now
///   not_decided  it was faulty before; now it cannot be decided
///   refused      both sides executed the same files, so it says nothing
enum class FixOutcome { fixed, still_there, new_fault, not_shown, not_decided, refused };

template <>
struct Names<FixOutcome> {
  static constexpr std::array<std::string_view, 6> values{"FIXED",     "STILL THERE", "NEW",
                                                          "NOT SHOWN", "NOT DECIDED", "REFUSED"};
};

/// Requires: the comparison is of a fix, and was made.
FixOutcome outcome_of_fix(const Comparison& comparison);

/// Whether the comparison is of a fix, and was made.
bool is_of_fix(const Comparison& comparison);

/// That of all fixes together, which are the cells of a matrix: a fault that a cell does not show
/// is shown by another one. Absent: none is of a fix.
std::optional<FixOutcome> outcome_of_fixes(const std::vector<Comparison>& comparisons);

/// Whether the comparison is of a fix, and was made without a job that is right.
bool has_no_reference(const Comparison& comparison);

/// Whether files changed and none of them was executed, as far as that is known; of the files that
/// were, none of the changed lines.
bool is_unexecuted(const FixedCode& code);

/// Whether the reference measures both sides: it trains in both states, and alike.
bool has_measure(const FixedCode& code);

/// Whether the comparison turned out as expected. A repetition always does: it only measures. It is
/// `not_applicable` if no name matched.
ExitStatus status_of(const Comparison& comparison);

/// The same of all of a record.
ExitStatus status_of(const std::vector<Comparison>& comparisons);

}  // namespace lockstep
