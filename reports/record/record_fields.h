#pragma once

#include <string_view>
#include <tuple>
#include <utility>

#include "reports/record/run_record.h"

namespace lockstep {

/// A field of a record type and its name in record.json.
template <class Owner, class Value>
struct Field {
  std::string_view name;
  Value Owner::*member;
};

template <class Owner, class Value>
constexpr Field<Owner, Value> field(std::string_view name, Value Owner::*member) {
  return {name, member};
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
                 field("value", &AxisValue::value), field("is_default", &AxisValue::is_default));
};

template <>
struct Fields<Cell> {
  static constexpr auto list = std::tuple(
      field("scenario", &Cell::scenario), field("variant", &Cell::variant),
      field("role", &Cell::role), field("world_size", &Cell::world_size),
      field("axes", &Cell::axes), field("backend", &Cell::backend), field("device", &Cell::device),
      field("steps", &Cell::steps), field("seed", &Cell::seed),
      field("repetition", &Cell::repetition), field("collectives", &Cell::collectives));
};

template <>
struct Fields<Claim> {
  static constexpr auto list =
      std::tuple(field("predicate", &Claim::predicate), field("kind", &Claim::kind),
                 field("phase", &Claim::phase));
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
      std::tuple(field("least", &Range::least), field("most", &Range::most));
};

template <>
struct Fields<Pin> {
  static constexpr auto list = std::tuple(
      field("claim", &Pin::claim), field("steps", &Pin::steps), field("last_step", &Pin::last_step),
      field("tensors", &Pin::tensors), field("attribution", &Pin::attribution),
      field("ratio", &Pin::ratio), field("cosine", &Pin::cosine), field("groups", &Pin::groups),
      field("fault", &Pin::fault), field("culprits", &Pin::culprits), field("why", &Pin::why));
};

template <>
struct Fields<Expectation> {
  static constexpr auto list = std::tuple(
      field("breaks", &Expectation::breaks), field("raises", &Expectation::raises),
      field("meets", &Expectation::meets), field("not_applicable", &Expectation::not_applicable),
      field("not_triggered", &Expectation::not_triggered), field("symptom", &Expectation::symptom),
      field("pins", &Expectation::pins));
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
  static constexpr auto list = std::tuple(
      field("rank", &RankFailure::rank), field("how", &RankFailure::how),
      field("error", &RankFailure::error), field("last_output", &RankFailure::last_output),
      field("lag", &RankFailure::lag), field("place", &RankFailure::place));
};

template <>
struct Fields<NonFiniteBirth> {
  static constexpr auto list = std::tuple(
      field("kind", &NonFiniteBirth::kind), field("tensor", &NonFiniteBirth::tensor),
      field("ranks", &NonFiniteBirth::ranks), field("finite_ranks", &NonFiniteBirth::finite_ranks),
      field("non_finite", &NonFiniteBirth::non_finite),
      field("elements", &NonFiniteBirth::elements));
};

template <>
struct Fields<RatioCause> {
  static constexpr auto list =
      std::tuple(field("kind", &RatioCause::kind), field("count", &RatioCause::count),
                 field("size", &RatioCause::size));
};

template <>
struct Fields<Ratio> {
  static constexpr auto list =
      std::tuple(field("factor", &Ratio::factor), field("error", &Ratio::error),
                 field("causes", &Ratio::causes));
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
      field("cosine", &Finding::cosine), field("multiple", &Finding::multiple),
      field("places", &Finding::places), field("last_step", &Finding::last_step),
      field("last_worst_difference", &Finding::last_worst_difference),
      field("failure", &Finding::failure), field("sentence", &Finding::sentence),
      field("tensors", &Finding::tensors), field("compared", &Finding::compared),
      field("pattern", &Finding::pattern), field("attribution", &Finding::attribution),
      field("attribution_in_words", &Finding::attribution_in_words),
      field("estimate_error", &Finding::estimate_error), field("kind", &Finding::kind),
      field("birth", &Finding::birth));
};

template <>
struct Fields<RankExit> {
  static constexpr auto list = std::tuple(
      field("rank", &RankExit::rank), field("kind", &RankExit::kind),
      field("code", &RankExit::code), field("order", &RankExit::order),
      field("step", &RankExit::step), field("is_after_step", &RankExit::is_after_step),
      field("place", &RankExit::place), field("during", &RankExit::during),
      field("awaits_message", &RankExit::awaits_message), field("stack", &RankExit::stack),
      field("peak_bytes", &RankExit::peak_bytes), field("error", &RankExit::error),
      field("detail", &RankExit::detail), field("last_output", &RankExit::last_output),
      field("line", &RankExit::line), field("step_s", &RankExit::step_s),
      field("ended_ns", &RankExit::ended_ns), field("limit_s", &RankExit::limit_s),
      field("step_began_ns", &RankExit::step_began_ns), field("rendezvous", &RankExit::rendezvous),
      field("rows", &RankExit::rows), field("cause", &RankExit::cause));
};

template <>
struct Fields<ClaimResult> {
  static constexpr auto list = std::tuple(
      field("claim", &ClaimResult::claim), field("verdict", &ClaimResult::verdict),
      field("reason", &ClaimResult::reason), field("comparisons", &ClaimResult::comparisons),
      field("margin", &ClaimResult::margin), field("findings", &ClaimResult::findings),
      field("tolerance", &ClaimResult::tolerance),
      field("tolerance_from", &ClaimResult::tolerance_from),
      field("reduced_in_step", &ClaimResult::reduced_in_step));
};

template <>
struct Fields<Check> {
  static constexpr auto list =
      std::tuple(field("promise", &Check::promise), field("result", &Check::result),  //
                 field("text", &Check::text), field("claim", &Check::claim));
};

template <>
struct Fields<Cost> {
  static constexpr auto list =
      std::tuple(field("collectives", &Cost::collectives), field("bytes", &Cost::bytes),
                 field("step_s", &Cost::step_s), field("memory", &Cost::memory));
};

template <>
struct Fields<Symptom> {
  static constexpr auto list =
      std::tuple(field("kind", &Symptom::kind), field("step", &Symptom::step),
                 field("wrong_step", &Symptom::wrong_step), field("tensor", &Symptom::tensor),
                 field("ratio", &Symptom::ratio), field("cosine", &Symptom::cosine),
                 field("error", &Symptom::error), field("text", &Symptom::text));
};

template <>
struct Fields<CallOfRank> {
  static constexpr auto list =
      std::tuple(field("text", &CallOfRank::text), field("site", &CallOfRank::site),
                 field("is_open", &CallOfRank::is_open), field("open_s", &CallOfRank::open_s));
};

template <>
struct Fields<CollectiveRow> {
  static constexpr auto list =
      std::tuple(field("number", &CollectiveRow::number), field("step", &CollectiveRow::step),
                 field("calls", &CollectiveRow::calls), field("differs", &CollectiveRow::differs));
};

template <>
struct Fields<CollectiveMismatch> {
  static constexpr auto list = std::tuple(
      field("fault", &CollectiveMismatch::fault), field("group", &CollectiveMismatch::group),
      field("number", &CollectiveMismatch::number), field("step", &CollectiveMismatch::step),
      field("culprits", &CollectiveMismatch::culprits),
      field("waiting", &CollectiveMismatch::waiting),
      field("sentence", &CollectiveMismatch::sentence), field("rows", &CollectiveMismatch::rows));
};

template <>
struct Fields<NotRun> {
  static constexpr auto list = std::tuple(field("cause", &NotRun::cause),  //
                                          field("reason", &NotRun::reason));
};

template <>
struct Fields<ObservedSteps> {
  static constexpr auto list =
      std::tuple(field("count", &ObservedSteps::count), field("first", &ObservedSteps::first),
                 field("last", &ObservedSteps::last), field("thinned", &ObservedSteps::thinned));
};

template <>
struct Fields<ManifestSeal> {
  static constexpr auto list =
      std::tuple(field("files", &ManifestSeal::files), field("bytes", &ManifestSeal::bytes),
                 field("digest", &ManifestSeal::digest));
};

/// Written as fields of the containing type, not as an object of their own.
template <>
struct Fields<Execution> {
  static constexpr auto list = std::tuple(
      field("folder", &Execution::folder), field("processes", &Execution::processes),
      field("duration_s", &Execution::duration_s), field("launcher", &Execution::launcher),
      field("exits", &Execution::exits), field("manifest", &Execution::manifest),
      field("claims", &Execution::claims), field("results", &Execution::results),
      field("steps", &Execution::steps), field("symptom", &Execution::symptom),
      field("mismatch", &Execution::mismatch), field("cost", &Execution::cost),
      field("not_run", &Execution::not_run), field("notes", &Execution::notes));
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
  static constexpr auto list =
      std::tuple(field("kind", &NotCompared::kind), field("reason", &NotCompared::reason),
                 field("count", &NotCompared::count), field("example", &NotCompared::example));
};

template <>
struct Fields<ComparedUntil> {
  static constexpr auto list =
      std::tuple(field("kind", &ComparedUntil::kind), field("step", &ComparedUntil::step),
                 field("count", &ComparedUntil::count), field("example", &ComparedUntil::example));
};

template <>
struct Fields<StepsOfRanks> {
  static constexpr auto list =
      std::tuple(field("steps", &StepsOfRanks::steps), field("ranks", &StepsOfRanks::ranks));
};

template <>
struct Fields<Coverage> {
  static constexpr auto list =
      std::tuple(field("parameters", &Coverage::parameters), field("compared", &Coverage::compared),
                 field("unshared", &Coverage::unshared), field("declared", &Coverage::declared),
                 field("ranks", &Coverage::ranks), field("not_compared", &Coverage::not_compared),
                 field("until", &Coverage::until));
};

template <>
struct Fields<TableSpec::Group> {
  static constexpr auto list = std::tuple(field("heading", &TableSpec::Group::heading),
                                          field("variant", &TableSpec::Group::variant));
};

template <>
struct Fields<TableSpec> {
  static constexpr auto list =
      std::tuple(field("title", &TableSpec::title), field("quantity", &TableSpec::quantity),
                 field("kind", &TableSpec::kind), field("phase", &TableSpec::phase),
                 field("tensor", &TableSpec::tensor), field("element", &TableSpec::element),
                 field("symbol", &TableSpec::symbol), field("digits", &TableSpec::digits),
                 field("groups", &TableSpec::groups), field("first_step", &TableSpec::first_step),
                 field("steps", &TableSpec::steps));
};

template <>
struct Fields<Table::Entry> {
  static constexpr auto list =
      std::tuple(field("values", &Table::Entry::values),  //
                 field("synced", &Table::Entry::synced), field("drift", &Table::Entry::drift),
                 field("estimate", &Table::Entry::estimate));
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
  static constexpr auto list =
      std::tuple(field("ranks", &Traffic::ranks), field("group_size", &Traffic::group_size),
                 field("first_step", &Traffic::first_step), field("last_step", &Traffic::last_step),
                 field("collectives", &Traffic::collectives));
};

template <>
struct Fields<Setting> {
  static constexpr auto list =
      std::tuple(field("name", &Setting::name), field("value", &Setting::value),
                 field("ranks", &Setting::ranks));
};

template <>
struct Fields<SettingApart> {
  static constexpr auto list =
      std::tuple(field("name", &SettingApart::name), field("step", &SettingApart::step),
                 field("values", &SettingApart::values));
};

template <>
struct Fields<JobPart> {
  static constexpr auto list =
      std::tuple(field("id", &JobPart::id), field("folder", &JobPart::folder),
                 field("ranks", &JobPart::ranks), field("manifest", &JobPart::manifest));
};

template <>
struct Fields<Precision> {
  static constexpr auto list =
      std::tuple(field("operation", &Precision::operation), field("dtype", &Precision::dtype),
                 field("first_step", &Precision::first_step), field("ranks", &Precision::ranks));
};

template <>
struct Fields<NamedGroup> {
  static constexpr auto list =
      std::tuple(field("name", &NamedGroup::name), field("size", &NamedGroup::size),
                 field("ranks", &NamedGroup::ranks));
};

template <>
struct Fields<JobDemands> {
  static constexpr auto list = std::tuple(
      field("expected", &JobDemands::expected), field("min_steps", &JobDemands::min_steps),
      field("is_strict", &JobDemands::is_strict), field("error", &JobDemands::error));
};

template <>
struct Fields<Unreduced> {
  static constexpr auto list = std::tuple(
      field("reason", &Unreduced::reason), field("wrapper", &Unreduced::wrapper),
      field("place", &Unreduced::place), field("first_step", &Unreduced::first_step),
      field("last_step", &Unreduced::last_step), field("ranks", &Unreduced::ranks),
      field("parameters", &Unreduced::parameters), field("explains", &Unreduced::explains),
      field("is_repeated", &Unreduced::is_repeated),
      field("is_evaluated", &Unreduced::is_evaluated));
};

template <>
struct Fields<CallsAtPlace> {
  static constexpr auto list =
      std::tuple(field("operation", &CallsAtPlace::operation), field("place", &CallsAtPlace::place),
                 field("calls", &CallsAtPlace::calls),
                 field("is_of_gradients", &CallsAtPlace::is_of_gradients));
};

template <>
struct Fields<LastCalls> {
  static constexpr auto list = std::tuple(
      field("ranks", &LastCalls::ranks), field("step", &LastCalls::step),
      field("without_gradient", &LastCalls::without_gradient), field("calls", &LastCalls::calls));
};

template <>
struct Fields<JoinedRanks> {
  static constexpr auto list =
      std::tuple(field("ranks", &JoinedRanks::ranks), field("after", &JoinedRanks::after),
                 field("until", &JoinedRanks::until));
};

template <>
struct Fields<Untrained> {
  static constexpr auto list = std::tuple(
      field("optimizer", &Untrained::optimizer), field("place", &Untrained::place),
      field("is_sharded", &Untrained::is_sharded), field("held", &Untrained::held),
      field("first_step", &Untrained::first_step), field("last_step", &Untrained::last_step),
      field("ranks", &Untrained::ranks), field("parameters", &Untrained::parameters));
};

template <>
struct Fields<PairedParameters> {
  static constexpr auto list = std::tuple(
      field("wrapper", &PairedParameters::wrapper), field("count", &PairedParameters::count),
      field("names", &PairedParameters::names), field("order", &PairedParameters::order),
      field("ranks", &PairedParameters::ranks));
};

template <>
struct Fields<BrokenTie> {
  static constexpr auto list =
      std::tuple(field("step", &BrokenTie::step), field("ranks", &BrokenTie::ranks),
                 field("parameters", &BrokenTie::parameters));
};

template <>
struct Fields<DividedApart> {
  static constexpr auto list = std::tuple(
      field("wrapper", &DividedApart::wrapper), field("place", &DividedApart::place),
      field("compared", &DividedApart::compared), field("parameters", &DividedApart::parameters));
};

template <>
struct Fields<ScheduleSteps> {
  static constexpr auto list =
      std::tuple(field("name", &ScheduleSteps::name), field("optimizer", &ScheduleSteps::optimizer),
                 field("steps", &ScheduleSteps::steps), field("step", &ScheduleSteps::step),
                 field("ranks", &ScheduleSteps::ranks));
};

template <>
struct Fields<DeviceUse> {
  static constexpr auto list =
      std::tuple(field("device", &DeviceUse::device), field("id", &DeviceUse::id),
                 field("parameters", &DeviceUse::parameters), field("ranks", &DeviceUse::ranks),
                 field("names", &DeviceUse::names));
};

template <>
struct Fields<Straggler> {
  static constexpr auto list =
      std::tuple(field("rank", &Straggler::rank), field("steps", &Straggler::steps),
                 field("late", &Straggler::late), field("waited_s", &Straggler::waited_s),
                 field("duration_s", &Straggler::duration_s));
};

template <>
struct Fields<WrongMetric> {
  static constexpr auto list =
      std::tuple(field("name", &WrongMetric::name), field("operation", &WrongMetric::operation),
                 field("step", &WrongMetric::step), field("reported", &WrongMetric::reported),
                 field("expected", &WrongMetric::expected));
};

template <>
struct Fields<FrozenParameter> {
  static constexpr auto list = std::tuple(
      field("model", &FrozenParameter::model), field("name", &FrozenParameter::name),
      field("first", &FrozenParameter::first), field("last", &FrozenParameter::last),
      field("ranks", &FrozenParameter::ranks), field("is_buffer", &FrozenParameter::is_buffer));
};

template <>
struct Fields<SamplerUse> {
  static constexpr auto list =
      std::tuple(field("name", &SamplerUse::name), field("place", &SamplerUse::place),
                 field("samples", &SamplerUse::samples), field("parts", &SamplerUse::parts),
                 field("part", &SamplerUse::part), field("seed", &SamplerUse::seed),
                 field("passes", &SamplerUse::passes), field("repeats", &SamplerUse::repeats),
                 field("ranks", &SamplerUse::ranks));
};

template <>
struct Fields<PeakMemory> {
  static constexpr auto list =
      std::tuple(field("most", &PeakMemory::most), field("most_of", &PeakMemory::most_of),
                 field("least", &PeakMemory::least), field("least_of", &PeakMemory::least_of));
};

template <>
struct Fields<JobRecord> {
  static constexpr auto list = std::tuple_cat(
      std::tuple(field("id", &JobRecord::id), field("title", &JobRecord::title),
                 field("label", &JobRecord::label), field("world_size", &JobRecord::world_size),
                 field("planned_steps", &JobRecord::planned_steps)),
      Fields<Execution>::list,
      std::tuple(
          field("faults", &JobRecord::faults), field("coverage", &JobRecord::coverage),
          field("unsealed", &JobRecord::unsealed), field("tables", &JobRecord::tables),
          field("skipped_steps", &JobRecord::skipped_steps),
          field("agree_every", &JobRecord::agree_every),
          field("thinned_after", &JobRecord::thinned_after),
          field("written_before", &JobRecord::written_before),
          field("writes_known_until", &JobRecord::writes_known_until),
          field("captured_updates", &JobRecord::captured_updates),
          field("traffic", &JobRecord::traffic),
          field("traffic_in_steps", &JobRecord::traffic_in_steps),
          field("configuration", &JobRecord::configuration),
          field("settings_apart", &JobRecord::settings_apart),
          field("precisions", &JobRecord::precisions),
          field("calls_in_forward", &JobRecord::calls_in_forward),
          field("state_buffers", &JobRecord::state_buffers), field("groups", &JobRecord::groups),
          field("node", &JobRecord::node), field("elsewhere", &JobRecord::elsewhere),
          field("left_running", &JobRecord::left_running),
          field("rendezvous", &JobRecord::rendezvous), field("parts", &JobRecord::parts),
          field("command_status", &JobRecord::command_status),
          field("skipped_by", &JobRecord::skipped_by), field("unreduced", &JobRecord::unreduced),
          field("last_calls", &JobRecord::last_calls), field("joined", &JobRecord::joined),
          field("untrained", &JobRecord::untrained), field("broken_ties", &JobRecord::broken_ties),
          field("divided_apart", &JobRecord::divided_apart),
          field("parameter_orders", &JobRecord::parameter_orders),
          field("written_by", &JobRecord::written_by), field("optimizers", &JobRecord::optimizers),
          field("schedules", &JobRecord::schedules), field("devices", &JobRecord::devices),
          field("host_memory", &JobRecord::host_memory),
          field("device_memory", &JobRecord::device_memory),
          field("command_error", &JobRecord::command_error), field("reach", &JobRecord::reach),
          field("demands", &JobRecord::demands), field("perturbed", &JobRecord::perturbed),
          field("has_expected_error", &JobRecord::has_expected_error),
          field("bystanders", &JobRecord::bystanders), field("copies", &JobRecord::copies),
          field("straggler", &JobRecord::straggler), field("samplers", &JobRecord::samplers),
          field("frozen", &JobRecord::frozen), field("wrong_metrics", &JobRecord::wrong_metrics),
          field("earlier_attempts", &JobRecord::earlier_attempts)));
};

template <>
struct Fields<ElementDifferences> {
  static constexpr auto list = std::tuple(
      field("elements", &ElementDifferences::elements),
      field("differing", &ElementDifferences::differing), field("rows", &ElementDifferences::rows),
      field("differing_rows", &ElementDifferences::differing_rows),
      field("apart", &ElementDifferences::apart),
      field("is_rounded", &ElementDifferences::is_rounded),
      field("ulps", &ElementDifferences::ulps), field("place", &ElementDifferences::place),
      field("value_a", &ElementDifferences::value_a),
      field("value_b", &ElementDifferences::value_b));
};

template <>
struct Fields<TensorDifference> {
  static constexpr auto list = std::tuple(
      field("quantity", &TensorDifference::quantity), field("name", &TensorDifference::name),
      field("likeness", &TensorDifference::likeness),
      field("relative", &TensorDifference::relative),
      field("tolerance", &TensorDifference::tolerance), field("ratio", &TensorDifference::ratio),
      field("cosine", &TensorDifference::cosine),
      field("estimate_error", &TensorDifference::estimate_error),
      field("is_estimate", &TensorDifference::is_estimate),
      field("is_of_all", &TensorDifference::is_of_all),
      field("is_finite", &TensorDifference::is_finite),
      field("multiple", &TensorDifference::multiple), field("kind", &TensorDifference::kind),
      field("cause", &TensorDifference::cause), field("ranks", &TensorDifference::ranks),
      field("rest", &TensorDifference::rest),
      field("has_equal_inputs", &TensorDifference::has_equal_inputs),
      field("elements", &TensorDifference::elements));
};

template <>
struct Fields<NotComparable> {
  static constexpr auto list =
      std::tuple(field("quantity", &NotComparable::quantity), field("name", &NotComparable::name),
                 field("reason", &NotComparable::reason));
};

template <>
struct Fields<ModuleDifferences> {
  static constexpr auto list = std::tuple(
      field("basis", &ModuleDifferences::basis), field("decides", &ModuleDifferences::decides),
      field("tensors", &ModuleDifferences::tensors),
      field("not_comparable", &ModuleDifferences::not_comparable),
      field("alone", &ModuleDifferences::alone));
};

template <>
struct Fields<StepDifference> {
  static constexpr auto list = std::tuple(
      field("step", &StepDifference::step), field("other", &StepDifference::other),
      field("weights_apart", &StepDifference::weights_apart),
      field("undecidable", &StepDifference::undecidable),
      field("tensors", &StepDifference::tensors), field("modules", &StepDifference::modules),
      field("counts", &StepDifference::counts),
      field("most_gradients_agree", &StepDifference::most_gradients_agree));
};

template <>
struct Fields<Precondition> {
  static constexpr auto list =
      std::tuple(field("prerequisite", &Precondition::prerequisite),
                 field("likeness", &Precondition::likeness), field("text", &Precondition::text),
                 field("is_fault", &Precondition::is_fault));
};

template <>
struct Fields<ComparedSide> {
  static constexpr auto list = std::tuple(
      field("folder", &ComparedSide::folder), field("title", &ComparedSide::title),
      field("label", &ComparedSide::label), field("world_size", &ComparedSide::world_size),
      field("steps", &ComparedSide::steps), field("tensors", &ComparedSide::tensors),
      field("optimizer_tensors", &ComparedSide::optimizer_tensors),
      field("other_values", &ComparedSide::other_values),
      field("has_modules", &ComparedSide::has_modules), field("outcome", &ComparedSide::outcome),
      field("fault", &ComparedSide::fault), field("duration_s", &ComparedSide::duration_s),
      field("peak_bytes", &ComparedSide::peak_bytes),
      field("peak_device_bytes", &ComparedSide::peak_device_bytes));
};

template <>
struct Fields<TiedTensor> {
  static constexpr auto list =
      std::tuple(field("side", &TiedTensor::side), field("name", &TiedTensor::name),
                 field("same", &TiedTensor::same));
};

template <>
struct Fields<AllSteps> {
  static constexpr auto list =
      std::tuple(field("count", &AllSteps::count), field("tensors", &AllSteps::tensors));
};

template <>
struct Fields<ComparedPair> {
  static constexpr auto list =
      std::tuple(field("sides", &ComparedPair::sides), field("noise", &ComparedPair::noise),
                 field("preconditions", &ComparedPair::preconditions),
                 field("unmatched", &ComparedPair::unmatched),
                 field("matched", &ComparedPair::matched), field("steps", &ComparedPair::steps),
                 field("tied", &ComparedPair::tied), field("unmapped", &ComparedPair::unmapped),
                 field("without_evidence", &ComparedPair::without_evidence),
                 field("precisions", &ComparedPair::precisions),
                 field("hyperparameters", &ComparedPair::hyperparameters),
                 field("gradient_scale", &ComparedPair::gradient_scale),
                 field("all", &ComparedPair::all), field("result", &ComparedPair::result));
};

template <>
struct Fields<ChangedLines> {
  static constexpr auto list =
      std::tuple(field("count", &ChangedLines::count), field("executed", &ChangedLines::executed),
                 field("missing", &ChangedLines::missing));
};

template <>
struct Fields<FixedCode> {
  static constexpr auto list = std::tuple(
      field("states", &FixedCode::states), field("changed", &FixedCode::changed),
      field("executed", &FixedCode::executed), field("shared", &FixedCode::shared),
      field("has_other_files", &FixedCode::has_other_files), field("is_seen", &FixedCode::is_seen),
      field("changes_reference", &FixedCode::changes_reference),
      field("reference_before", &FixedCode::reference_before), field("lines", &FixedCode::lines),
      field("unrepeatable", &FixedCode::unrepeatable));
};

template <>
struct Fields<Comparison> {
  static constexpr auto list =
      std::tuple(field("purpose", &Comparison::purpose), field("expected", &Comparison::expected),
                 field("pairs", &Comparison::pairs), field("failure", &Comparison::failure),
                 field("cell", &Comparison::cell), field("code", &Comparison::code));
};

template <>
struct Fields<RunEnvironment> {
  static constexpr auto list = std::tuple(
      field("started_utc", &RunEnvironment::started_utc), field("host", &RunEnvironment::host),
      field("lockstep_version", &RunEnvironment::lockstep_version),
      field("torch_version", &RunEnvironment::torch_version),
      field("compiler", &RunEnvironment::compiler), field("digest", &RunEnvironment::digest),
      field("variables", &RunEnvironment::variables), field("jobs", &RunEnvironment::jobs));
};

template <>
struct Fields<PlannedCounts> {
  static constexpr auto list =
      std::tuple(field("cells", &PlannedCounts::cells), field("claims", &PlannedCounts::claims),
                 field("jobs", &PlannedCounts::jobs));
};

template <>
struct Fields<RunRecord> {
  static constexpr auto list = std::tuple(
      field("command", &RunRecord::command), field("environment", &RunRecord::environment),
      field("cells", &RunRecord::cells), field("jobs", &RunRecord::jobs),
      field("comparisons", &RunRecord::comparisons), field("tables", &RunRecord::tables),
      field("notes", &RunRecord::notes), field("planned", &RunRecord::planned));
};

}  // namespace lockstep
