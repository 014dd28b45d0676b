#include "harness/diff/module_values.h"

#include <algorithm>
#include <cmath>

#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

/// A part of a DTensor is compared as it is.
WholeTensor value_of(const Observation& row, const Sketch* sketch) {
  WholeTensor value;
  value.dtype = row.dtype;
  value.elements = element_count(row.local_shape);
  value.problem = row.is_summand ? "a partial sum over ranks" : row.not_comparable;
  if (!value.problem.empty()) return value;
  value.digest = row.digest;
  value.norm = row.statistics.norm;
  value.non_finite = row.statistics.non_finite;
  if (sketch) value.sketch = *sketch;
  return value;
}

}  // namespace

ModuleValues::ModuleValues(const StepView& step, int rank) {
  for (const Observation& row : step.observations(rank)) {
    if (!is_of_module(row.kind)) continue;
    values_.emplace_back(ModuleKey{row.kind, row.name}, value_of(row, step.sketch(rank, row)));
  }
  std::stable_sort(values_.begin(), values_.end(),
                   [](const auto& a, const auto& b) { return a.first.kind < b.first.kind; });
  for (std::size_t i = 0; i < values_.size(); ++i) places_.emplace(values_[i].first, i);
}

const WholeTensor* ModuleValues::find(const ModuleKey& key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? nullptr : &values_[place->second].second;
}

double ModuleValues::typical_norm(Kind kind) const {
  double squares = 0;
  std::int64_t count = 0;
  for (const auto& [key, value] : values_) {
    if (key.kind != kind || !value.problem.empty()) continue;
    squares += value.norm * value.norm;
    ++count;
  }
  return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
}

std::vector<ModuleValues> module_values(const StepView& step) {
  std::vector<ModuleValues> ranks;
  for (int rank = 0; rank < step.processes(); ++rank) ranks.emplace_back(step, rank);
  return ranks;
}

std::string without_pass(const std::string& name) {
  const std::size_t sign = name.find('#');
  if (sign == name.npos) return name;
  const std::size_t end = name.find_first_not_of("0123456789", sign + 1);
  return name.substr(0, sign) + (end == name.npos ? "" : name.substr(end));
}

}  // namespace lockstep
