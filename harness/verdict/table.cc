#include "harness/verdict/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/compare_values.h"

namespace lockstep {

namespace {

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

/// Which tensors of a step a table is about.
struct Subject {
  Kind kind = Kind::gradient;
  Phase phase = Phase::pre_step;
  std::string tensor;  ///< empty: all of the kind

  bool includes(const Observation& o) const {
    return o.kind == kind && o.phase == phase && (tensor.empty() || o.name == tensor);
  }
};

/// One step of the subject on one rank: the last observation of each tensor, by name.
using Held = std::map<std::string, const Observation*>;

/// One step of the subject on all ranks. The view keeps alive what was found.
struct Step {
  std::shared_ptr<const StepView> view;
  std::vector<Held> ranks;

  const SnapshotTensor* kept(std::size_t rank, const std::string& name) const {
    const auto found = ranks[rank].find(name);
    if (found == ranks[rank].end()) return nullptr;
    return view->kept(static_cast<int>(rank), *found->second);
  }
};

Step find_step(const Subject& subject, const StepReader& evidence, std::int64_t number) {
  Step step{evidence.at(number), {}};
  for (int rank = 0; rank < step.view->processes(); ++rank) {
    Held& held = step.ranks.emplace_back();
    for (const Observation& observation : step.view->observations(rank)) {
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

/// Whether all ranks hold the same bits of every tensor, and there is one.
bool is_synced(const Step& step) {
  for (const Held& held : step.ranks) {
    if (held.empty() || held.size() != step.ranks.front().size()) return false;
    for (const auto& [name, mine] : held) {
      const auto first = step.ranks.front().find(name);
      if (first == step.ranks.front().end() || !mine->not_comparable.empty()) return false;
      const Observation& other = *first->second;
      if (std::tie(mine->dtype, mine->global_shape, mine->digest) !=
          std::tie(other.dtype, other.global_shape, other.digest)) {
        return false;
      }
    }
  }
  return !step.ranks.empty();
}

double element_value(std::int64_t element, const SnapshotTensor* tensor) {
  if (!tensor) return kNotMeasured;
  const DType component = component_type(tensor->dtype);
  const std::size_t size = item_size(tensor->dtype);
  const auto place = static_cast<std::size_t>(element);
  if (place >= tensor->bytes.size() / size) return kNotMeasured;
  return component_value(component, tensor->bytes.data() + place * size);
}

/// The largest difference between two ranks in any tensor; NaN where one cannot be told.
double distance(const Step& step, std::size_t a, std::size_t b) {
  double largest = 0;
  const std::set<std::string> names = names_of(step);
  for (const std::string& name : names) {
    const SnapshotTensor* left = step.kept(a, name);
    const SnapshotTensor* right = step.kept(b, name);
    const bool comparable =
        left && right && left->dtype == right->dtype && left->shape == right->shape;
    largest = worse(largest, comparable ? difference(*left, *right).worst : kNotMeasured);
  }
  return names.empty() ? kNotMeasured : largest;
}

double drift(const Step& step) {
  double largest = 0;
  for (std::size_t a = 0; a < step.ranks.size(); ++a) {
    for (std::size_t b = a + 1; b < step.ranks.size(); ++b) {
      largest = worse(largest, distance(step, a, b));
    }
  }
  return names_of(step).empty() ? kNotMeasured : largest;
}

double norm(const Held& held) {
  double squares = 0;
  for (const auto& [name, observation] : held) {
    const Statistics& statistics = observation->statistics;
    if (is_undefined(*observation)) continue;
    if (!observation->not_comparable.empty()) return kNotMeasured;
    squares += statistics.non_finite > 0 ? kNotMeasured : statistics.norm * statistics.norm;
  }
  return held.empty() ? kNotMeasured : std::sqrt(squares);
}

/// How far the model is apart before the step: what the drift beside a norm means.
std::optional<double> drift_before(const StepReader& evidence, std::int64_t step) {
  return drift(find_step({Kind::parameter, Phase::pre_forward, ""}, evidence, step));
}

Table::Entry fill_entry(const TableSpec& spec, const StepReader* evidence, std::int64_t number) {
  if (!evidence) return {{kNotMeasured}, false, std::nullopt};
  const Step step = find_step({spec.kind, spec.phase, spec.tensor}, *evidence, number);
  Table::Entry entry;
  entry.synced = is_synced(step);
  if (spec.quantity == Quantity::drift) {
    entry.values.push_back(drift(step));
    return entry;
  }
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    if (spec.quantity == Quantity::norm) {
      entry.values.push_back(norm(step.ranks[rank]));
    } else if (spec.quantity == Quantity::distance) {
      entry.values.push_back(distance(step, 0, rank));
    } else {
      entry.values.push_back(element_value(spec.element, step.kept(rank, spec.tensor)));
    }
  }
  if (spec.quantity == Quantity::norm) entry.drift = drift_before(*evidence, number);
  return entry;
}

bool is_shown(const TableSpec& spec, std::int64_t step) {
  return spec.steps.empty() ||
         std::find(spec.steps.begin(), spec.steps.end(), step) != spec.steps.end();
}

/// The steps of a table in which a rank observed its subject.
std::set<std::int64_t> shown_steps(const TableSpec& spec, const StepReader& evidence) {
  const Subject subject{spec.kind, spec.phase, spec.tensor};
  std::set<std::int64_t> steps;
  for (const std::int64_t number : evidence.steps()) {
    if (!is_shown(spec, number)) continue;
    const Step step = find_step(subject, evidence, number);
    if (!names_of(step).empty()) steps.insert(number);
  }
  return steps;
}

}  // namespace

Table fill_table(const TableSpec& spec, const std::vector<const StepReader*>& evidence) {
  Table table;
  table.spec = spec;
  std::set<std::int64_t> steps;
  for (const StepReader* group : evidence) {
    if (group) steps.merge(shown_steps(spec, *group));
  }
  for (const std::int64_t step : steps) {
    Table::Row row{step, {}};
    for (const StepReader* group : evidence) row.entries.push_back(fill_entry(spec, group, step));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace lockstep
