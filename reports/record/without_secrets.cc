#include "reports/record/without_secrets.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "reports/base/secrets.h"
#include "reports/record/record_texts.h"

namespace lockstep {

namespace {

/// Fields whose texts are names, which readers compare. In "attn.key: exp_avg" nothing is a secret.
constexpr std::array<std::string_view, 15> kNames{
    "id",     "folder", "digest",  "tensor", "group",     "tensors",  "example",         "name",
    "symbol", "axis",   "variant", "same",   "unmatched", "unmapped", "without_evidence"};

bool is_name(std::string_view field) {
  return std::find(kNames.begin(), kNames.end(), field) != kNames.end();
}

template <class Value>
void mask_texts(Value& value) {
  for_each_text(value, [](std::string_view field, std::string& text) {
    text = is_name(field) ? mask_name(text) : mask_secrets(text);
  });
}

void mask_charts(Execution& execution) {
  if (!execution.charts) return;
  for (TensorCourse& tensor : execution.charts->agreement.differing) {
    tensor.name = mask_name(tensor.name);
  }
  CollectiveLanes& lanes = execution.charts->lanes;
  lanes.group = mask_name(lanes.group);
  for (Lane& lane : lanes.lanes) {
    for (LaneCall& call : lane.calls) {
      call.text = mask_secrets(call.text);
      call.site = mask_secrets(call.site);
    }
  }
}

}  // namespace

RunRecord without_secrets(RunRecord run) {
  for_each_attempt(run.jobs, [](JobRecord& job) {
    for (Setting& one : job.configuration) one.value = mask_value(one.name, one.value);
    for (SettingApart& apart : job.settings_apart) {
      for (Setting& one : apart.values) one.value = mask_value(one.name, one.value);
    }
    mask_charts(job);
  });
  for (CellRecord& cell : run.cells) mask_charts(cell);
  for (Comparison& comparison : run.comparisons) {
    for (ComparedPair& pair : comparison.pairs) {
      for (ComparedSide& side : pair.sides) side.folder = mask_secrets(side.folder);
    }
  }
  for (auto& [name, value] : run.environment.variables) {
    value = mask_value(name, value);
    name = mask_secrets(name);
  }
  run.command = mask_command(std::move(run.command));
  mask_texts(run);
  return run;
}

}  // namespace lockstep
