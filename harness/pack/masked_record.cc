#include "harness/pack/masked_record.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "reports/record/record_texts.h"
#include "reports/record/stack_frame.h"

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

/// The place in "no progress for 4 s, in main, train.py:65" and "aborted in main (train.py:65)".
void learn_detail(const std::string& detail, Redaction& redaction) {
  constexpr std::string_view kIn = "in ";
  const std::size_t at = detail.find(kIn);
  if (at == detail.npos) return;
  std::string place = detail.substr(at + kIn.size());
  if (const std::size_t bracket = place.find(" ("); bracket != place.npos && place.ends_with(')')) {
    place.replace(bracket, 2, ", ");
    place.pop_back();
  }
  learn_place(place, redaction);
}

}  // namespace

namespace {

void learn_names(const ClaimResult& result, Redaction& redaction) {
  for (const Finding& finding : result.findings) {
    redaction.learn(finding.tensor);
    for (const std::string& tensor : finding.tensors) redaction.learn(tensor);
    redaction.learn(finding.pattern);
    if (finding.failure) learn_place(finding.failure->place, redaction);
  }
}

void learn_names(const std::vector<TensorDifference>& tensors, Redaction& redaction) {
  for (const TensorDifference& one : tensors) redaction.learn(one.name);
}

void learn_names(const std::vector<std::string>& names, Redaction& redaction) {
  for (const std::string& name : names) redaction.learn(name);
}

void learn_names(const ComparedPair& pair, Redaction& redaction) {
  learn_names(pair.result, redaction);
  for (const StepDifference& step : pair.steps) {
    learn_names(step.tensors, redaction);
    learn_names(step.modules.tensors, redaction);
    for (const NotComparable& one : step.modules.not_comparable) redaction.learn(one.name);
  }
  for (const auto& names : pair.unmatched) learn_names(names, redaction);
  learn_names(pair.unmapped, redaction);
  learn_names(pair.without_evidence, redaction);
  for (const TiedTensor& one : pair.tied) {
    redaction.learn(one.name);
    redaction.learn(one.same);
  }
}

/// The last part of a path.
std::string last_part(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

void mask_machine(Comparison& comparison) {
  for (ComparedPair& pair : comparison.pairs) {
    for (ComparedSide& side : pair.sides) {
      side.folder = last_part(side.folder);
      if (!side.tensors) side.title = program_of(side.title);
      side.label = last_part(side.label);
    }
    for (std::string& run : pair.noise) run = last_part(run);
  }
}

template <class Record>
void redact_texts(Record& record, Redaction& redaction) {
  for_each_text(record, [&](std::string_view field, std::string& text) {
    if (!is_fixed(field)) text = redaction.text(text);
  });
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
  for_each_attempt(run.jobs, [&](JobRecord& job) {
    mask_launcher(job);
    if (!job.node.empty()) job.node = kMasked;
    job.title = program_of(job.title);
    job.label = last_part(job.label);
  });
  for (Comparison& comparison : run.comparisons) mask_machine(comparison);
}

void learn_place(const std::string& place, Redaction& redaction) {
  if (place.empty()) return;
  const auto [function, site] = parts_of_frame(place);
  if (!function.empty()) redaction.learn(std::string(function));
  redaction.learn(std::string(site.substr(0, site.rfind(':'))));
}

namespace {

/// Those of parameters at a line of the training.
template <class Facts>
void learn_facts(const Facts& facts, Redaction& redaction) {
  for (const auto& one : facts) {
    learn_names(one.parameters, redaction);
    learn_place(one.place, redaction);
  }
}

}  // namespace

void learn_names(const JobRecord& job, Redaction& redaction) {
  learn_facts(job.unreduced, redaction);
  learn_facts(job.untrained, redaction);
  learn_facts(job.divided_apart, redaction);
  for (const Setting& one : job.optimizers) learn_place(one.value, redaction);
  for (const Setting& one : job.copies) redaction.learn(one.name);
  for (const SamplerUse& one : job.samplers) learn_place(one.place, redaction);
  for (const FrozenParameter& one : job.frozen) {
    redaction.learn(one.model);
    redaction.learn(one.name);
  }
  for (const WrongMetric& one : job.wrong_metrics) redaction.learn(one.name);
  for (const LastCalls& one : job.last_calls) {
    learn_names(one.without_gradient, redaction);
    for (const CallsAtPlace& at : one.calls) learn_place(at.place, redaction);
  }
  for (const ClaimResult& result : job.results) learn_names(result, redaction);
  redaction.learn(job.symptom.tensor);
  for (const NotCompared& one : job.coverage.not_compared) redaction.learn(one.example);
  for (const ComparedUntil& one : job.coverage.until) redaction.learn(one.example);
  for (const RankExit& end : job.exits) {
    learn_detail(end.detail, redaction);
    learn_place(end.place, redaction);
    learn_place(std::string(frame_of_place(end)), redaction);  // the heading names its function
  }
  if (job.mismatch) learn_names(*job.mismatch, redaction);
}

void learn_names(const Comparison& comparison, Redaction& redaction) {
  for (const ComparedPair& pair : comparison.pairs) learn_names(pair, redaction);
}

void leave_out_stacks(RunRecord& run) {
  for_each_attempt(run.jobs, [](JobRecord& job) {
    for (RankExit& end : job.exits) end.stack.clear();
  });
}

void redact(JobRecord& job, Redaction& redaction) { redact_texts(job, redaction); }

void redact(Comparison& comparison, Redaction& redaction) { redact_texts(comparison, redaction); }

}  // namespace lockstep
