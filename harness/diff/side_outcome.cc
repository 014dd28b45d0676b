#include "harness/diff/side_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/judge/ranks/exits.h"
#include "harness/judge/wrong_values.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

/// The types of errors of torch that say that memory is used up, as Python shows them.
constexpr std::array<std::string_view, 3> kOutOfMemory{"OutOfMemoryError", "MemoryError",
                                                       "DefaultCPUAllocator: not enough memory"};

bool is_out_of_memory(const std::string& error) {
  const std::string begin = error.substr(0, error.find('\n'));
  return std::any_of(kOutOfMemory.begin(), kOutOfMemory.end(),
                     [&](std::string_view word) { return begin.find(word) != begin.npos; });
}

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

/// The first tensor that a text names; empty: it names none.
std::string tensor_in(std::string_view text,
                      const std::function<bool(const std::string&)>& has_tensor) {
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    std::size_t end = begin;
    while (end < text.size() && is_of_name(text[end])) ++end;
    std::string word(text.substr(begin, end - begin));
    while (word.ends_with('.')) word.pop_back();
    if (word.find('.') != word.npos && has_tensor(word)) return word;
    begin = end;
  }
  return "";
}

/// The lines of an error, each cut to its first sentence.
std::vector<std::string> sentences_of(const std::string& error) {
  std::vector<std::string> sentences;
  for (std::size_t begin = 0; begin < error.size();) {
    const std::size_t end = std::min(error.find('\n', begin), error.size());
    sentences.push_back(first_sentence(error.substr(begin, end - begin)));
    begin = end + 1;
  }
  return sentences;
}

/// "raised an error at train.py:31 in step 5 on ranks 0,1: RuntimeError: ...".
void put_in_words(const JobRecord& job, const std::function<bool(const std::string&)>& has_tensor,
                  Finding& fault) {
  const RankFailure& failure = *fault.failure;
  std::vector<int> ranks;
  for (const RankExit& end : job.exits) {
    if (end.error == failure.error && end.step == fault.step) ranks.push_back(end.rank);
  }
  const auto sentences = sentences_of(failure.error);
  fault.sentence =
      fmt::format("{} {}{}: {}", failure.how,
                  fault.step == 0 ? "before its first step" : fmt::format("in step {}", fault.step),
                  ranks.empty() ? "" : " on " + ranks_in_words(ranks),
                  sentences.empty() ? "" : sentences.front());
  for (std::size_t i = 0; i < sentences.size() && fault.tensor.empty(); ++i) {
    fault.tensor = tensor_in(sentences[i], has_tensor);
    if (i > 0 && !fault.tensor.empty()) fault.sentence += " " + sentences[i];
  }
}

/// The finding about the end of a rank that tells most; null: all finished, as far as is known.
const Finding* ending_of(const JobRecord& job) {
  const Finding* first = nullptr;
  for (const ClaimResult& result : job.results) {
    if (result.claim.predicate != Predicate::ranks_finish) continue;
    for (const Finding& finding : result.findings) {
      if (!first) first = &finding;
      const auto end = std::find_if(job.exits.begin(), job.exits.end(), [&](const RankExit& one) {
        return finding.failure && one.rank == finding.failure->rank;
      });
      const bool is_root = end != job.exits.end() && end->cause != ExitCause::lost_peer;
      if (finding.kind == FindingKind::rank_raised_error && is_root) return &finding;
    }
  }
  return first;
}

/// Of a command that ended before any rank was observed.
Finding finding_of_command(const JobRecord& job) {
  Finding finding;
  finding.claim = ranks_finish();
  finding.kind = FindingKind::rank_raised_error;
  finding.failure = RankFailure{0, "raised an error", job.command_error, "", std::nullopt};
  return finding;
}

/// A hang may be told by the collectives that do not match, or by a rank's end.
const Finding* hang_of(const JobRecord& job) {
  for (const ClaimResult& result : job.results) {
    const bool tells = result.claim.predicate == Predicate::collectives_match ||
                       result.claim.predicate == Predicate::ranks_finish;
    if (tells && !result.findings.empty()) return &result.findings.front();
  }
  return nullptr;
}

/// That ranks agree on wrong values, by what the job itself left; null: nothing shows it.
const Finding* wrong_alone(const JobRecord& job) {
  for (const Predicate predicate :
       {Predicate::reduce_over_ranks, Predicate::use_held_weights, Predicate::are_trained,
        Predicate::stay_tied, Predicate::update_parts_alike}) {
    if (const Finding* const found = first_finding(job.results, predicate)) return found;
  }
  return nullptr;
}

/// Of a job that trained to its end.
void add_outcome_of_values(const JobRecord& job, ComparedSide& side) {
  if (const Finding* const fault = first_fault_of_values(job)) {
    const bool is_finite = fault->claim.predicate != Predicate::stay_finite;
    side.outcome = is_finite ? SideOutcome::ranks_differ : SideOutcome::not_finite;
    side.fault = *fault;
  } else if (const Finding* const wrong = wrong_alone(job)) {
    side.outcome = SideOutcome::wrong;
    side.fault = *wrong;
  }
}

}  // namespace

void add_outcome(const JobRecord& job, const std::function<bool(const std::string&)>& has_tensor,
                 ComparedSide& side) {
  const auto set = [&](SideOutcome outcome, const Finding& fault) {
    side.outcome = outcome;
    side.fault = fault;
  };
  const auto set_ending = [&](const Finding& ending) {
    const bool is_error =
        ending.kind == FindingKind::rank_raised_error && ending.failure.has_value();
    set(!is_error                                 ? SideOutcome::died
        : is_out_of_memory(ending.failure->error) ? SideOutcome::out_of_memory
                                                  : SideOutcome::raised,
        ending);
    if (is_error) put_in_words(job, has_tensor, *side.fault);
  };
  const Finding* const hang = has_hung(job) ? hang_of(job) : nullptr;
  if (hang) {
    set(SideOutcome::hung, *hang);
    side.fault->sentence = "hung: " + hang->sentence;
  } else if (const Finding* const ending = ending_of(job)) {
    set_ending(*ending);
  } else if (!job.command_error.empty()) {
    set_ending(finding_of_command(job));
  } else {
    add_outcome_of_values(job, side);
  }
}

}  // namespace lockstep
