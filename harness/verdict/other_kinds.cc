#include "harness/verdict/other_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "harness/judge/values/held_tensors.h"
#include "reports/base/name_pattern.h"

namespace lockstep {

namespace {

/// In which steps ranks differ in a tensor.
struct Course {
  std::int64_t first = 0;  ///< step
  std::int64_t last = 0;
  std::int64_t differing = 0;  ///< steps
  std::int64_t compared = 0;
  std::vector<std::vector<int>> groups;  ///< in the first one

  /// Alike to a reader.
  auto operator<=>(const Course&) const = default;
};

/// The tensors of a kind over all steps, as far as ranks hold copies.
class Courses {
 public:
  Courses(const StepReader& evidence, const Claim& claim) {
    for (const std::int64_t number : evidence.steps()) {
      const auto step = evidence.at(number);
      for (const HeldTensor& tensor : held_tensors(*step, claim, {})) add(number, tensor);
      last_ = number;
    }
    if (claim.kind == Kind::random_state) leave_out_idle();
  }

  std::vector<std::string> compared() const {
    std::vector<std::string> names;
    for (const auto& [name, course] : courses_) names.push_back(name);
    return names;
  }

  /// The names of those that differ, by their course.
  std::map<Course, std::vector<std::string>> differing() const {
    std::map<Course, std::vector<std::string>> alike;
    for (const auto& [name, course] : courses_) {
      if (course.differing > 0) alike[course].push_back(name);
    }
    return alike;
  }

  std::int64_t last() const { return last_; }  ///< step

 private:
  void add(std::int64_t step, const HeldTensor& tensor) {
    if (!is_comparable(tensor)) return;
    const std::string& name = tensor.holders.begin()->second->name;
    for (const auto& [rank, value] : tensor.holders) {
      const auto [known, is_new] = values_.try_emplace({name, rank}, value->digest);
      if (!is_new && known->second != value->digest) moving_.insert(name);
    }
    if (tensor.holders.size() < 2) return;
    Course& course = courses_[name];
    ++course.compared;
    auto groups = groups_of(tensor);
    if (groups.size() < 2) return;
    if (course.differing++ == 0) {
      course.first = step;
      course.groups = std::move(groups);
    }
    course.last = step;
  }

  /// Generators that nothing draws from: their states say nothing.
  void leave_out_idle() {
    for (const auto& [name, course] : courses_) {
      if (course.compared > 1 && !moving_.contains(name)) idle_.insert(name);
    }
    for (const std::string& name : idle_) courses_.erase(name);
  }

  std::map<std::string, Course> courses_;                 ///< by name
  std::map<std::pair<std::string, int>, Digest> values_;  ///< the first, by name and rank
  std::set<std::string> moving_;                          ///< names of values that change
  std::set<std::string> idle_;
  std::int64_t last_ = 0;
};

/// "bn.mean, bn.var", "12 tensors *.running_mean".
std::string names_in_words(const std::vector<std::string>& names,
                           const std::vector<std::string>& others) {
  constexpr std::size_t kShown = 3;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  const std::string pattern = pattern_of(names, others);
  return pattern.empty()
             ? fmt::format("{}, {}, {} and {} more", names[0], names[1], names[2], names.size() - 3)
             : fmt::format("{} tensors {}", names.size(), pattern);
}

std::string in_words(const Course& course, std::int64_t last) {
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

/// Buffers agree before a forward pass, if at all: each rank may count its own samples in between.
Claim claim_of(const StepReader& evidence, Kind kind) {
  const Claim before = agree_across_ranks(kind, Phase::pre_forward);
  const bool has_before = std::ranges::any_of(
      evidence.tensors(), [&](const auto& observed) { return concerns(before, observed.first); });
  return has_before ? before : agree_across_ranks(kind, Phase::post_step);
}

std::string in_words(const StepReader& evidence, Kind kind) {
  const Claim claim = claim_of(evidence, kind);
  const std::set<std::string> alone = alone_in(evidence, claim);
  const Courses courses(evidence, claim);
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
