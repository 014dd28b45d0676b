#include "harness/cli/runs_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cli/bytes_in_words.h"
#include "harness/cli/option_values.h"
#include "harness/cli/standard_output.h"
#include "harness/cli/stored_runs.h"
#include "harness/record/run_folder.h"
#include "reports/base/plain_text.h"
#include "reports/base/usage_error.h"
#include "reports/formats/columns.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

struct RunsWords {
  std::string folder = "runs";
  std::string format = "console";
  std::string keep, older_than;
  bool is_rehearsal = false;
};

void add_runs_options(CLI::App& app, RunsWords& words) {
  app.add_option("DIR", words.folder, "the folder that holds the runs")
      ->type_name("")
      ->capture_default_str();
  app.add_option("--format", words.format, "console or json")
      ->type_name("FORMAT")
      ->capture_default_str();
  app.add_option("--keep", words.keep, "remove all runs but the newest N")
      ->type_name("N")
      ->check(complaint_if_empty);
  app.add_option(
         "--older-than", words.older_than,
         "remove runs that started so many days ago or earlier; with --keep, only if they are "
         "not among the newest N either")
      ->type_name("DAYS")
      ->check(complaint_if_empty);
  app.add_flag("--dry-run", words.is_rehearsal, "only say what would be removed");
}

Pruning pruning_of(const RunsWords& words) {
  constexpr std::int64_t kMost = 1'000'000;
  Pruning pruning;
  if (!words.keep.empty()) {
    pruning.keep = whole_number<std::size_t>("--keep", words.keep, 0, kMost);
  }
  if (!words.older_than.empty()) {
    pruning.older_than = whole_number<std::int64_t>("--older-than", words.older_than, 0, kMost);
  }
  return pruning;
}

/// "2026-11-20 18:52:46".
std::string start_in_words(std::string utc) {
  if (utc.ends_with('Z')) utc.pop_back();
  const std::size_t separator = utc.find('T');
  if (separator != utc.npos) utc[separator] = ' ';
  return utc;
}

/// A command line may be long, and it is the last cell of its row.
std::string shortened(const std::string& title) {
  constexpr std::size_t kMost = 90;
  std::string text = plain(title);
  if (text.size() <= kMost) return text;
  std::size_t size = kMost;
  while (size > 0 && (text[size] & 0xc0) == 0x80) --size;
  return text.substr(0, size) + "...";
}

std::string table_of(const std::vector<StoredRun>& runs) {
  std::vector<Column> columns{Column("name", 0, Align::left), Column("start (UTC)", 0, Align::left),
                              Column("verdict", 0, Align::left), Column("size"),
                              Column("run", 0, Align::left)};
  for (const StoredRun& run : runs) {
    const bool is_broken = !run.fault.empty();
    append_row(columns,
               {run.folder.filename().string(), start_in_words(run.started_utc), run.verdict,
                bytes_in_words(run.bytes), is_broken ? run.title : shortened(run.title)});
  }
  return side_by_side(columns);
}

std::string json_of(const std::vector<StoredRun>& runs) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const StoredRun& run : runs) {
    list.push_back({{"folder", run.folder.string()},
                    {"started_utc", run.started_utc},
                    {"title", run.title},
                    {"verdict", run.verdict},
                    {"bytes", run.bytes},
                    {"fault", run.fault}});
  }
  const Json document = {{"schema", "lockstep.runs"}, {"version", "1.0"}, {"runs", list}};
  return document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string list(const RunsWords& words) {
  const std::vector<StoredRun> runs = stored_runs(words.folder);
  if (words.format == "json") return json_of(runs);
  return runs.empty() ? fmt::format("There is no run in {}.\n", plain(words.folder))
                      : table_of(runs);
}

/// After the runs were removed.
void say_where_latest_points(const fs::path& runs, const std::vector<StoredRun>& left) {
  const bool has_run = !left.empty() && left.front().fault.empty();
  const fs::path newest = has_run ? left.front().folder : fs::path();
  if (!mend_latest(runs, newest)) return;
  const std::string link = plain((runs / "latest").string());
  write_standard_output(
      has_run ? fmt::format("{} points to {} now\n", link, plain(newest.filename().string()))
              : fmt::format("removed {}, which pointed to no run\n", link));
}

/// Each line is written when its run is gone: a later one may fail.
void prune(const RunsWords& words, const Pruning& pruning) {
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  for (const StoredRun& run :
       runs_to_remove(stored_runs(words.folder), pruning, std::time(nullptr))) {
    const std::string folder = plain(run.folder.string());
    if (!run.going_on.empty()) {
      write_standard_output(fmt::format("kept {}: {}\n", folder, run.going_on));
      continue;
    }
    if (!words.is_rehearsal) remove_run(run);
    write_standard_output(fmt::format("{} {}: {}\n",
                                      words.is_rehearsal ? "would remove" : "removed", folder,
                                      bytes_in_words(run.bytes)));
    bytes += run.bytes;
    ++count;
  }
  if (!words.is_rehearsal) say_where_latest_points(words.folder, stored_runs(words.folder));
  write_standard_output(fmt::format("{}, {} {}\n", counted(count, "run"), bytes_in_words(bytes),
                                    words.is_rehearsal ? "would be freed" : "freed"));
}

ExitStatus runs(const RunsWords& words) {
  if (words.format != "console" && words.format != "json") {
    throw bad_value("--format", words.format, "console or json");
  }
  const Pruning pruning = pruning_of(words);
  if (words.is_rehearsal && !pruning.is_asked_for()) {
    throw wrong_arguments("lockstep runs", "--dry-run needs --keep or --older-than",
                          "Usage: lockstep runs [OPTIONS] [DIR]");
  }
  if (!pruning.is_asked_for()) {
    write_standard_output(list(words));
  } else if (words.format == "json") {
    throw bad_value("--format", words.format, "console with --keep or --older-than");
  } else {
    prune(words, pruning);
  }
  return ExitStatus::as_expected;
}

}  // namespace

Command runs_command() {
  auto words = std::make_shared<RunsWords>();
  return {"runs",
          [words](CLI::App& app) { add_runs_options(app, *words); },
          [words] { return runs(*words); },
          {},
          [] {
            return OfferedWords{{"--format", {"console", "json"}}};
          }};
}

}  // namespace lockstep
