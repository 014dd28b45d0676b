#include "harness/pack/masked_record.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "reports/record/record_texts.h"

namespace lockstep {

namespace {

constexpr std::string_view kMasked = "masked";

/// "torchrun" of "/opt/bin/torchrun --nproc-per-node 8 train.py".
std::string program_of(const std::string& command) {
  const std::string first = command.substr(0, command.find(' '));
  const std::string program = std::filesystem::path(first).filename();
  return program.empty() ? std::string(kMasked) : program;
}

/// The command of Lockstep, "lockstep watch", without what it was given.
std::vector<std::string> without_arguments(const std::vector<std::string>& command) {
  if (command.empty()) return {};
  std::vector<std::string> masked{program_of(command[0])};
  if (command.size() > 1) masked.push_back(program_of(command[1]));
  if (command.size() > 2) masked.emplace_back(kMasked);
  return masked;
}

/// Fields whose words are Lockstep's, and which readers compare.
constexpr std::array<std::string_view, 3> kFixed{"id", "folder", "digest"};

bool is_fixed(std::string_view field) {
  return std::find(kFixed.begin(), kFixed.end(), field) != kFixed.end();
}

void learn_names(const CollectiveMismatch& mismatch, Redaction& redaction) {
  redaction.learn(mismatch.group);
  for (const CollectiveRow& row : mismatch.rows) {
    for (const CallOfRank& call : row.calls) learn_place(call.site, redaction);
  }
}

/// "aborted in main, train.py:65": the place.
void learn_detail(const std::string& detail, Redaction& redaction) {
  constexpr std::string_view kIn = "in ";
  const std::size_t at = detail.find(kIn);
  if (at != detail.npos) learn_place(detail.substr(at + kIn.size()), redaction);
}

}  // namespace

void mask_machine(RunRecord& run) {
  run.command = without_arguments(run.command);
  run.environment.host = kMasked;
  run.environment.variables.clear();
  const auto mask_launcher = [](Execution& execution) {
    if (!execution.launcher.empty()) execution.launcher = program_of(execution.launcher);
  };
  for (CellRecord& cell : run.cells) {
    mask_launcher(cell);
    cell.reproduce = cell.reproduce.substr(0, cell.reproduce.find(" --launcher "));
  }
  for (JobRecord& job : run.jobs) {
    mask_launcher(job);
    if (!job.node.empty()) job.node = kMasked;
    job.title = program_of(job.title);
  }
}

void learn_place(const std::string& place, Redaction& redaction) {
  constexpr std::string_view kBetween = ", ";
  const std::size_t comma = place.rfind(kBetween);
  if (comma != place.npos) redaction.learn(place.substr(0, comma));
  const std::string site = comma == place.npos ? place : place.substr(comma + kBetween.size());
  redaction.learn(site.substr(0, site.rfind(':')));
}

void learn_names(const JobRecord& job, Redaction& redaction) {
  for (const ClaimResult& result : job.results) {
    for (const Finding& finding : result.findings) {
      redaction.learn(finding.tensor);
      for (const std::string& tensor : finding.tensors) redaction.learn(tensor);
    }
  }
  redaction.learn(job.symptom.tensor);
  for (const NotCompared& one : job.coverage.not_compared) redaction.learn(one.example);
  for (const ComparedUntil& one : job.coverage.until) redaction.learn(one.example);
  for (const RankExit& end : job.exits) learn_detail(end.detail, redaction);
  if (job.mismatch) learn_names(*job.mismatch, redaction);
}

void redact(JobRecord& job, Redaction& redaction) {
  for_each_text(job, [&](std::string_view field, std::string& text) {
    if (!is_fixed(field)) text = redaction.text(text);
  });
}

}  // namespace lockstep
