#include "reports/comparison/module_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "reports/base/name_pattern.h"
#include "reports/base/plain_text.h"
#include "reports/comparison/tensor_words.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

bool agrees(const TensorDifference& one) { return one.likeness <= Likeness::rounding; }

/// ", after blocks.3.qkv, which agrees": what lies between the two computed the difference. Empty:
/// it is the first one.
std::string last_agreeing_before(const TensorDifference& one, const ModuleDifferences& modules) {
  const TensorDifference* last = nullptr;
  for (const TensorDifference& other : modules.tensors) {
    if (&other == &one) break;
    if (other.quantity == one.quantity && agrees(other)) last = &other;
  }
  return last ? fmt::format(", after {}, which agrees", plain(last->name)) : "";
}

/// "blocks.3 on rank 1: ratio 1.01, ...; after blocks.2, which agrees".
std::string first_in_words(const TensorDifference& one, const ModuleDifferences& modules) {
  const std::string ranks = one.ranks.empty() ? "" : " on " + ranks_in_words(one.ranks);
  return fmt::format("{}{}{}: {}", plain(one.name), ranks, last_agreeing_before(one, modules),
                     size_in_words(one));
}

/// "all 12 outputs of modules agree", or how many do if that is undecided for some.
std::string agreement_in_words(const ModuleDifferences& modules, Compared quantity,
                               const std::string& what) {
  const std::int64_t all = modules.count(quantity);
  const std::int64_t agreeing =
      modules.count(quantity, Likeness::equal) + modules.count(quantity, Likeness::rounding);
  return agreeing == all ? fmt::format("all {} {} agree", all, what)
                         : fmt::format("none of {} {} differs, and {} agree", all, what, agreeing);
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

/// ": of 7 modules, norm alone has parameters that differ", where modules computed the same. Empty:
/// none has, or all have, as with a fault in the reduction.
std::string own_parameters_in_words(const StepDifference& step) {
  std::set<std::string> all, apart;
  std::string first;  // of those apart, in the order of execution
  for (const TensorDifference& one : step.tensors) {
    if (one.quantity != Compared::gradient && one.quantity != Compared::update) continue;
    const std::string module = module_of(one.name);
    all.insert(module);
    if (one.likeness != Likeness::different) continue;
    if (apart.empty()) first = module.empty() ? "the model itself" : plain(module);
    apart.insert(module);
  }
  if (apart.empty() || apart.size() == all.size()) return "";
  return apart.size() == 1
             ? fmt::format(": of {} modules, {} alone has parameters that differ", all.size(),
                           first)
             : fmt::format(": of {} modules, {} have parameters that differ, first {}", all.size(),
                           apart.size(), first);
}

std::string hint_by_rank(const StepDifference& step) {
  const ModuleDifferences& modules = step.modules;
  if (const auto* const output = modules.first(Compared::output, Likeness::different)) {
    return "First module that differs: " + first_in_words(*output, modules);
  }
  const std::string outputs = agreement_in_words(modules, Compared::output, "outputs of modules");
  if (modules.count(Compared::output_gradient) == 0) return capitalised(outputs);
  if (const auto* const at = modules.first(Compared::output_gradient, Likeness::different)) {
    return capitalised(outputs) + "; the first gradient that differs arrives at the output of " +
           first_in_words(*at, modules);
  }
  return fmt::format(
      "{}; {}{}", capitalised(outputs),
      agreement_in_words(modules, Compared::output_gradient, "gradients that arrive at them"),
      own_parameters_in_words(step));
}

std::string hint_by_norms(const ModuleDifferences& modules) {
  if (const auto* const output = modules.first(Compared::output, Likeness::different)) {
    return "First module whose output has another norm over the whole batch: " +
           first_in_words(*output, modules);
  }
  return capitalised(agreement_in_words(modules, Compared::output, "norms of outputs of modules"));
}

/// The first step whose modules were compared; null: there is none.
const StepDifference* first_with_modules(const ComparedPair& diff) {
  const auto step = std::find_if(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return one.modules.basis != ModuleBasis::nothing;
  });
  return step == diff.steps.end() ? nullptr : &*step;
}

std::string basis_in_words(const ModuleDifferences& modules) {
  const std::int64_t outputs = modules.count(Compared::output);
  if (modules.basis == ModuleBasis::whole_batch) {
    return fmt::format(
        "the norms of {} outputs over the whole batch, which decide nothing, because the forward "
        "passes of both sides have other samples. Gradients at outputs are those of the mean over "
        "the samples of a pass, so they are not compared",
        outputs);
  }
  return fmt::format("{} outputs and the gradients at {} of them, rank by rank{}", outputs,
                     modules.count(Compared::output_gradient),
                     modules.decides ? "" : ", which decides nothing");
}

/// "; 3 not comparable, such as head: rank 0: 8 elements in A and 4 in B; 1 only in B".
std::string left_out_in_words(const ModuleDifferences& modules) {
  std::string text;
  if (!modules.not_comparable.empty()) {
    const NotComparable& first = modules.not_comparable.front();
    text += fmt::format("; {} not comparable, such as {}: {}", modules.not_comparable.size(),
                        plain(first.name), plain(first.reason));
  }
  for (const std::size_t side : {0U, 1U}) {
    if (modules.alone[side] == 0) continue;
    text += fmt::format("; {} only in {}", modules.alone[side], side == 0 ? "A" : "B");
  }
  return text;
}

}  // namespace

std::string module_hint(const StepDifference& step) {
  switch (step.modules.basis) {
    case ModuleBasis::nothing:
      return "";
    case ModuleBasis::by_rank:
      return step.modules.count(Compared::output) > 0 ? hint_by_rank(step) : "";
    case ModuleBasis::whole_batch:
      return step.modules.count(Compared::output) > 0 ? hint_by_norms(step.modules) : "";
  }
  return "";
}

std::string output_difference_in_words(const StepDifference& step) {
  const ModuleDifferences& modules = step.modules;
  const TensorDifference& first = *modules.first(Compared::output, Likeness::different);
  return fmt::format(
      "{} of {} outputs of modules differ in step {}, though gradients and updates do not, first "
      "that of {}",
      modules.count(Compared::output, Likeness::different), modules.count(Compared::output),
      step.step, first_in_words(first, modules));
}

std::string compared_modules_in_words(const ComparedPair& diff) {
  const bool a = diff.sides[0].has_modules, b = diff.sides[1].has_modules;
  if (!a && !b) return "";
  if (!a || !b) return fmt::format("modules: only {} was watched with --modules", a ? "A" : "B");
  const StepDifference* const step = first_with_modules(diff);
  if (!step) return "modules: observed in no step on both sides";
  return "modules: " + basis_in_words(step->modules) + left_out_in_words(step->modules);
}

std::string undeciding_modules_in_words(const ComparedPair& diff) {
  if (first_different(diff)) return "";
  for (const StepDifference& step : diff.steps) {
    for (const Compared quantity : {Compared::output, Compared::output_gradient}) {
      const auto* const one = step.modules.first(quantity, Likeness::different);
      if (!one) continue;
      return fmt::format("{} in step {}, which decides nothing: first {}",
                         quantity == Compared::output
                             ? "Outputs of modules differ"
                             : "Gradients that arrive at outputs of modules differ, as with "
                               "another scale of the loss,",
                         step.step, first_in_words(*one, step.modules));
    }
  }
  return "";
}

}  // namespace lockstep
