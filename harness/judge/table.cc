#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "harness/judge/compare_values.h"
#include "harness/judge/judge.h"

namespace lockstep {

namespace {

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

/// The last observation of the table's tensor in `step` on `rank`; null when there is none.
const Observation* find(const TableSpec& spec, const Evidence& evidence, int rank,
                        std::int64_t step) {
  const Observation* found = nullptr;
  for (const Observation& observation : evidence.observations(rank)) {
    if (observation.step == step && observation.kind == spec.kind &&
        observation.point == spec.point && observation.name == spec.tensor) {
      found = &observation;
    }
  }
  return found;
}

double element_value(const TableSpec& spec, const KeptTensor* tensor) {
  if (!tensor) return kNotMeasured;
  const DType component = component_type(tensor->dtype);
  const auto place = static_cast<std::size_t>(spec.element) * item_size(tensor->dtype);
  if (place + item_size(component) > tensor->bytes.size()) return kNotMeasured;
  return component_value(component, tensor->bytes.data() + place);
}

double drift(const std::vector<const KeptTensor*>& tensors) {
  double worst = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t j = i + 1; j < tensors.size(); ++j) {
      const bool comparable = tensors[i] && tensors[j] && tensors[i]->dtype == tensors[j]->dtype &&
                              tensors[i]->shape == tensors[j]->shape;
      const double apart = comparable ? difference(*tensors[i], *tensors[j]).worst : kNotMeasured;
      if (!(apart <= worst)) worst = apart;
      if (std::isnan(worst)) return worst;
    }
  }
  return worst;
}

Table::Entry fill_entry(const TableSpec& spec, const Evidence* evidence, std::int64_t step) {
  Table::Entry entry;
  if (!evidence) return {{kNotMeasured}, false};
  std::vector<const KeptTensor*> tensors;
  std::set<std::tuple<std::string, std::vector<std::int64_t>, Fingerprint>> held;
  bool all_there = true;
  for (int rank = 0; rank < evidence->processes(); ++rank) {
    const Observation* observation = find(spec, *evidence, rank, step);
    all_there = all_there && observation && observation->not_comparable.empty();
    tensors.push_back(observation ? evidence->kept(rank, *observation) : nullptr);
    if (observation) {
      held.emplace(observation->dtype, observation->global_shape, observation->fingerprint);
    }
  }
  entry.synced = all_there && held.size() == 1;
  if (spec.quantity == Quantity::drift) {
    entry.values.push_back(drift(tensors));
  } else {
    for (const KeptTensor* tensor : tensors) entry.values.push_back(element_value(spec, tensor));
  }
  return entry;
}

std::set<std::int64_t> steps_of(const TableSpec& spec, const Evidence& evidence) {
  std::set<std::int64_t> steps;
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    for (const Observation& observation : evidence.observations(rank)) {
      if (observation.kind == spec.kind && observation.point == spec.point &&
          observation.name == spec.tensor) {
        steps.insert(observation.step);
      }
    }
  }
  return steps;
}

}  // namespace

Table fill_table(const TableSpec& spec, const std::vector<const Evidence*>& evidence) {
  Table table;
  table.spec = spec;
  std::set<std::int64_t> steps;
  for (const Evidence* group : evidence) {
    if (group) steps.merge(steps_of(spec, *group));
  }
  for (const std::int64_t step : steps) {
    Table::Row row{step, {}};
    for (const Evidence* group : evidence) row.entries.push_back(fill_entry(spec, group, step));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace lockstep
