#include "harness/diff/preconditions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/compare_values.h"
#include "harness/diff/hyperparameters.h"
#include "harness/diff/precision.h"
#include "harness/judge/evidence/observations.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// The samples of one input that ranks saw in a step.
struct Samples {
  Digest digest;
  std::int64_t count = 0;
};

/// By shape and type of one sample, by rank: pipelines pass other inputs to later stages.
using Inputs = std::map<std::string, std::map<int, Samples>>;

std::string form_of(const Observation& row) {
  std::string form = row.dtype;
  for (std::size_t i = 1; i < row.local_shape.size(); ++i) {
    form += fmt::format(" {}", row.local_shape[i]);
  }
  return form;
}

Inputs inputs_of(const StepView& step) {
  Inputs inputs;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      const bool is_known = row.kind == Kind::data && row.not_comparable.empty();
      if (!is_known || row.local_shape.empty()) continue;
      Samples& samples = inputs[form_of(row)][rank];
      samples.digest += row.digest;
      samples.count += row.local_shape[0];
    }
  }
  return inputs;
}

/// Ranks of a tensor-parallel group see the same samples: each set counts once.
Samples all_of(const std::map<int, Samples>& ranks) {
  std::map<Digest, Samples> sets;
  for (const auto& [rank, samples] : ranks) sets.emplace(samples.digest, samples);
  Samples all;
  for (const auto& [digest, samples] : sets) {
    all.digest += samples.digest;
    all.count += samples.count;
  }
  return all;
}

/// "rank 0 saw 4 samples, rank 1 saw 4 samples".
std::string in_words(const std::map<int, Samples>& ranks) {
  std::string text;
  for (const auto& [rank, samples] : ranks) {
    text += fmt::format("{}rank {} saw {} samples", text.empty() ? "" : ", ", rank, samples.count);
  }
  return text;
}

/// Why the samples of a step differ; empty: they do not, or no input is known on both sides.
std::string difference_of_samples(const Inputs& a, const Inputs& b, bool& is_known) {
  for (const auto& [form, ranks] : a) {
    const auto other = b.find(form);
    if (other == b.end()) continue;
    is_known = true;
    const Samples of_a = all_of(ranks), of_b = all_of(other->second);
    if (of_a.digest == of_b.digest) continue;
    const std::string apart =
        of_a.count == of_b.count
            ? "not all of these are the same"
            : fmt::format("these are {} and {}, since ranks that saw the same count once",
                          of_a.count, of_b.count);
    return fmt::format("in A {}; in B {}; {}", in_words(ranks), in_words(other->second), apart);
  }
  return "";
}

using Settings = std::map<std::string, std::set<std::string>>;

/// The values of each setting on any rank.
Settings settings_of(const JobRecord& job) {
  Settings settings;
  for (const Setting& one : job.configuration) settings[one.name].insert(one.value);
  return settings;
}

std::string values_in_words(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "absent" : fmt::format("{}", fmt::join(found->second, " and "));
}

/// The states of a rank's generators by name.
std::map<std::string_view, const Observation*> random_states(const StepView& view, int rank) {
  std::map<std::string_view, const Observation*> states;
  for (const Observation& one : view.observations(rank)) {
    if (one.kind == Kind::random_state) states.emplace(one.name, &one);
  }
  return states;
}

/// A generator whose state differs in a step: "torch cpu on rank 1"; empty: none does.
std::string differing_generator(const StepView& a, const StepView& b, int ranks, bool& is_known) {
  const auto of_0 = random_states(a, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto of_b = random_states(b, rank);
    for (const auto& [name, state] : random_states(a, rank)) {
      const auto other = of_b.find(name);
      if (other == of_b.end()) continue;
      is_known = true;
      if (is_same_value(*state, *other->second)) continue;
      const auto first = of_0.find(name);
      const bool is_of_rank_0 =
          rank > 0 && first != of_0.end() && is_same_value(*first->second, *other->second);
      return fmt::format("{} on rank {}{}", name, rank,
                         is_of_rank_0 ? ", where B has that of A's rank 0" : "");
    }
  }
  return "";
}

/// Whether each rank that saw samples of a form in A saw the same in B.
bool is_same_on_all(const std::map<int, Samples>& a, const std::map<int, Samples>& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& one) {
           const auto other = b.find(one.first);
           return other != b.end() && other->second.digest == one.second.digest;
         });
}

}  // namespace

std::optional<bool> ranks_saw_the_same(const StepView& a, const StepView& b) {
  const Inputs of_a = inputs_of(a), of_b = inputs_of(b);
  bool is_known = false;
  for (const auto& [form, ranks] : of_a) {
    const auto other = of_b.find(form);
    if (other == of_b.end()) continue;
    if (!is_same_on_all(ranks, other->second)) return false;
    is_known = true;
  }
  return is_known ? std::optional(true) : std::nullopt;
}

WholeTensorKey before_step_key(const std::string& name) {
  return {Phase::pre_forward, Kind::parameter, name};
}

const WholeTensor* before_step(const WholeTensors& before, const std::string& name) {
  return before.find(before_step_key(name));
}

std::optional<double> parameters_apart(const WholeTensors& a, const WholeTensors& b,
                                       const std::set<std::string>& left_out) {
  double apart = 0, of_a = 0, of_b = 0;
  std::int64_t compared = 0;
  std::set<std::string> names = left_out;
  for (const auto& [key, ignored] : a.all()) {
    if (key.kind != Kind::parameter || !names.insert(key.name).second) continue;
    const WholeTensor* const one = before_step(a, key.name);
    const WholeTensor* const other = before_step(b, key.name);
    if (!one || !other || !one->problem.empty() || !other->problem.empty()) continue;
    const auto distance = distance_of(*one, *other);
    if (!distance) return std::nullopt;
    apart += *distance * *distance;
    of_a += one->norm * one->norm;
    of_b += other->norm * other->norm;
    ++compared;
  }
  if (compared == 0) return std::nullopt;
  const double larger = std::max(of_a, of_b);
  return larger > 0 ? std::sqrt(apart / larger) : 0;
}

namespace {

struct InitialWeight {
  const std::string& name;
  const WholeTensor& of_a;
  const WholeTensor& of_b;
};

/// The parameters that both sides have before the first step.
struct InitialWeights {
  std::vector<InitialWeight> whole;  ///< known on both sides
  std::vector<std::string> others;   ///< why not: "head.weight: its parts overlap in B"
};

InitialWeights initial_weights(const WholeTensors& a, const WholeTensors& b) {
  InitialWeights weights;
  for (const auto& [key, tensor] : a.all()) {
    const WholeTensor* const other = key == before_step_key(key.name) ? b.find(key) : nullptr;
    if (!other) continue;
    if (!tensor.problem.empty()) {
      weights.others.push_back(fmt::format("{}: {} in A", key.name, tensor.problem));
    } else if (!other->problem.empty()) {
      weights.others.push_back(fmt::format("{}: {} in B", key.name, other->problem));
    } else {
      weights.whole.push_back({key.name, tensor, *other});
    }
  }
  return weights;
}

}  // namespace

Precondition compare_initial_weights(const WholeTensors& a, const WholeTensors& b) {
  Precondition weights{Prerequisite::initial_weights, Likeness::undecided, ""};
  const InitialWeights both = initial_weights(a, b);
  const std::size_t compared = both.whole.size();
  std::size_t equal = 0;
  for (const InitialWeight& one : both.whole) {
    const Bound bound{limit_of(rounding_of_layouts(one.of_a, one.of_b, {}).base), {}};
    const TensorDifference found = compare_values(one.of_a, one.of_b, bound, 0, {});
    if (found.likeness == Likeness::equal) ++equal;
    if (found.likeness != Likeness::different) continue;
    weights.likeness = Likeness::different;
    weights.text = fmt::format("{} differs: relative difference {:.3g}", one.name, found.relative);
    if (!found.cause.empty()) weights.text += ", " + found.cause;
    return weights;
  }
  if (compared == 0) {
    weights.text = "unknown: no parameter was observed on both sides before the first step";
    return weights;
  }
  weights.likeness = equal == compared ? Likeness::equal : Likeness::rounding;
  weights.text =
      equal == compared
          ? fmt::format("equal, bit for bit: {}", counted(compared, "tensor"))
          : fmt::format("equal up to rounding: {} of {} tensors", compared - equal, compared);
  if (!both.others.empty()) {
    weights.text +=
        fmt::format("; {} not compared, such as {}", both.others.size(), both.others.front());
  }
  return weights;
}

Precondition compare_configurations(const JobRecord& a, const JobRecord& b, std::int64_t offset) {
  Precondition configuration{Prerequisite::configuration, Likeness::undecided, "unknown"};
  const Settings of_a = settings_of(a), of_b = settings_of(b);
  if (of_a.empty() || of_b.empty()) return configuration;
  std::set<std::string> names;
  for (const auto& [name, values] : of_a) names.insert(name);
  for (const auto& [name, values] : of_b) names.insert(name);
  std::vector<std::string> differing = differing_precisions(a, b);
  for (const std::string& name : names) {
    const std::string in_a = values_in_words(of_a, name), in_b = values_in_words(of_b, name);
    if (in_a != in_b && (offset == 0 || !is_scheduled(name.substr(name.rfind('.') + 1))))
      differing.push_back(fmt::format("{} is {} in A and {} in B", name, in_a, in_b));
  }
  if (differing.empty()) {
    configuration.likeness = Likeness::equal;
    configuration.text = fmt::format("equal: {} settings", names.size());
    return configuration;
  }
  configuration.text = "differs: " + listed(differing, 4);
  return configuration;
}

std::optional<Precondition> compare_random_states(
    const SideFiles& a, const SideFiles& b,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& steps) {
  const bool has_a = a.has_any(Kind::random_state), has_b = b.has_any(Kind::random_state);
  if (!has_a && !has_b) return std::nullopt;
  Precondition states{Prerequisite::random_states, Likeness::undecided,
                      "unknown: watch both with --also random-state"};
  if (!has_a || !has_b) return states;
  const int world_a = a.job().world_size, world_b = b.job().world_size;
  const int ranks = world_a == world_b ? world_a : 1;
  std::int64_t known = 0;
  for (const auto& [step, other] : steps) {
    bool is_known = false;
    const std::string found = differing_generator(*a.at(step), *b.at(other), ranks, is_known);
    if (!found.empty()) {
      states.text = fmt::format("they differ after step {}: {}", step, found);
      return states;
    }
    if (is_known) ++known;
  }
  if (known == 0) return states;
  states.likeness = Likeness::equal;
  states.text = fmt::format("the same after {} of {} steps{}", known, steps.size(),
                            world_a == world_b ? "" : ", on rank 0");
  return states;
}

namespace {

/// Whether all inputs of two steps that have one form are the same; false: none has.
bool has_same_samples(const Inputs& a, const Inputs& b) {
  bool is_known = false;
  return difference_of_samples(a, b, is_known).empty() && is_known;
}

/// Adds whose samples B saw in its step `other`, if they are those of another step of A.
void add_other_step(const SideFiles& a, const Inputs& seen, std::int64_t step, std::int64_t other,
                    Precondition& samples) {
  for (const std::int64_t number : a.steps()) {
    if (number == step || !has_same_samples(inputs_of(*a.at(number)), seen)) continue;
    samples.is_fault = step != other;
    samples.text =
        fmt::format("B saw in its step {} the samples of A's step {}, not those of step {}", other,
                    number, step);
    return;
  }
}

}  // namespace

Precondition compare_samples(const SideFiles& a, const SideFiles& b,
                             const std::vector<std::pair<std::int64_t, std::int64_t>>& steps) {
  Precondition samples{Prerequisite::samples, Likeness::undecided,
                       "unknown: watch both with --data"};
  if (!a.samples().empty() && a.samples() == b.samples()) {
    samples.likeness = Likeness::equal;
    samples.text = "those of the scenario: both cells have the same reference";
    return samples;
  }
  if (!a.has_any(Kind::data) || !b.has_any(Kind::data)) return samples;
  std::int64_t known = 0;
  for (const auto& [step, other] : steps) {
    bool is_known = false;
    const std::string found =
        difference_of_samples(inputs_of(*a.at(step)), inputs_of(*b.at(other)), is_known);
    if (!found.empty()) {
      samples.likeness = Likeness::different;
      samples.text = fmt::format("they differ in step {}: {}", step, found);
      add_other_step(a, inputs_of(*b.at(other)), step, other, samples);
      return samples;
    }
    if (is_known) ++known;
  }
  if (known == 0) {
    samples.text = "unknown: no input has the same form on both sides";
    return samples;
  }
  samples.likeness = Likeness::equal;
  samples.text = fmt::format("the same in {} of {} steps", known, steps.size());
  return samples;
}

std::optional<Precondition> compare_last_steps(const SideFiles& a, const SideFiles& b,
                                               std::int64_t offset) {
  if (a.steps().empty() || b.steps().empty()) return std::nullopt;
  const std::int64_t of_a = a.steps().back(), of_b = b.steps().back();
  const bool is_a_shorter = of_a + offset < of_b;
  const std::vector<std::int64_t>& shorter = (is_a_shorter ? a : b).steps();
  const std::int64_t stride =
      shorter.size() > 1 ? shorter.back() - shorter[shorter.size() - 2] : std::int64_t{1};
  if (std::abs(of_a + offset - of_b) < stride) return std::nullopt;
  return Precondition{
      Prerequisite::steps, Likeness::undecided,
      fmt::format("A was observed {}up to step {}, and B {}up to step {}",
                  is_a_shorter ? "only " : "", of_a, is_a_shorter ? "" : "only ", of_b)};
}

}  // namespace lockstep
