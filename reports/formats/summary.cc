#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/formats/job_report.h"
#include "reports/formats/renderer.h"
#include "reports/record/finding_key.h"
#include "reports/record/json.h"
#include "reports/record/result.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

using SummaryJson = nlohmann::ordered_json;

template <class Value>
SummaryJson or_null(const std::optional<Value>& value) {
  return value ? SummaryJson(*value) : SummaryJson();
}

SummaryJson summary_of(std::string_view label, const Finding& finding) {
  SummaryJson json;
  json["kind"] = name(finding.kind);
  json["keys"] = keys_of(label, finding);
  json["claim"] = sentence(finding.claim);
  json["step"] = finding.step;
  json["tensor"] = finding.tensor;
  json["ranks"] = finding.groups;
  json["ratio"] = or_null(finding.ratio);
  json["sentence"] = finding.sentence;
  return json;
}

/// Adds what was found and what was not decided.
void add_results(std::string_view label, const Execution& execution, SummaryJson& json) {
  json["findings"] = SummaryJson::array();
  json["undecided"] = SummaryJson::array();
  for (const ClaimResult& result : execution.results) {
    for (const Finding& finding : result.findings) {
      json["findings"].push_back(summary_of(label, finding));
    }
    if (result.verdict != Verdict::undecided) continue;
    json["undecided"].push_back({{"claim", sentence(result.claim)}, {"reason", result.reason}});
  }
}

/// How many ranks ended in each way, and those that did not finish.
void add_exits(const Execution& execution, SummaryJson& json) {
  SummaryJson failed = SummaryJson::array();
  int finished = 0;
  for (const RankExit& end : execution.exits) {
    if (end.kind == ExitKind::finished) {
      ++finished;
      continue;
    }
    failed.push_back({{"rank", end.rank},
                      {"kind", name(end.kind)},
                      {"cause", name(end.cause)},
                      {"code", end.code},
                      {"step", end.step}});
  }
  json["finished"] = finished;
  json["not_finished"] = std::move(failed);
}

/// The verdict of a job with nothing to compare between ranks, which other jobs are compared with.
constexpr std::string_view kRecorded = "recorded";

SummaryJson summary_of(const JobRecord& job) {
  SummaryJson json;
  json["label"] = label_of(job);
  json["verdict"] = is_recording(job) ? kRecorded : name(verdict_of(job));
  if (job.demands.expected) json["expected"] = name(*job.demands.expected);
  json["exit_status"] = static_cast<int>(status_of(job));
  json["command_status"] = or_null(job.command_status);
  json["sentence"] = heading_of(job);
  json["ranks"] = job.world_size;
  add_exits(job, json);
  json["steps"] = {{"count", job.steps.count},  //
                   {"first", job.steps.first},
                   {"last", job.steps.last}};
  json["coverage"] = {{"parameters", job.coverage.parameters},
                      {"compared", job.coverage.compared},
                      {"ranks", job.coverage.ranks}};
  add_results(label_of(job), job, json);
  return json;
}

/// A cell that is not as expected.
SummaryJson summary_of(const CellRecord& cell) {
  SummaryJson json;
  json["label"] = label_of(cell);
  json["result"] = name(result_of(cell));
  json["sentence"] = cause_of(cell);
  json["reproduce"] = cell.reproduce;
  add_results(label_of(cell), cell, json);
  return json;
}

/// That of the exit status, in the words of a job's verdict.
std::string_view verdict_of(ExitStatus status) {
  switch (status) {
    case ExitStatus::as_expected:
      return name(Verdict::holds);
    case ExitStatus::undecided:
      return name(Verdict::undecided);
    case ExitStatus::not_applicable:
      return "nothing compared";
    default:
      return name(Verdict::violated);
  }
}

SummaryJson counts_of_results(const RunRecord& run) {
  std::array<int, 5> counts{};
  for (const CellRecord& cell : run.cells) {
    ++counts.at(static_cast<std::size_t>(result_of(cell)));
  }
  SummaryJson json = SummaryJson::object();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    json[std::string(Names<Result>::values.at(i))] = counts.at(i);
  }
  return json;
}

}  // namespace

std::string render_summary(const RunRecord& given) {
  const RunRecord run = without_secrets(given);
  SummaryJson json;
  json["schema"] = "lockstep.summary";
  json["version"] = "1.0";
  const bool is_recorded =
      run.cells.empty() && !run.jobs.empty() && std::ranges::all_of(run.jobs, is_recording);
  json["verdict"] = is_recorded ? kRecorded : verdict_of(exit_status(run));
  json["exit_status"] = static_cast<int>(exit_status(run));
  json["jobs"] = SummaryJson::array();
  for (const JobRecord& job : run.jobs) json["jobs"].push_back(summary_of(job));
  json["cells"] = counts_of_results(run);
  json["not_as_expected"] = SummaryJson::array();
  for (const CellRecord& cell : run.cells) {
    if (result_of(cell) != Result::as_expected) json["not_as_expected"].push_back(summary_of(cell));
  }
  json["keys"] = keys_of(run);
  return without_commands(json.dump(2, ' ', false, SummaryJson::error_handler_t::replace)) + "\n";
}

}  // namespace lockstep
