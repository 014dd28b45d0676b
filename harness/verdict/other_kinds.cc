#include "harness/verdict/other_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "harness/judge/evidence/words.h"
#include "harness/judge/values/held_tensors.h"

namespace lockstep {

namespace {

/// Where the ranks first differ in a kind.
struct FirstApart {
  std::int64_t step = 0;  ///< 0: nowhere
  std::string tensor;
  std::vector<std::vector<int>> groups;
  std::size_t tensors = 0;  ///< that differ in this step
};

FirstApart first_apart(const StepReader& evidence, const Claim& claim) {
  FirstApart first;
  for (const std::int64_t number : evidence.steps()) {
    const auto step = evidence.at(number);
    for (const HeldTensor& tensor : held_tensors(*step, claim, {})) {
      auto groups = groups_of(tensor);
      if (groups.size() < 2 || !is_comparable(tensor)) continue;
      if (first.tensors++ > 0) continue;
      first.step = number;
      first.tensor = tensor.holders.begin()->second->name;
      first.groups = std::move(groups);
    }
    if (first.step > 0) break;
  }
  return first;
}

/// The tensors of a kind that several ranks hold, and those that cannot be compared.
struct Counts {
  std::set<std::string> compared;
  std::set<std::string> others;
};

Counts counts_of(const StepReader& evidence, const Claim& claim) {
  Counts counts;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind != claim.kind || tensor.phase != claim.phase) continue;
    const bool is_compared = ranks.size() > 1 && tensor.not_comparable.empty();
    (is_compared ? counts.compared : counts.others).insert(tensor.name);
  }
  std::erase_if(counts.others, [&](const auto& name) { return counts.compared.contains(name); });
  return counts;
}

std::string in_words(const StepReader& evidence, Kind kind) {
  const Claim claim = agree_across_ranks(kind, Phase::post_step);
  const Counts counts = counts_of(evidence, claim);
  if (counts.compared.empty() && counts.others.empty()) return "";
  const std::string left = counts.others.empty()
                               ? ""
                               : fmt::format("; {} on one rank only or not comparable, such as {}",
                                             counts.others.size(), *counts.others.begin());
  if (counts.compared.empty()) return fmt::format("no {} were compared{}", plural(kind), left);
  const FirstApart first = first_apart(evidence, claim);
  if (first.step == 0) {
    return fmt::format("{} agree across ranks, {} of them{}", plural(kind), counts.compared.size(),
                       left);
  }
  return fmt::format("{} differ between ranks, {} of {} in step {}, the first: {}: {}{}",
                     plural(kind), first.tensors, counts.compared.size(), first.step, first.tensor,
                     groups_in_words(first.groups), left);
}

/// Gradients of single backward passes, which differ between ranks: other runs can be compared with
/// them.
std::string backward_passes_in_words(const StepReader& evidence) {
  std::set<std::string> parameters;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind == Kind::gradient && tensor.phase == Phase::post_backward) {
      parameters.insert(tensor.name);
    }
  }
  if (parameters.empty()) return "";
  std::int64_t passes = 0;
  const auto step = evidence.at(evidence.steps().back());
  for (const Observation& row : step->observations(0)) {
    if (row.phase == Phase::post_backward) passes = std::max(passes, row.micro_batch + 1);
  }
  return fmt::format(
      "the gradients of {} parameters were observed in each of up to {} backward passes of a step, "
      "before their reduction",
      parameters.size(), passes);
}

/// What each rank computes from its own samples, so only another job can be compared with it.
std::string modules_in_words(const StepReader& evidence) {
  std::set<std::string> outputs, gradients;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind == Kind::module_output) outputs.insert(tensor.name);
    if (tensor.kind == Kind::module_gradient) gradients.insert(tensor.name);
  }
  if (outputs.empty() && gradients.empty()) return "";
  return fmt::format(
      "outputs of modules were observed, {} of them, and the gradients at {}: `lockstep diff` "
      "compares "
      "them with those of another job",
      outputs.size(), gradients.size());
}

}  // namespace

std::vector<std::string> other_kinds_in_words(const StepReader& evidence) {
  std::vector<std::string> sentences;
  for (const Kind kind : {Kind::buffer, Kind::optimizer_state, Kind::random_state}) {
    std::string sentence = in_words(evidence, kind);
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  }
  std::string passes = backward_passes_in_words(evidence);
  if (!passes.empty()) sentences.push_back(std::move(passes));
  std::string modules = modules_in_words(evidence);
  if (!modules.empty()) sentences.push_back(std::move(modules));
  return sentences;
}

}  // namespace lockstep
