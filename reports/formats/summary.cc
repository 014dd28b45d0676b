#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/comparison/comparison_report.h"
#include "reports/comparison/comparison_words.h"
#include "reports/formats/alike_scenario.h"
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
void add_results(std::string_view label, std::span<const ClaimResult> results, SummaryJson& json) {
  json["findings"] = SummaryJson::array();
  json["undecided"] = SummaryJson::array();
  for (const ClaimResult& result : results) {
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
  if (const auto alike = alike_scenario(job)) json["alike"] = std::string(alike->id);
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
  add_results(label_of(job), job.results, json);
  json["earlier_attempts"] = SummaryJson::array();
  for (const JobRecord& one : job.earlier_attempts) {
    json["earlier_attempts"].push_back(
        {{"verdict", name(verdict_of(one))}, {"sentence", heading_of(one)}});
  }
  return json;
}

/// A cell that is not as expected.
SummaryJson summary_of(const CellRecord& cell) {
  SummaryJson json;
  json["label"] = label_of(cell);
  json["result"] = name(result_of(cell));
  json["sentence"] = cause_of(cell);
  json["reproduce"] = cell.reproduce;
  add_results(label_of(cell), cell.results, json);
  return json;
}

SummaryJson summary_of(const ComparedSide& side) {
  SummaryJson json;
  json["title"] = side.title;
  json["folder"] = side.folder;
  json["ranks"] = side.world_size;
  json["steps"] = side.steps;
  json["outcome"] = name(side.outcome);
  json["fault"] = side.fault ? SummaryJson(side.fault->sentence) : SummaryJson();
  return json;
}

/// One side compared with the reference.
SummaryJson summary_of(const ComparedPair& pair) {
  SummaryJson json = summary_of(pair.sides[1]);
  json["verdict"] = name(pair.result.verdict);
  json["sentence"] = verdict_in_words(pair);
  json["is_void"] = is_void(pair);
  json["steps_compared"] = steps_compared(pair);
  json["parameters_matched"] = pair.matched;
  json["keys"] = keys_of(pair);
  add_results(label_of(pair), {&pair.result, 1}, json);
  return json;
}

SummaryJson summary_of(const Comparison& comparison) {
  SummaryJson json;
  json["title"] = title_of(comparison);
  json["purpose"] = name(comparison.purpose);
  json["expected"] = name(comparison.expected);
  const bool is_fix = comparison.purpose == ComparisonPurpose::fix && !comparison.pairs.empty();
  json["outcome"] = is_fix ? SummaryJson(name(outcome_of_fix(comparison))) : SummaryJson();
  json["exit_status"] = static_cast<int>(status_of(comparison));
  json["sentence"] = heading_of(comparison);
  json["reference"] =
      comparison.pairs.empty() ? SummaryJson() : summary_of(comparison.pairs.front().sides[0]);
  json["compared"] = SummaryJson::array();
  for (const ComparedPair& pair : comparison.pairs) json["compared"].push_back(summary_of(pair));
  return json;
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
  const bool is_recorded = run.cells.empty() && !run.jobs.empty() && run.comparisons.empty() &&
                           std::ranges::all_of(run.jobs, is_recording);
  json["verdict"] = is_recorded ? kRecorded : verdict_name(exit_status(run));
  json["exit_status"] = static_cast<int>(exit_status(run));
  json["jobs"] = SummaryJson::array();
  for (const JobRecord& job : run.jobs) json["jobs"].push_back(summary_of(job));
  json["comparisons"] = SummaryJson::array();
  for (const Comparison& one : run.comparisons) json["comparisons"].push_back(summary_of(one));
  json["cells"] = counts_of_results(run);
  json["not_as_expected"] = SummaryJson::array();
  for (const CellRecord& cell : run.cells) {
    if (result_of(cell) != Result::as_expected) json["not_as_expected"].push_back(summary_of(cell));
  }
  json["keys"] = keys_of(run);
  return without_commands(json.dump(2, ' ', false, SummaryJson::error_handler_t::replace)) + "\n";
}

}  // namespace lockstep
