#include "harness/cli/compare_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <tuple>

#include "harness/cli/standard_output.h"
#include "harness/pack/opened_run.h"
#include "harness/record/run_folder.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/plain_text.h"
#include "reports/base/shell_word.h"
#include "reports/base/usage_error.h"
#include "reports/record/limits.h"

namespace lockstep {

namespace {

std::string where(const PublishedValue& value) {
  std::string text = fmt::format("{}/{}, {}, step {}", plain(value.scenario), plain(value.variant),
                                 counted(value.world_size, "rank"), value.step);
  if (value.rank >= 0) text += fmt::format(", rank {}", value.rank);
  return text;
}

/// The required precision of a table.
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

/// Published values of one cell that were not measured.
struct Gap {
  std::int64_t values = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
};

/// The names that identify a cell in tables.
using PublishedCell = std::tuple<std::string, std::string, int>;

std::map<PublishedCell, Gap> gaps_of(const TableComparison& comparison) {
  std::map<PublishedCell, Gap> gaps;
  for (const Unmet& unmet : comparison.unmet) {
    if (unmet.measured != kNotMeasured) continue;
    const PublishedValue& value = unmet.published;
    const auto [place, is_new] = gaps.try_emplace({value.scenario, value.variant, value.world_size},
                                                  Gap{0, value.step, value.step});
    Gap& gap = place->second;
    ++gap.values;
    gap.first_step = std::min(gap.first_step, value.step);
    gap.last_step = std::max(gap.last_step, value.step);
  }
  return gaps;
}

bool was_run(const RunRecord& run, const PublishedCell& asked) {
  return std::any_of(run.cells.begin(), run.cells.end(), [&](const CellRecord& record) {
    const Cell& cell = record.cell;
    return record.processes > 0 &&
           PublishedCell(cell.scenario, cell.variant, cell.world_size) == asked;
  });
}

/// A line for each cell that lacks values: the command that runs it, or the steps that it lacks.
std::string gaps_in_words(const TableComparison& comparison, const RunRecord& run) {
  std::string text;
  for (const auto& [cell, gap] : gaps_of(comparison)) {
    const auto& [scenario, variant, world_size] = cell;
    const std::string name = plain(scenario) + "/" + plain(variant);
    const std::string values = counted(gap.values, "value");
    if (!was_run(run, cell)) {
      const std::string remedy =
          world_size > kMostRanksOfCell
              ? fmt::format("'lockstep run' starts up to {} ranks", kMostRanksOfCell)
              : fmt::format("Run: lockstep run {} --ranks {}", shell_word(name), world_size);
      text += fmt::format("not in this run: {} on {} ({}). {}\n", name, counted(world_size, "rank"),
                          values, remedy);
      continue;
    }
    text += fmt::format("not measured: {} on {}, {} in steps {} to {}\n", name,
                        counted(world_size, "rank"), values, gap.first_step, gap.last_step);
  }
  return text;
}

std::string comparison_in_words(const PublishedTable& table, const TableComparison& comparison,
                                const RunRecord& run) {
  std::string text = fmt::format("{}: {} of {} published values are met {}.\n", plain(table.id),
                                 comparison.met, comparison.values, closeness(table));
  if (comparison.beside > 0) {
    text += fmt::format("{} more belong to another program and were not compared.\n",
                        comparison.beside);
  }
  for (const Unmet& unmet : comparison.unmet) {
    if (unmet.measured == kNotMeasured) continue;
    text += fmt::format("{}:{}: {}: published {}, measured {}\n", plain(table.path.string()),
                        unmet.published.line, where(unmet.published),
                        plain(unmet.published.printed), unmet.measured);
  }
  text += gaps_in_words(comparison, run);
  if (comparison.definitions_differ > 0) {
    text += fmt::format(
        "In {} rows, the published definition of 'synced' and the bits of the whole tensor "
        "disagree.\n",
        comparison.definitions_differ);
  }
  return text;
}

/// Whether `word` is a run, not a table: a folder, or its record.
bool is_run(const std::string& word) {
  std::error_code failure;
  return std::filesystem::is_directory(run_folder_of(word), failure);
}

/// A file, or the table of that name that comes with Lockstep.
std::filesystem::path table_file(const std::string& word) {
  std::error_code failure;
  if (word.empty()) throw unreadable("", "the path is empty", "Name a published table");
  const bool is_path = word.find('/') != std::string::npos || word.ends_with(".csv");
  return is_path || std::filesystem::exists(word, failure) ? std::filesystem::path(word)
                                                           : published_table_file(word);
}

ExitStatus compare_files(const std::string& table_word, const std::string& run_word) {
  if (is_run(table_word)) {
    throw is_run(run_word) ? two_runs(table_word, run_word)
                           : swapped_arguments(table_word, run_word);
  }
  const PublishedTable table = read_published_table(table_file(table_word));
  const OpenedRun opened(run_word);
  if (!opened.has_files()) {
    throw unreadable(run_word, "this pack has no files of ranks", "Name a run that has its files");
  }
  const RunRecord run = opened.record();
  const TableComparison comparison = compare_with_run(table, run, opened.folder());
  write_standard_output(comparison_in_words(table, comparison, run));
  if (comparison.values == 0) return ExitStatus::not_applicable;
  return comparison.unmet.empty() ? ExitStatus::as_expected : ExitStatus::failed;
}

struct CompareWords {
  std::string table;
  std::string folder;
};

void add_compare_options(CLI::App& app, CompareWords& words) {
  app.add_option("TABLE", words.table,
                 "published table: a CSV file, or the name of one that comes with Lockstep")
      ->required()
      ->type_name("");
  app.add_option("RUN", words.folder, "folder of the run, or a pack of it")
      ->required()
      ->type_name("");
}

}  // namespace

Command compare_command() {
  auto words = std::make_shared<CompareWords>();
  return {"compare",
          [words](CLI::App& app) { add_compare_options(app, *words); },
          [words] { return compare_files(words->table, words->folder); },
          {},
          [] {
            return OfferedWords{{"TABLE", published_table_names()}};
          }};
}

}  // namespace lockstep
