#include "harness/verdict/other_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "harness/verdict/steps_apart.h"
#include "reports/base/name_pattern.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// "bn.mean, bn.var", "12 tensors *.running_mean".
std::string names_in_words(const std::vector<std::string>& names,
                           const std::vector<std::string>& others) {
  constexpr std::size_t kShown = 3;
  const std::string pattern = names.size() > kShown ? pattern_of(names, others) : "";
  return pattern.empty() ? listed(names, kShown)
                         : fmt::format("{} tensors {}", names.size(), pattern);
}

std::string in_words(const StepsApart& course, std::int64_t last) {
  std::string text =
      fmt::format("from step {} on ({})", course.first, groups_in_words(course.groups));
  if (course.last < last)
    return text + fmt::format(", last in step {}: they agree again", course.last);
  if (course.differing < course.compared && course.differing > 1) {
    text += fmt::format(", in {} of {} steps", course.differing, course.compared);
  }
  return text;
}

std::vector<std::string> others_than(const std::vector<std::string>& names,
                                     const std::vector<std::string>& all) {
  std::vector<std::string> others;
  std::ranges::set_difference(all, names, std::back_inserter(others));
  return others;
}

/// Tensors of a kind that one rank holds alone, or that cannot be compared.
std::set<std::string> alone_in(const StepReader& evidence, const Claim& claim) {
  std::set<std::string> alone, compared;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (!concerns(claim, tensor)) continue;
    const bool is_compared = ranks.size() > 1 && tensor.not_comparable.empty();
    (is_compared ? compared : alone).insert(tensor.name);
  }
  std::erase_if(alone, [&](const auto& name) { return compared.contains(name); });
  return alone;
}

/// Of each kind that was observed, where ranks are compared: buffers agree before a forward pass,
/// if at all, since each rank may count its own samples in between.
std::vector<StepsApartByName> observed_kinds(const StepReader& evidence) {
  std::vector<StepsApartByName> kinds;
  for (const Kind kind : {Kind::buffer, Kind::optimizer_state, Kind::random_state}) {
    for (const Phase phase : {Phase::pre_forward, Phase::post_step}) {
      const Claim claim = agree_across_ranks(kind, phase);
      const bool is_observed = std::ranges::any_of(evidence.tensors(), [&](const auto& observed) {
        return concerns(claim, observed.tensor);
      });
      if (!is_observed) continue;
      kinds.emplace_back(claim);
      break;
    }
  }
  return kinds;
}

/// The same with all steps, which are read once, and only if there is such a kind.
std::vector<StepsApartByName> courses_in(const StepReader& evidence) {
  std::vector<StepsApartByName> kinds = observed_kinds(evidence);
  if (kinds.empty()) return kinds;
  for (const std::int64_t number : evidence.steps()) {
    const auto step = evidence.at(number);
    for (StepsApartByName& kind : kinds) kind.see(*step);
  }
  for (StepsApartByName& kind : kinds) kind.leave_out_idle();
  return kinds;
}

std::string in_words(const StepReader& evidence, const StepsApartByName& courses) {
  const Claim& claim = courses.claim();
  const Kind kind = *claim.kind;
  const std::set<std::string> alone = alone_in(evidence, claim);
  const std::vector<std::string> compared = courses.compared();
  if (compared.empty() && alone.empty()) return "";
  const std::string left = alone.empty()
                               ? ""
                               : fmt::format("; {} on one rank only or not comparable, such as {}",
                                             alone.size(), *alone.begin());
  if (compared.empty()) return fmt::format("no {} were compared{}", plural(kind), left);
  const std::string when = claim.phase == Phase::pre_forward ? " before the forward passes" : "";
  const auto differing = courses.differing();
  if (differing.empty()) {
    return fmt::format("{} agree across ranks{}, {} of them{}", plural(kind), when, compared.size(),
                       left);
  }
  std::size_t count = 0;
  std::string text;
  for (const auto& [course, names] : differing) {
    count += names.size();
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ",
                        names_in_words(names, others_than(names, compared)),
                        in_words(course, courses.last()));
  }
  return fmt::format("{} differ between ranks{}, {} of {}: {}{}", plural(kind), when, count,
                     compared.size(), text, left);
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
  for (const StepsApartByName& courses : courses_in(evidence)) {
    std::string sentence = in_words(evidence, courses);
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  }
  std::string passes = backward_passes_in_words(evidence);
  if (!passes.empty()) sentences.push_back(std::move(passes));
  std::string modules = modules_in_words(evidence);
  if (!modules.empty()) sentences.push_back(std::move(modules));
  return sentences;
}

}  // namespace lockstep
