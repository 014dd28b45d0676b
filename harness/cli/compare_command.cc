#include "harness/cli/compare_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "harness/cli/standard_output.h"
#include "harness/record/run_folder.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

std::string where(const PublishedValue& value) {
  std::string text = fmt::format("{}/{}, {} ranks, step {}", plain(value.scenario),
                                 plain(value.variant), value.world_size, value.step);
  if (value.rank >= 0) text += fmt::format(", rank {}", value.rank);
  return text;
}

/// How close a table is to be met.
std::string closeness(const PublishedTable& table) {
  const auto in_shape = std::count_if(table.values.begin(), table.values.end(),
                                      [](const auto& value) { return value.is_met_in_shape(); });
  if (in_shape == 0) return "to the printed digit";
  const auto beside = std::count_if(table.values.begin(), table.values.end(),
                                    [](const auto& value) { return value.is_beside(); });
  return static_cast<std::size_t>(in_shape + beside) == table.values.size()
             ? "in shape"
             : "in shape or to the printed digit, as each row says";
}

std::string comparison_in_words(const PublishedTable& table, const TableComparison& comparison) {
  std::string text = fmt::format("{}: {} of {} published values are met {}.\n", plain(table.id),
                                 comparison.met, comparison.values, closeness(table));
  if (comparison.beside > 0) {
    text += fmt::format("{} more are of another program, and not compared.\n", comparison.beside);
  }
  for (const Unmet& unmet : comparison.unmet) {
    text +=
        fmt::format("{}:{}: {}: published {}, {}\n", plain(table.path.string()),
                    unmet.published.line, where(unmet.published), plain(unmet.published.printed),
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

ExitStatus compare_files(const std::string& table_file, const std::string& folder) {
  const PublishedTable table = read_published_table(table_file);
  const TableComparison comparison = compare_with_run(table, load_record(folder), folder);
  write_standard_output(comparison_in_words(table, comparison));
  if (comparison.values == 0) return ExitStatus::not_applicable;
  return comparison.unmet.empty() ? ExitStatus::as_expected : ExitStatus::failed;
}

struct CompareWords {
  std::string table;
  std::string folder;
};

void add_compare_options(CLI::App& app, CompareWords& words) {
  app.add_option("table", words.table, "published table, a CSV file")->required()->type_name("");
  app.add_option("dir", words.folder, "folder of the run")->required()->type_name("");
}

}  // namespace

Command compare_command() {
  auto words = std::make_shared<CompareWords>();
  return {"compare", [words](CLI::App& app) { add_compare_options(app, *words); },
          [words] { return compare_files(words->table, words->folder); }};
}

}  // namespace lockstep
