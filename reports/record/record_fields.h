#pragma once

#include <string_view>
#include <tuple>
#include <utility>

#include "reports/record/run_record.h"

namespace lockstep {

/// The number continues from 1.6 to 2.0, so that it orders all versions.
inline constexpr int kSince2 = 7;

/// A field of a record type and its name in record.json.
template <class Owner, class Value>
struct Field {
  std::string_view name;
  Value Owner::*member;
  int since = 0;                 ///< version of the schema that added it; older records lack it
  std::string_view former = {};  ///< name in records of 1.x; empty: the same as `name`
};

template <class Owner, class Value>
constexpr Field<Owner, Value> field(std::string_view name, Value Owner::*member, int since = 0,
                                    std::string_view former = {}) {
  return {name, member, since, former};
}

/// The fields of a record type, in writing order. Writer and reader both follow this list;
/// reports/record/record.schema.json describes it.
template <class Type>
struct Fields;  // static constexpr std::tuple<Field<...>...> list

template <class Type>
concept HasFields = requires {
  Fields<Type>::list;
};

/// Calls `visit` with every field of `Type`, in order.
template <HasFields Type, class Visit>
void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); }, Fields<Type>::list);
}

template <>
struct Fields<AxisValue> {
  static constexpr auto list =
      std::tuple(field("axis", &AxisValue::axis),  //
                 field("value", &AxisValue::value), field("is_default", &AxisValue::is_default, 5));
};

template <>
struct Fields<Cell> {
  static constexpr auto list = std::tuple(
      field("scenario", &Cell::scenario), field("variant", &Cell::variant),
      field("role", &Cell::role), field("world_size", &Cell::world_size),
      field("axes", &Cell::axes), field("backend", &Cell::backend), field("device", &Cell::device),
      field("steps", &Cell::steps), field("seed", &Cell::seed),
      field("repetition", &Cell::repetition, 1), field("collectives", &Cell::collectives, 6));
};

template <>
struct Fields<Claim> {
  static constexpr auto list =
      std::tuple(field("predicate", &Claim::predicate), field("kind", &Claim::kind),
                 field("phase", &Claim::phase, 0, "point"));
};

template <>
struct Fields<ExpectedError> {
  static constexpr auto list =
      std::tuple(field("fragment", &ExpectedError::fragment), field("step", &ExpectedError::step),
                 field("lag", &ExpectedError::lag));
};

template <>
struct Fields<Range> {
  static constexpr auto list =
      std::tuple(field("least", &Range::least, 4), field("most", &Range::most, 4));
};

template <>
struct Fields<Pin> {
  static constexpr auto list =
      std::tuple(field("claim", &Pin::claim, 4), field("steps", &Pin::steps, 4),
                 field("last_step", &Pin::last_step, 4), field("tensors", &Pin::tensors, 4),
                 field("attribution", &Pin::attribution, 4, "origin"),
                 field("ratio", &Pin::ratio, 4), field("cosine", &Pin::cosine, 4),
                 field("groups", &Pin::groups, 4), field("fault", &Pin::fault, 4),
                 field("culprits", &Pin::culprits, 4), field("why", &Pin::why, 4));
};

template <>
struct Fields<Expectation> {
  static constexpr auto list = std::tuple(
      field("breaks", &Expectation::breaks), field("raises", &Expectation::raises),
      field("meets", &Expectation::meets), field("not_applicable", &Expectation::not_applicable),
      field("not_triggered", &Expectation::not_triggered, 1),
      field("symptom", &Expectation::symptom, 2, "outcome"), field("pins", &Expectation::pins, 4));
};

template <>
struct Fields<ElementDifference> {
  static constexpr auto list =
      std::tuple(field("index", &ElementDifference::index), field("left", &ElementDifference::left),
                 field("right", &ElementDifference::right),
                 field("left_value", &ElementDifference::left_value),
                 field("right_value", &ElementDifference::right_value),
                 field("left_bits", &ElementDifference::left_bits),
                 field("right_bits", &ElementDifference::right_bits),
                 field("ulp_distance", &ElementDifference::ulp_distance));
};

template <>
struct Fields<RankFailure> {
  static constexpr auto list =
      std::tuple(field("rank", &RankFailure::rank), field("how", &RankFailure::how),
                 field("error", &RankFailure::error),
                 field("last_output", &RankFailure::last_output), field("lag", &RankFailure::lag));
};

template <>
struct Fields<NonFiniteBirth> {
  static constexpr auto list =
      std::tuple(field("kind", &NonFiniteBirth::kind, kSince2),
                 field("tensor", &NonFiniteBirth::tensor, kSince2),
                 field("ranks", &NonFiniteBirth::ranks, kSince2),
                 field("finite_ranks", &NonFiniteBirth::finite_ranks, kSince2),
                 field("non_finite", &NonFiniteBirth::non_finite, kSince2),
                 field("elements", &NonFiniteBirth::elements, kSince2));
};

template <>
struct Fields<Finding> {
  static constexpr auto list = std::tuple(
      field("claim", &Finding::claim), field("step", &Finding::step),
      field("tensor", &Finding::tensor), field("groups", &Finding::groups),
      field("first_difference", &Finding::first_difference),
      field("differing_elements", &Finding::differing_elements),
      field("elements", &Finding::elements), field("worst_difference", &Finding::worst_difference),
      field("relative_difference", &Finding::relative_difference),
      field("tolerance", &Finding::tolerance), field("ratio", &Finding::ratio),
      field("cosine", &Finding::cosine), field("ratio_in_words", &Finding::ratio_in_words),
      field("places", &Finding::places), field("last_step", &Finding::last_step),
      field("last_worst_difference", &Finding::last_worst_difference),
      field("failure", &Finding::failure), field("sentence", &Finding::sentence),
      field("tensors", &Finding::tensors, 4),
      field("attribution", &Finding::attribution, 4, "origin"),
      field("estimate_error", &Finding::estimate_error, kSince2),
      field("kind", &Finding::kind, kSince2), field("birth", &Finding::birth, kSince2));
};

template <>
struct Fields<RankExit> {
  static constexpr auto list = std::tuple(
      field("rank", &RankExit::rank), field("kind", &RankExit::kind, 0, "ending"),
      field("code", &RankExit::code), field("order", &RankExit::order),
      field("step", &RankExit::step), field("is_after_step", &RankExit::is_after_step, kSince2),
      field("error", &RankExit::error), field("detail", &RankExit::detail),
      field("last_output", &RankExit::last_output), field("line", &RankExit::line, 1),
      field("step_s", &RankExit::step_s, 1), field("ended_ns", &RankExit::ended_ns, 3),
      field("limit_s", &RankExit::limit_s, 4), field("step_began_ns", &RankExit::step_began_ns, 4),
      field("rendezvous", &RankExit::rendezvous, 4), field("rows", &RankExit::rows, 4),
      field("cause", &RankExit::cause, 5));
};

template <>
struct Fields<ClaimResult> {
  static constexpr auto list = std::tuple(
      field("claim", &ClaimResult::claim), field("verdict", &ClaimResult::verdict),
      field("reason", &ClaimResult::reason), field("comparisons", &ClaimResult::comparisons),
      field("margin", &ClaimResult::margin), field("findings", &ClaimResult::findings),
      field("tolerance", &ClaimResult::tolerance, 1),
      field("tolerance_from", &ClaimResult::tolerance_from, 1),
      field("reduced_in_step", &ClaimResult::reduced_in_step, kSince2));
};

template <>
struct Fields<Check> {
  static constexpr auto list = std::tuple(
      field("promise", &Check::promise), field("result", &Check::result, 0, "outcome"),  //
      field("text", &Check::text), field("claim", &Check::claim, 4));
};

template <>
struct Fields<Cost> {
  static constexpr auto list =
      std::tuple(field("collectives", &Cost::collectives, 1), field("bytes", &Cost::bytes, 1),
                 field("step_s", &Cost::step_s, 1), field("memory", &Cost::memory, 2));
};

template <>
struct Fields<Symptom> {
  static constexpr auto list =
      std::tuple(field("kind", &Symptom::kind, 2), field("step", &Symptom::step, 2),
                 field("wrong_step", &Symptom::wrong_step, 2), field("tensor", &Symptom::tensor, 2),
                 field("ratio", &Symptom::ratio, 2), field("cosine", &Symptom::cosine, 2),
                 field("error", &Symptom::error, 2), field("text", &Symptom::text, 2));
};

template <>
struct Fields<CallOfRank> {
  static constexpr auto list = std::tuple(
      field("text", &CallOfRank::text, 3), field("site", &CallOfRank::site, 3),
      field("is_open", &CallOfRank::is_open, 3), field("open_s", &CallOfRank::open_s, 3));
};

template <>
struct Fields<CollectiveRow> {
  static constexpr auto list = std::tuple(
      field("number", &CollectiveRow::number, 3), field("step", &CollectiveRow::step, 3),
      field("calls", &CollectiveRow::calls, 3), field("differs", &CollectiveRow::differs, 3));
};

template <>
struct Fields<CollectiveMismatch> {
  static constexpr auto list = std::tuple(
      field("fault", &CollectiveMismatch::fault, 3), field("group", &CollectiveMismatch::group, 3),
      field("number", &CollectiveMismatch::number, 3), field("step", &CollectiveMismatch::step, 3),
      field("culprits", &CollectiveMismatch::culprits, 3),
      field("waiting", &CollectiveMismatch::waiting, 3),
      field("sentence", &CollectiveMismatch::sentence, 3),
      field("rows", &CollectiveMismatch::rows, 3));
};

template <>
struct Fields<NotRun> {
  static constexpr auto list = std::tuple(field("cause", &NotRun::cause, 4),  //
                                          field("reason", &NotRun::reason, 4));
};

template <>
struct Fields<ObservedSteps> {
  static constexpr auto list = std::tuple(field("count", &ObservedSteps::count, kSince2),
                                          field("first", &ObservedSteps::first, kSince2),
                                          field("last", &ObservedSteps::last, kSince2),
                                          field("thinned", &ObservedSteps::thinned, kSince2));
};

template <>
struct Fields<ManifestSeal> {
  static constexpr auto list = std::tuple(field("files", &ManifestSeal::files, kSince2),
                                          field("bytes", &ManifestSeal::bytes, kSince2),
                                          field("digest", &ManifestSeal::digest, kSince2));
};

/// Written as fields of the containing type, not as an object of their own.
template <>
struct Fields<Execution> {
  static constexpr auto list = std::tuple(
      field("folder", &Execution::folder), field("processes", &Execution::processes),
      field("duration_s", &Execution::duration_s), field("launcher", &Execution::launcher, 3),
      field("exits", &Execution::exits, 0, "ends"),
      field("manifest", &Execution::manifest, kSince2), field("claims", &Execution::claims),
      field("results", &Execution::results), field("steps", &Execution::steps, kSince2),
      field("symptom", &Execution::symptom, 2, "outcome"),
      field("mismatch", &Execution::mismatch, 3, "missed_meeting"),
      field("cost", &Execution::cost, 1), field("not_run", &Execution::not_run, 4),
      field("notes", &Execution::notes));
};

template <>
struct Fields<CellRecord> {
  static constexpr auto list = std::tuple_cat(
      std::tuple(field("cell", &CellRecord::cell)), Fields<Execution>::list,
      std::tuple(field("reference_folder", &CellRecord::reference_folder),
                 field("source", &CellRecord::source), field("reproduce", &CellRecord::reproduce),
                 field("expectation", &CellRecord::expectation),
                 field("checks", &CellRecord::checks), field("verdict", &CellRecord::verdict)));
};

template <>
struct Fields<NotCompared> {
  static constexpr auto list = std::tuple(field("reason", &NotCompared::reason, kSince2),
                                          field("count", &NotCompared::count, kSince2),
                                          field("example", &NotCompared::example, kSince2));
};

template <>
struct Fields<ComparedUntil> {
  static constexpr auto list = std::tuple(field("kind", &ComparedUntil::kind, kSince2),
                                          field("step", &ComparedUntil::step, kSince2),
                                          field("count", &ComparedUntil::count, kSince2),
                                          field("example", &ComparedUntil::example, kSince2));
};

template <>
struct Fields<SkippedSteps> {
  static constexpr auto list = std::tuple(field("steps", &SkippedSteps::steps, kSince2),
                                          field("ranks", &SkippedSteps::ranks, kSince2));
};

template <>
struct Fields<Coverage> {
  static constexpr auto list = std::tuple(field("parameters", &Coverage::parameters, kSince2),
                                          field("compared", &Coverage::compared, kSince2),
                                          field("unshared", &Coverage::unshared, kSince2),
                                          field("declared", &Coverage::declared, kSince2),
                                          field("ranks", &Coverage::ranks, kSince2),
                                          field("not_compared", &Coverage::not_compared, kSince2),
                                          field("until", &Coverage::until, kSince2));
};

template <>
struct Fields<TableSpec::Group> {
  static constexpr auto list = std::tuple(field("heading", &TableSpec::Group::heading),
                                          field("variant", &TableSpec::Group::variant));
};

template <>
struct Fields<TableSpec> {
  static constexpr auto list = std::tuple(
      field("title", &TableSpec::title), field("quantity", &TableSpec::quantity),
      field("kind", &TableSpec::kind), field("phase", &TableSpec::phase, 0, "point"),
      field("tensor", &TableSpec::tensor), field("element", &TableSpec::element),
      field("symbol", &TableSpec::symbol), field("digits", &TableSpec::digits),
      field("groups", &TableSpec::groups), field("first_step", &TableSpec::first_step, 1),
      field("steps", &TableSpec::steps, 1));
};

template <>
struct Fields<Table::Entry> {
  static constexpr auto list =
      std::tuple(field("values", &Table::Entry::values),  //
                 field("synced", &Table::Entry::synced), field("drift", &Table::Entry::drift, 1),
                 field("estimate", &Table::Entry::estimate, kSince2));
};

template <>
struct Fields<Table::Row> {
  static constexpr auto list = std::tuple(field("step", &Table::Row::step),  //
                                          field("entries", &Table::Row::entries));
};

template <>
struct Fields<Table> {
  static constexpr auto list = std::tuple(
      field("scenario", &Table::scenario), field("world_size", &Table::world_size),
      field("axes", &Table::axes), field("spec", &Table::spec), field("rows", &Table::rows));
};

template <>
struct Fields<Traffic> {
  static constexpr auto list = std::tuple(field("ranks", &Traffic::ranks, kSince2),
                                          field("group_size", &Traffic::group_size, kSince2),
                                          field("first_step", &Traffic::first_step, kSince2),
                                          field("last_step", &Traffic::last_step, kSince2),
                                          field("collectives", &Traffic::collectives, kSince2));
};

template <>
struct Fields<Setting> {
  static constexpr auto list =
      std::tuple(field("name", &Setting::name, kSince2), field("value", &Setting::value, kSince2),
                 field("ranks", &Setting::ranks, kSince2));
};

template <>
struct Fields<JobPart> {
  static constexpr auto list = std::tuple(
      field("id", &JobPart::id, kSince2), field("folder", &JobPart::folder, kSince2),
      field("ranks", &JobPart::ranks, kSince2), field("manifest", &JobPart::manifest, kSince2));
};

template <>
struct Fields<Precision> {
  static constexpr auto list = std::tuple(field("operation", &Precision::operation, kSince2),
                                          field("dtype", &Precision::dtype, kSince2),
                                          field("first_step", &Precision::first_step, kSince2),
                                          field("ranks", &Precision::ranks, kSince2));
};

template <>
struct Fields<NamedGroup> {
  static constexpr auto list = std::tuple(field("name", &NamedGroup::name, kSince2),
                                          field("size", &NamedGroup::size, kSince2),
                                          field("ranks", &NamedGroup::ranks, kSince2));
};

template <>
struct Fields<JobComparison> {
  static constexpr auto list = std::tuple(field("with", &JobComparison::with, kSince2),
                                          field("folder", &JobComparison::folder, kSince2),
                                          field("result", &JobComparison::result, kSince2),
                                          field("sentence", &JobComparison::sentence, kSince2));
};

template <>
struct Fields<JobDemands> {
  static constexpr auto list = std::tuple(field("expected", &JobDemands::expected, kSince2),
                                          field("min_steps", &JobDemands::min_steps, kSince2),
                                          field("is_strict", &JobDemands::is_strict, kSince2));
};

template <>
struct Fields<JobRecord> {
  static constexpr auto list = std::tuple_cat(
      std::tuple(field("id", &JobRecord::id, kSince2), field("title", &JobRecord::title, kSince2),
                 field("world_size", &JobRecord::world_size, kSince2),
                 field("planned_steps", &JobRecord::planned_steps, kSince2)),
      Fields<Execution>::list,
      std::tuple(field("faults", &JobRecord::faults, kSince2),
                 field("coverage", &JobRecord::coverage, kSince2),
                 field("unsealed", &JobRecord::unsealed, kSince2),
                 field("tables", &JobRecord::tables, kSince2),
                 field("skipped_steps", &JobRecord::skipped_steps, kSince2),
                 field("agree_every", &JobRecord::agree_every, kSince2),
                 field("thinned_after", &JobRecord::thinned_after, kSince2),
                 field("captured_updates", &JobRecord::captured_updates, kSince2),
                 field("traffic", &JobRecord::traffic, kSince2),
                 field("traffic_in_steps", &JobRecord::traffic_in_steps, kSince2),
                 field("configuration", &JobRecord::configuration, kSince2),
                 field("precisions", &JobRecord::precisions, kSince2),
                 field("groups", &JobRecord::groups, kSince2),
                 field("node", &JobRecord::node, kSince2),
                 field("elsewhere", &JobRecord::elsewhere, kSince2),
                 field("left_running", &JobRecord::left_running, kSince2),
                 field("rendezvous", &JobRecord::rendezvous, kSince2),
                 field("parts", &JobRecord::parts, kSince2),
                 field("command_status", &JobRecord::command_status, kSince2),
                 field("skipped_by", &JobRecord::skipped_by, kSince2),
                 field("comparisons", &JobRecord::comparisons, kSince2),
                 field("command_error", &JobRecord::command_error, kSince2),
                 field("demands", &JobRecord::demands, kSince2)));
};

template <>
struct Fields<RunEnvironment> {
  static constexpr auto list = std::tuple(
      field("started_utc", &RunEnvironment::started_utc), field("host", &RunEnvironment::host),
      field("lockstep_version", &RunEnvironment::lockstep_version),
      field("torch_version", &RunEnvironment::torch_version),
      field("compiler", &RunEnvironment::compiler),
      field("digest", &RunEnvironment::digest, 0, "fingerprint"),
      field("variables", &RunEnvironment::variables),
      field("jobs", &RunEnvironment::jobs, kSince2));
};

template <>
struct Fields<PlannedCounts> {
  static constexpr auto list = std::tuple(field("cells", &PlannedCounts::cells, 4),
                                          field("claims", &PlannedCounts::claims, 4),
                                          field("jobs", &PlannedCounts::jobs, kSince2));
};

template <>
struct Fields<RunRecord> {
  static constexpr auto list =
      std::tuple(field("command", &RunRecord::command),
                 field("environment", &RunRecord::environment), field("cells", &RunRecord::cells),
                 field("jobs", &RunRecord::jobs, kSince2), field("tables", &RunRecord::tables),
                 field("notes", &RunRecord::notes, 1), field("planned", &RunRecord::planned, 4));
};

}  // namespace lockstep
