#include "harness/verdict/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harness/compare/value_difference.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/distance.h"

namespace lockstep {

namespace {

constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

/// The tensors of a step that a table is about.
struct Subject {
  Kind kind = Kind::gradient;
  Phase phase = Phase::pre_step;
  std::string tensor;                            ///< empty: all of the kind
  const std::set<std::string>* names = nullptr;  ///< of which only these; null: all

  bool includes(const Observation& o) const {
    return o.kind == kind && o.phase == phase && (tensor.empty() || o.name == tensor) &&
           (!names || names->contains(o.name));
  }
};

/// One step of the subject on one rank: the last observation of each tensor, by name.
using Held = std::map<std::string, const Observation*>;

/// One step of the subject on all ranks.
struct Step {
  const StepView& view;
  std::vector<Held> ranks;
  bool is_of_job = false;

  const SnapshotTensor* kept(std::size_t rank, const std::string& name) const {
    const auto found = ranks[rank].find(name);
    if (found == ranks[rank].end()) return nullptr;
    return view.kept(static_cast<int>(rank), *found->second);
  }
};

Step find_in(const StepView& view, const Subject& subject) {
  Step step{view, {}, subject.names != nullptr};
  for (int rank = 0; rank < view.processes(); ++rank) {
    Held& held = step.ranks.emplace_back();
    for (const Observation& observation : view.observations(rank)) {
      if (subject.includes(observation)) held[observation.name] = &observation;
    }
  }
  return step;
}

std::set<std::string> names_of(const Step& step) {
  std::set<std::string> names;
  for (const Held& held : step.ranks) {
    for (const auto& [name, observation] : held) names.insert(name);
  }
  return names;
}

/// Whether a rank holds the tensors of another one with the same bits, and each can be compared.
bool has_bits_of(const Held& other, const Held& held) {
  if (held.size() != other.size()) return false;
  return std::all_of(held.begin(), held.end(), [&](const auto& named) {
    const Observation& mine = *named.second;
    const auto found = other.find(named.first);
    if (found == other.end() || !mine.not_comparable.empty()) return false;
    const Observation& its = *found->second;
    return std::tie(mine.dtype, mine.global_shape, mine.digest) ==
           std::tie(its.dtype, its.global_shape, its.digest);
  });
}

/// Whether all ranks hold the same bits of every tensor, and there is at least one. Ranks of a job
/// that observed nothing do not count.
bool is_synced(const Step& step) {
  const Held* front = nullptr;
  for (const Held& held : step.ranks) {
    if (held.empty() && step.is_of_job) continue;
    if (!front) front = &held;
    if (held.empty() || !has_bits_of(*front, held)) return false;
  }
  return front != nullptr;
}

double element_value(std::int64_t element, const SnapshotTensor* tensor) {
  if (!tensor) return kUnmeasured;
  const DType component = component_type(tensor->dtype);
  const std::size_t size = item_size(tensor->dtype);
  const auto place = static_cast<std::size_t>(element);
  if (place >= tensor->bytes.size() / size) return kUnmeasured;
  return component_value(component, tensor->bytes.data() + place * size);
}

/// Whether both ranks hold the same finite bits of a tensor in a job, which stores few values. In a
/// cell, a value that is missing was lost.
bool is_equal(const Step& step, std::size_t a, std::size_t b, const std::string& name) {
  if (!step.is_of_job) return false;
  const auto left = step.ranks[a].find(name);
  const auto right = step.ranks[b].find(name);
  if (left == step.ranks[a].end() || right == step.ranks[b].end()) return false;
  const Observation& one = *left->second;
  return one.not_comparable.empty() && is_same_value(one, *right->second) &&
         one.statistics.non_finite == 0;
}

/// The largest difference between two ranks in any tensor; NaN if one is unknown.
double distance(const Step& step, const std::set<std::string>& names, std::size_t a,
                std::size_t b) {
  double largest = 0;
  for (const std::string& name : names) {
    if (is_equal(step, a, b, name)) continue;
    const SnapshotTensor* left = step.kept(a, name);
    const SnapshotTensor* right = step.kept(b, name);
    const bool comparable =
        left && right && left->dtype == right->dtype && left->shape == right->shape;
    largest = worse(largest, comparable ? difference(*left, *right).worst : kUnmeasured);
  }
  return names.empty() ? kUnmeasured : largest;
}

/// The smallest and the largest value of each component of a tensor.
struct Extremes {
  std::vector<double> least;
  std::vector<double> most;

  explicit Extremes(const SnapshotTensor& tensor) : least(components_of(tensor)), most(least) {}

  /// Returns false if one of two different components is not finite.
  bool add(const SnapshotTensor& tensor) {
    const std::vector<double> added = components_of(tensor);
    for (std::size_t i = 0; i < added.size(); ++i) {
      const bool is_same = added[i] == least[i] || (std::isnan(added[i]) && std::isnan(least[i]));
      if (is_same) continue;
      if (!std::isfinite(added[i]) || !std::isfinite(least[i])) return false;
      least[i] = std::min(least[i], added[i]);
      most[i] = std::max(most[i], added[i]);
    }
    return true;
  }

  double apart() const {
    long double largest = 0;
    for (std::size_t i = 0; i < least.size(); ++i) {
      if (least[i] == most[i] || std::isnan(least[i])) continue;
      largest = std::max(largest, static_cast<long double>(most[i]) - least[i]);
    }
    return static_cast<double>(largest);
  }
};

/// The largest difference between two of all ranks in a tensor; NaN if one is unknown.
double spread(const Step& step, const std::string& name) {
  bool is_equal_on_all = true;
  for (std::size_t rank = 1; rank < step.ranks.size() && is_equal_on_all; ++rank) {
    is_equal_on_all = is_equal(step, 0, rank, name);
  }
  if (is_equal_on_all) return 0;
  std::optional<Extremes> extremes;
  const SnapshotTensor* first = nullptr;
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    const SnapshotTensor* const value = step.kept(rank, name);
    if (!value) return kUnmeasured;
    if (!first) {
      first = value;
      extremes.emplace(*value);
    } else if (value->dtype != first->dtype || value->shape != first->shape ||
               !extremes->add(*value)) {
      return kUnmeasured;
    }
  }
  return extremes->apart();
}

/// The largest difference between two ranks in any tensor; NaN if one is unknown.
double drift(const Step& step) {
  const std::set<std::string> names = names_of(step);
  double largest = names.empty() ? kUnmeasured : 0;
  for (const std::string& name : names) {
    largest = worse(largest, spread(step, name));
    if (std::isnan(largest)) break;
  }
  return largest;
}

/// L2 norm of the difference between two ranks over all tensors; empty if one is unknown.
std::optional<double> estimated_distance(const Step& step, const std::set<std::string>& names,
                                         std::size_t a, std::size_t b) {
  double squares = 0;
  for (const std::string& name : names) {
    if (is_equal(step, a, b, name)) continue;
    const auto left = step.ranks[a].find(name);
    const auto right = step.ranks[b].find(name);
    if (left == step.ranks[a].end() || right == step.ranks[b].end()) return {};
    const auto apart = distance_between(step.view, {static_cast<int>(a), left->second},
                                        {static_cast<int>(b), right->second});
    if (!apart) return {};
    squares += apart->norm * apart->norm;
  }
  return std::sqrt(squares);
}

/// The largest distance from rank 0.
std::optional<double> estimated_drift(const Step& step) {
  std::optional<double> largest;
  const std::set<std::string> names = names_of(step);
  for (std::size_t rank = 1; rank < step.ranks.size(); ++rank) {
    const auto apart = estimated_distance(step, names, 0, rank);
    if (!apart) return {};
    largest = std::max(largest.value_or(0), *apart);
  }
  return largest;
}

double norm(const Held& held) {
  double squares = 0;
  for (const auto& [name, observation] : held) {
    const Statistics& statistics = observation->statistics;
    if (is_undefined(*observation)) continue;
    if (!observation->not_comparable.empty()) return kUnmeasured;
    squares += statistics.non_finite > 0 ? kUnmeasured : statistics.norm * statistics.norm;
  }
  return held.empty() ? kUnmeasured : std::sqrt(squares);
}

Table::Entry entry_of(const TableSpec& spec, const Step& step) {
  Table::Entry entry;
  entry.synced = is_synced(step);
  if (spec.quantity == Quantity::drift) {
    entry.values.push_back(drift(step));
    if (std::isnan(entry.values[0])) entry.estimate = estimated_drift(step);
    return entry;
  }
  const bool is_distance = spec.quantity == Quantity::distance;
  const std::set<std::string> names = is_distance ? names_of(step) : std::set<std::string>();
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    if (spec.quantity == Quantity::norm) {
      entry.values.push_back(norm(step.ranks[rank]));
    } else if (is_distance) {
      entry.values.push_back(distance(step, names, 0, rank));
    } else {
      entry.values.push_back(element_value(spec.element, step.kept(rank, spec.tensor)));
    }
  }
  // The drift of the model before the step, shown next to a norm.
  if (spec.quantity == Quantity::norm && !step.is_of_job) {
    entry.drift = drift(find_in(step.view, {Kind::parameter, Phase::pre_forward, ""}));
  }
  return entry;
}

/// For a step that a cell of `processes` ranks does not have.
Table::Entry entry_of_none(const TableSpec& spec, int processes) {
  const bool is_one = spec.quantity == Quantity::drift;
  Table::Entry entry;
  entry.values.assign(is_one ? 1 : static_cast<std::size_t>(processes), kUnmeasured);
  if (spec.quantity == Quantity::norm) entry.drift = kUnmeasured;
  return entry;
}

}  // namespace

Table::Entry measured_entry(const TableSpec& spec, const StepView& step,
                            const std::set<std::string>* names) {
  return entry_of(spec, find_in(step, {spec.kind, spec.phase, spec.tensor, names}));
}

AgreedStep::AgreedStep(const StepReader& evidence, std::int64_t step)
    : processes_(evidence.processes()) {
  for (int rank = 0; rank < processes_; ++rank) {
    if (evidence.has_observed(rank, step)) observing_.push_back(rank);
  }
  StepView::Rank one;
  if (!observing_.empty()) one.observations = evidence.rows_of(observing_.front(), step);
  view_.emplace(step, std::vector{one, one});
}

Table::Entry AgreedStep::measured(const TableSpec& spec, const std::set<std::string>& names) const {
  Table::Entry entry = measured_entry(spec, *view_, &names);
  if (spec.quantity == Quantity::drift) {
    if (observing_.size() < 2) entry.values = {kUnmeasured};
    return entry;
  }
  const double of_each = entry.values.front();
  entry.values.assign(static_cast<std::size_t>(processes_), kUnmeasured);
  for (const int rank : observing_) entry.values[static_cast<std::size_t>(rank)] = of_each;
  return entry;
}

TableColumn::TableColumn(TableSpec spec, int processes, std::set<std::string> names)
    : spec_(std::move(spec)), processes_(processes), names_(std::move(names)) {}

bool TableColumn::wants(std::int64_t step) const {
  if (entries_.contains(step)) return false;
  return spec_.steps.empty() ||
         std::find(spec_.steps.begin(), spec_.steps.end(), step) != spec_.steps.end();
}

void TableColumn::see_agreed(std::int64_t number, const AgreedStep& step) {
  const auto measured = step.measured(spec_, names_);
  const bool is_any = std::ranges::any_of(measured.values, [](double x) { return !std::isnan(x); });
  if (is_any) steps_.insert(number);
  entries_.emplace(number, measured);
}

void TableColumn::see(const StepView& view) {
  const Step step =
      find_in(view, {spec_.kind, spec_.phase, spec_.tensor, names_.empty() ? nullptr : &names_});
  const bool is_observed =
      std::ranges::any_of(step.ranks, [](const Held& held) { return !held.empty(); });
  if (is_observed) steps_.insert(view.number());
  entries_.emplace(view.number(), entry_of(spec_, step));
}

Table::Entry TableColumn::at(std::int64_t step) const {
  const auto found = entries_.find(step);
  return found == entries_.end() ? entry_of_none(spec_, processes_) : found->second;
}

Table table_of(const TableSpec& spec, const std::vector<const TableColumn*>& columns) {
  Table table;
  table.spec = spec;
  std::set<std::int64_t> steps;
  for (const TableColumn* const column : columns) {
    if (column) steps.insert(column->steps().begin(), column->steps().end());
  }
  for (const std::int64_t step : steps) {
    Table::Row row{step, {}};
    for (const TableColumn* const column : columns) {
      row.entries.push_back(column ? column->at(step)
                                   : Table::Entry{{kUnmeasured}, false, std::nullopt});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace lockstep
