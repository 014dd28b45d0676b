#include "harness/judge/values/reduced_in_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace lockstep {

namespace {

/// The parameters in a phase that can be compared.
std::map<HeldTensorKey, ParameterOfRanks> parameters_in(const StepView& step, Phase phase) {
  std::map<HeldTensorKey, ParameterOfRanks> parameters;
  for (const HeldTensor& place :
       held_tensors(step, agree_across_ranks(Kind::parameter, phase), {})) {
    const Observation& any = *place.holders.front().second;
    if (!any.not_comparable.empty()) continue;
    const bool do_agree = groups_of(place).size() == 1;
    parameters.emplace(HeldTensorKey(any),
                       ParameterOfRanks{place.holders.size(),
                                        do_agree ? std::optional(any.digest) : std::nullopt});
  }
  return parameters;
}

}  // namespace

void ReducedInStep::see(const StepView& step, const std::vector<const HeldTensor*>& differing) {
  if (differing.empty()) return;
  remember_parameters(step.number());
  for (const auto& [key, parameter] : parameters_in(step, Phase::pre_forward)) {
    before_[key] = parameter;
  }
  auto after = parameters_in(step, Phase::post_step);
  for (const HeldTensor* const gradient : differing) {
    const HeldTensorKey key(*gradient->tensor);
    Steps& steps = tensors_[key];
    ++steps.count;
    steps.is_apart = steps.is_apart || last_summand(gradient->tensor->name) > 0;
    const auto now = after.find(key);
    const auto before = before_.find(key);
    // A rank may end in this step.
    if (now == after.end() || now->second.ranks < gradient->holders.size()) continue;
    steps.is_apart = steps.is_apart || (!now->second.agreed && !steps.is_reduced);
    if (!now->second.agreed) continue;
    const Calls calls = calls_in(step.number(), gradient->holders);
    if (before != before_.end()) {
      judge(before->second.agreed != now->second.agreed, calls, steps);
    } else if (calls == Calls::enough) {
      steps.unknown = "it was not observed before the first of them";
    }
  }
  before_ = std::move(after);
  remembered_ = step.number();
}

std::int64_t ReducedInStep::last_summand(const Interned<std::string>& gradient) const {
  const auto found = last_summands_.find(gradient);
  return found == last_summands_.end() ? 0 : found->second;
}

/// Steps in which ranks agree are not always read.
void ReducedInStep::remember_parameters(std::int64_t step) {
  const std::vector<std::int64_t>& steps = cell_.evidence->steps();
  const auto at = std::lower_bound(steps.begin(), steps.end(), step);
  if (at == steps.begin() || *std::prev(at) == remembered_) return;
  before_ = parameters_in(*cell_.evidence->at(*std::prev(at)), Phase::post_step);
}

/// A step in which the parameter agrees.
void ReducedInStep::judge(bool is_changed, Calls calls, Steps& steps) {
  if (!is_changed) {
    if (calls == Calls::enough && steps.unknown.empty()) steps.unknown = "it never changed";
    return;
  }
  steps.is_reduced = steps.is_reduced || calls == Calls::enough;
  steps.is_apart = steps.is_apart || (calls == Calls::none && !steps.is_reduced);
  if (calls == Calls::before) {
    steps.is_begun_before = true;
    steps.unknown = "collectives were called before the steps alone";
  }
  if (calls == Calls::uncounted) steps.unknown = "the collectives in the steps were not counted";
}

ReducedInStep::Calls ReducedInStep::calls_in(std::int64_t step, const HolderRows& holders) const {
  Calls least = Calls::enough;
  for (const auto& [rank, value] : holders) {
    const Calls calls = calls_of(rank, step, holders.size());
    if (calls == Calls::none) return calls;
    if (calls != Calls::enough) least = calls;
  }
  return least;
}

namespace {

/// Whether a rank called collectives over groups whose sizes have the product `holders`; absent:
/// they were not counted.
std::optional<bool> have_reached(const std::vector<Traffic>& all, int rank, std::int64_t step,
                                 std::size_t holders) {
  bool is_counted = false;
  std::size_t reached = 1;  // ranks, by one group after the other
  for (const Traffic& traffic : all) {
    const bool is_it = traffic.first_step <= step && step <= traffic.last_step &&
                       std::binary_search(traffic.ranks.begin(), traffic.ranks.end(), rank);
    if (!is_it) continue;
    is_counted = true;
    if (traffic.collectives > 0) reached *= static_cast<std::size_t>(traffic.group_size);
    reached = std::min(reached, holders);
  }
  return is_counted ? std::optional(reached == holders) : std::nullopt;
}

}  // namespace

ReducedInStep::Calls ReducedInStep::calls_of(int rank, std::int64_t step,
                                             std::size_t holders) const {
  const auto inside = have_reached(cell_.traffic_in_steps, rank, step, holders);
  if (!inside) return Calls::uncounted;
  if (*inside) return Calls::enough;
  return have_reached(cell_.traffic, rank, step, holders).value_or(false) ? Calls::before
                                                                          : Calls::none;
}

bool ReducedInStep::includes(const HeldTensorKey& gradient) const {
  const auto found = tensors_.find(gradient);
  if (found == tensors_.end() || found->second.is_apart) return false;
  const Steps& steps = found->second;
  // Else the reduction was right in some steps, and a difference came after it.
  const bool is_in_all = steps.count > 1 && steps.count == cell_.evidence->steps().size();
  if (steps.is_begun_before && !steps.is_reduced) return is_in_all;
  return steps.is_reduced || !steps.unknown.empty();
}

std::int64_t ReducedInStep::count(const IsLeftOut& is_left_out) const {
  return std::count_if(tensors_.begin(), tensors_.end(), [&](const auto& one) {
    return !is_left_out(one.first) && includes(one.first);
  });
}

std::string ReducedInStep::unknown_in_words(const IsLeftOut& is_left_out) const {
  const auto open = std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& one) {
    return !is_left_out(one.first) && includes(one.first) && !one.second.is_reduced;
  });
  if (open == tensors_.end()) return "";
  return fmt::format(
      "the gradient of {} differs before the optimizer's steps, and the parameter agrees after "
      "them; whether ranks reduce it inside the steps is unknown, because {}",
      open->first.name, open->second.unknown);
}

}  // namespace lockstep
