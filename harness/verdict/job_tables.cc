#include "harness/verdict/job_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {

namespace {

constexpr std::size_t kMostSteps = 200;  // a table for readers; the claims cover every step

/// Evenly spaced steps with the first, the last, and the first in which ranks may differ.
std::vector<std::int64_t> steps_to_show(const StepReader& evidence) {
  const std::vector<std::int64_t>& all = evidence.steps();
  if (all.size() <= kMostSteps) return all;
  std::set<std::int64_t> shown{all.back()};
  const std::size_t stride = (all.size() + kMostSteps - 1) / kMostSteps;
  for (std::size_t i = 0; i < all.size(); i += stride) shown.insert(all[i]);
  const auto first = std::find_if(all.begin(), all.end(), [&](std::int64_t step) {
    return !evidence.agreed_set(step).has_value();
  });
  if (first != all.end()) shown.insert(*first);
  return {shown.begin(), shown.end()};
}

TableSpec spec_of(const std::string& title, Quantity quantity, Kind kind, Phase phase) {
  TableSpec spec;
  spec.title = title;
  spec.quantity = quantity;
  spec.kind = kind;
  spec.phase = phase;
  spec.groups = {{"", ""}};
  spec.digits = 0;
  return spec;
}

}  // namespace

std::set<std::string> names_of_copies(const CellEvidence& job) {
  std::set<std::string> names;
  const auto processes = static_cast<std::size_t>(job.evidence->processes());
  for (const auto& [tensor, ranks] : job.evidence->tensors()) {
    const bool is_copied = tensor.kind == Kind::parameter && tensor.replica_group.empty() &&
                           tensor.not_comparable.empty() && ranks.size() == processes;
    if (is_copied && !job.unshared.contains(tensor.name)) names.insert(tensor.name);
  }
  return names;
}

JobTables::JobTables(const CellEvidence& job) : processes_(job.evidence->processes()) {
  const std::set<std::string> names = names_of_copies(job);
  if (names.empty() || processes_ < 2) return;
  const std::string subject =
      names.size() == 1 ? "the parameter that all ranks hold"
                        : fmt::format("the {} parameters that all ranks hold", names.size());
  specs_ = {spec_of("Gradient norm of " + subject, Quantity::norm, Kind::gradient, Phase::pre_step),
            spec_of("Drift of " + subject + ", after the step", Quantity::drift, Kind::parameter,
                    Phase::post_step)};
  const std::vector<std::int64_t> steps = steps_to_show(*job.evidence);
  for (TableSpec& spec : specs_) {
    spec.steps = steps;
    columns_.emplace_back(spec, processes_, names);
  }
  for (const std::int64_t number : steps) {
    if (!job.evidence->agreed_set(number)) continue;
    const AgreedStep step(*job.evidence, number);
    for (TableColumn& column : columns_) column.see_agreed(number, step);
  }
}

StepFolds JobTables::columns() { return {columns_.begin(), columns_.end()}; }

std::vector<Table> JobTables::tables() const {
  std::vector<Table> tables;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    Table table = table_of(specs_[i], {&columns_[i]});
    table.world_size = processes_;
    table.spec.steps.clear();
    if (!table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace lockstep
