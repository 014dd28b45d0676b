#include "harness/cli/compare_command.h"

#include <fmt/format.h>

#include "harness/cli/judge_run.h"
#include "harness/cli/run_command.h"
#include "harness/cli/run_folder.h"

namespace lockstep {

namespace {

std::string where(const PublishedValue& value) {
  std::string text = fmt::format("{}/{}, {} ranks, step {}", value.scenario, value.variant,
                                 value.world_size, value.step);
  if (value.rank >= 0) text += fmt::format(", rank {}", value.rank);
  return text;
}

std::string report(const PublishedTable& table, const Comparison& comparison) {
  std::string text = fmt::format("{}: {} of {} published values are met to the printed digit.\n",
                                 table.id, comparison.met, comparison.values);
  for (const Unmet& unmet : comparison.unmet) {
    text +=
        fmt::format("{}:{}: {}: published {}, {}\n", table.path.string(), unmet.published.line,
                    where(unmet.published), unmet.published.printed,
                    unmet.measured == kNotMeasured ? unmet.measured : "measured " + unmet.measured);
  }
  if (comparison.definitions_differ > 0) {
    text += fmt::format(
        "{} rows on which the published definition of 'synced' and the bits of the whole tensor "
        "disagree.\n",
        comparison.definitions_differ);
  }
  return text;
}

}  // namespace

int compare_command(const std::string& table_file, const std::string& folder) {
  const PublishedTable table = read_published_table(table_file);
  const Comparison comparison = compare_with_run(table, load_record(folder), folder);
  show(report(table, comparison));
  return comparison.unmet.empty() && comparison.values > 0 ? 0 : 1;
}

}  // namespace lockstep
