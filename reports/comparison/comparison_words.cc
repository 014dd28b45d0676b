#include "reports/comparison/comparison_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/mebibytes.h"
#include "reports/base/plain_text.h"
#include "reports/comparison/module_words.h"
#include "reports/comparison/tensor_words.h"
#include "reports/comparison/weights_words.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownTensors = 8;

std::string in_words(Compared quantity) {
  return quantity == Compared::optimizer_state ? "optimizer state" : std::string(name(quantity));
}

std::string plural(Compared quantity) { return in_words(quantity) + "s"; }

/// Null: none that decides has it, or it was left out.
const TensorDifference* first_of(const StepDifference& step, Likeness likeness) {
  const auto found =
      std::find_if(step.tensors.begin(), step.tensors.end(), [&](const TensorDifference& one) {
        return one.likeness == likeness && decides(one.quantity);
      });
  return found == step.tensors.end() ? nullptr : &*found;
}

/// Tensors of a step and quantity.
std::size_t tensors_of(const StepDifference& step, Compared quantity) {
  return static_cast<std::size_t>(
      std::ranges::count(step.tensors, quantity, &TensorDifference::quantity));
}

std::string name_in_words(const TensorDifference& one) {
  return plain(one.name) + (one.ranks.empty() ? "" : " on " + ranks_in_words(one.ranks));
}

std::string tensors_in_words(const StepDifference& step) {
  const std::vector<const TensorDifference*> faults = faults_of(step);
  const TensorDifference& furthest = *faults.front();
  const std::string pattern = plain(pattern_of_faults(step));
  const std::size_t all = tensors_of(step, furthest.quantity);
  const std::string many = faults.size() == all && all > 1
                               ? fmt::format("all {}", all)
                               : fmt::format("{} of {}", faults.size(), all);
  return fmt::format("{} {} differ in step {}{}, {} that of {}: {}", many,
                     plural(furthest.quantity), step.step,
                     pattern.empty() ? "" : fmt::format(", all {}", pattern),
                     &furthest == first_of(step, Likeness::different) ? "first" : "most",
                     name_in_words(furthest), size_in_words(furthest));
}

std::string difference_in_words(const StepDifference& step) {
  if (step.count(Likeness::different) == 0) return output_difference_in_words(step);
  const std::string hint = module_hint(step);
  return tensors_in_words(step) + (hint.empty() ? "" : ". " + hint);
}

std::string why_undecided(const StepDifference& step) {
  if (!step.undecidable.empty()) return step.undecidable;
  if (!first_of(step, Likeness::undecided)) {
    return fmt::format("{} tensors", step.count(Likeness::undecided));
  }
  const TensorDifference& one = *first_of(step, Likeness::undecided);
  return fmt::format("the {} of {}: {}", in_words(one.quantity), plain(one.name),
                     size_in_words(one));
}

/// "equal up to rounding in 6 steps, 1 to 6; 7 of 8 parameters have a partner".
std::string agreement_in_words(const ComparedPair& diff) {
  std::string text =
      fmt::format("{} in {} steps, {} to {}",
                  has_same_bits(diff) ? "equal, bit for bit," : "equal up to rounding",
                  steps_compared(diff), diff.steps.front().step, diff.steps.back().step);
  const std::size_t alone = std::max(diff.unmatched[0].size(), diff.unmatched[1].size());
  if (alone == 0) return text;
  return text + fmt::format("; only {} of {} parameters are on both sides", diff.matched,
                            static_cast<std::size_t>(diff.matched) + alone);
}

/// "unknown: watch both with --data"; `otherwise`: nothing is known of it.
std::string text_of(Prerequisite prerequisite, const ComparedPair& diff, const char* otherwise) {
  const auto found =
      std::ranges::find(diff.preconditions, prerequisite, &Precondition::prerequisite);
  return found == diff.preconditions.end() ? otherwise : found->text;
}

/// Of sides that are equal as far as both went.
std::string holding_in_words(const ComparedPair& diff) {
  const std::string steps = text_of(Prerequisite::steps, diff, "");
  return agreement_in_words(diff) + (steps.empty() ? "" : ", but " + plain(steps));
}

/// Requires: no tensor is different, and not all is decided.
std::string undecided_in_words(const ComparedPair& diff) {
  if (diff.steps.empty()) return "no step was observed on both sides";
  if (!first_undecided(diff) && has_died_alone(diff)) {
    return fmt::format("{}, but in B {}", agreement_in_words(diff),
                       plain(diff.sides[1].fault->sentence));
  }
  if (!first_undecided(diff)) {
    return fmt::format("{}, but {}, which may show too little in so few steps",
                       agreement_in_words(diff),
                       plain(fmt::format("{}", fmt::join(diff.hyperparameters, ", "))));
  }
  const StepDifference& step = *first_undecided(diff);
  const auto decided = &step - diff.steps.data();
  const std::string so_far =
      decided == 0 ? ""
                   : fmt::format("equal up to rounding up to step {}, but not decided after it: ",
                                 diff.steps[static_cast<std::size_t>(decided) - 1].step);
  return fmt::format("{}step {}: {}", so_far, step.step, why_undecided(step));
}

/// Tensors of a quantity that are the same multiple, or that ranks do not have alike; or one that
/// is neither.
struct Alike {
  const TensorDifference* first = nullptr;
  std::int64_t count = 0;
};

bool differ_alike(const TensorDifference& one, const TensorDifference& other) {
  if (one.quantity != other.quantity) return false;
  if (one.multiple && other.multiple) return is_same(*one.multiple, *other.multiple);
  return !one.multiple && !other.multiple && !one.ranks.empty() && !other.ranks.empty();
}

/// Of a step that differs, the furthest first. An update follows its gradient, and the optimizer's
/// state both.
std::vector<Alike> alike_in(const StepDifference& step) {
  const Compared first = first_of(step, Likeness::different)->quantity;
  std::vector<Alike> all;
  for (const TensorDifference& one : step.tensors) {
    const bool follows = one.quantity > first && (one.quantity == Compared::update ||
                                                  one.quantity == Compared::optimizer_state);
    if (one.likeness != Likeness::different || follows || !decides(one.quantity)) continue;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Alike& other) {
      return differ_alike(one, *other.first);
    });
    if (same == all.end()) {
      all.push_back({&one, 1});
    } else {
      ++same->count;
    }
  }
  std::ranges::stable_sort(all, std::greater<>(),
                           [](const Alike& one) { return size_class_of(*one.first); });
  return all;
}

/// More about the first step that differs than its headline says; empty: there is nothing more.
std::vector<std::string> lines_of_step(const StepDifference& step) {
  std::vector<std::string> lines;
  if (step.count(Likeness::different) == 0) return lines;
  const std::vector<Alike> all = alike_in(step);
  if (all.size() == 1) return lines;
  for (const Alike& alike : all) {
    if (lines.size() == kShownTensors) {
      lines.push_back(fmt::format("  and {} more", all.size() - kShownTensors));
      break;
    }
    const std::string others = alike.count == 1 ? "" : fmt::format(" and {} more", alike.count - 1);
    lines.push_back(fmt::format("  {} of {}{}: {}", in_words(alike.first->quantity),
                                name_in_words(*alike.first), others, size_in_words(*alike.first)));
  }
  return lines;
}

/// The first loss that differs; empty: none does, or none was recorded by all ranks alike.
std::string loss_in_words(const ComparedPair& diff) {
  for (const StepDifference& step : diff.steps) {
    for (const TensorDifference& one : step.tensors) {
      if (one.quantity != Compared::loss || one.likeness != Likeness::different) continue;
      return fmt::format("The recorded {} differs from step {} on, which decides nothing: {}",
                         plain(one.name), step.step, size_in_words(one));
    }
  }
  return "";
}

/// Buffers that decide nothing and differ in a step. `are_lacking`: those that one side lacks, else
/// those that both have.
std::vector<std::string> differing_statistics(const StepDifference& step, bool are_lacking) {
  std::vector<std::string> names;
  for (const TensorDifference& one : step.tensors) {
    const bool differs = one.quantity == Compared::statistic && one.likeness == Likeness::different;
    const bool is_lacking = one.kind == FindingKind::states_differ;
    if (differs && is_lacking == are_lacking) names.push_back(one.name);
  }
  return names;
}

/// Of the first step in which there are any; empty: there is none.
std::string statistics_in_words(const ComparedPair& diff, bool are_lacking) {
  for (const StepDifference& step : diff.steps) {
    const std::vector<std::string> names = differing_statistics(step, are_lacking);
    if (names.empty()) continue;
    const bool is_one = names.size() == 1;
    if (are_lacking) {
      return fmt::format(
          "{} on one side alone from step {} on, which decides nothing, since {} of the training: "
          "{}",
          is_one ? "A buffer is" : fmt::format("{} buffers are", names.size()), step.step,
          is_one ? "it is no state" : "they are no states", names_in_words(names));
    }
    return fmt::format(
        "{} from step {} on, which decides nothing, since ranks may keep such statistics of their "
        "own samples: {}",
        is_one ? "A buffer differs" : fmt::format("{} buffers differ", names.size()), step.step,
        names_in_words(names));
  }
  return "";
}

/// "What it means: lockstep explain wrong-values", of each kind once.
std::string meaning_in_words(const std::vector<FindingKind>& kinds) {
  std::vector<std::string> words;
  for (const FindingKind kind : kinds) {
    std::string word = fmt::format("lockstep explain {}", name(kind));
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  return fmt::format("What it means: {}", fmt::join(words, ", "));
}

/// Of a step that differs, the first tensor that could not be compared there; empty: all could.
std::string uncompared_in_words(const StepDifference& step) {
  const auto is_uncompared = [](const TensorDifference& one) {
    return decides(one.quantity) && !one.is_measured();
  };
  const auto first = std::ranges::find_if(step.tensors, is_uncompared);
  if (first == step.tensors.end()) return "";
  return fmt::format("Not compared in step {}: {} of {}, such as the {} of {}: {}", step.step,
                     std::ranges::count_if(step.tensors, is_uncompared),
                     counted(step.tensors.size(), "tensor"), in_words(first->quantity),
                     plain(first->name), plain(first->cause));
}

/// Of a side without a step that an error ended, nothing could be compared.
bool has_nothing_to_compare(const ComparedPair& diff) {
  return is_ended_by_fault(diff) && diff.steps.empty();
}

/// "B raised an error in step 5: RuntimeError: ..."; empty: it trained.
std::string outcome_in_words(const char* letter, const ComparedSide& side) {
  if (!side.fault) return "";
  const bool is_of_all = side.outcome == SideOutcome::raised || side.outcome == SideOutcome::hung ||
                         side.outcome == SideOutcome::out_of_memory;
  return fmt::format("{}{} {}", letter, is_of_all ? "" : ":", plain(side.fault->sentence));
}

/// ", 16.2 s, at most 412 MiB a rank"; empty: nobody measured how long it took.
std::string usage_in_words(const ComparedSide& side) {
  if (!side.duration_s) return "";
  std::string text = fmt::format(", {:.1f} s", *side.duration_s);
  if (side.peak_bytes) text += fmt::format(", at most {} a rank", in_mebibytes(*side.peak_bytes));
  if (side.peak_device_bytes) {
    text += fmt::format(" and {} of a device", in_mebibytes(*side.peak_device_bytes));
  }
  return text;
}

void add(std::vector<std::string>& lines, std::vector<std::string> more) {
  for (std::string& line : more) lines.push_back(std::move(line));
}

/// "memory of GPUs: 0.62 of A's: at most 251 MiB a rank, 405 MiB in A"; empty: unknown, or no more
/// than `least` apart.
std::string memory_in_words(const char* whose, std::optional<std::int64_t> a,
                            std::optional<std::int64_t> b, double least) {
  if (!a || !b || *a <= 0) return "";
  const double ratio = static_cast<double>(*b) / static_cast<double>(*a);
  if (std::abs(ratio - 1) < least) return "";
  return fmt::format("memory{}: {:.2f} of A's: at most {} a rank, {} in A", whose, ratio,
                     in_mebibytes(*b), in_mebibytes(*a));
}

/// Of the host the programs take most, which vary; of GPUs the tensors.
std::vector<std::string> memories_in_words(const ComparedPair& diff) {
  const auto& [a, b] = diff.sides;
  std::vector<std::string> lines;
  if (a.duration_s && b.duration_s) return lines;  // the sides say it
  for (std::string line :
       {memory_in_words("", a.peak_bytes, b.peak_bytes, 0.25),
        memory_in_words(" of GPUs", a.peak_device_bytes, b.peak_device_bytes, 0.05)}) {
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

/// What the comparison rests on, and how the sides went. Names without a partner are among it.
std::vector<std::string> basis_in_words(const ComparedPair& diff) {
  std::vector<std::string> lines;
  if (!diff.noise.empty()) {
    lines.push_back(fmt::format("noise: measured with {}", names_in_words(diff.noise)));
  }
  std::string of_a = outcome_in_words("A", diff.sides[0]);
  if (!of_a.empty() && diff.sides[1].outcome == SideOutcome::trained) {
    of_a += " If B is the side that is right, give it first.";
  }
  if (!of_a.empty()) lines.push_back(std::move(of_a));
  const std::string of_b = outcome_in_words("B", diff.sides[1]);
  if (!of_b.empty() && !is_ended_by_fault(diff)) lines.push_back(of_b);
  if (has_nothing_to_compare(diff)) return lines;
  for (const Precondition& one : diff.preconditions) {
    lines.push_back(fmt::format("{}: {}", name(one.prerequisite), plain(one.text)));
  }
  for (const std::size_t side : {0U, 1U}) {
    if (diff.unmatched[side].empty()) continue;
    lines.push_back(fmt::format(
        "only in {} ({} of {} parameters): {}", side == 0 ? "A" : "B", diff.unmatched[side].size(),
        diff.unmatched[side].size() + static_cast<std::size_t>(diff.matched),
        names_in_words(diff.unmatched[side])));
  }
  if (!diff.unmapped.empty()) {
    lines.push_back(
        fmt::format("no tensor of A has these names of --map: {}", names_in_words(diff.unmapped)));
  }
  const std::string modules = compared_modules_in_words(diff);
  if (!modules.empty()) lines.push_back(modules);
  add(lines, memories_in_words(diff));
  return lines;
}

/// What values of steps cannot show, or show without deciding anything.
std::vector<std::string> limits_in_words(const ComparedPair& diff) {
  std::vector<std::string> lines;
  if (!diff.without_evidence.empty()) {
    lines.push_back(fmt::format(
        "{} of {} parameters carry no evidence, because their gradients are 0 up to rounding, "
        "or elements of them: {}",
        diff.without_evidence.size(), diff.matched, names_in_words(diff.without_evidence)));
  }
  if (diff.gradient_scale) {
    lines.push_back(fmt::format(
        "All gradients of B are those of A times {:.6g}, and the updates agree: as by a "
        "scale that the optimizer's step takes back.",
        *diff.gradient_scale));
  }
  const std::string undeciding = undeciding_modules_in_words(diff);
  if (!undeciding.empty()) lines.push_back(undeciding);
  if (const std::string loss = loss_in_words(diff); !loss.empty()) lines.push_back(loss);
  for (const bool are_lacking : {false, true}) {
    std::string statistics = statistics_in_words(diff, are_lacking);
    if (!statistics.empty()) lines.push_back(std::move(statistics));
  }
  if (const StepDifference* const step = first_non_finite(diff)) {
    lines.push_back(
        fmt::format("From step {} on, elements are not finite on both sides.", step->step));
  }
  return lines;
}

std::vector<std::string> lines_of_values(const ComparedPair& diff) {
  std::vector<std::string> lines;
  std::vector<FindingKind> kinds;
  if (is_ended_by_fault(diff)) kinds.push_back(diff.sides[1].fault->kind);
  const bool is_about_weights = is_of_weights(diff);
  if (!has_nothing_to_compare(diff)) {
    add(lines, is_about_weights ? lines_of_weights(diff) : limits_in_words(diff));
    const StepDifference* const step = first_different(diff);
    if (faulty_precondition(diff)) {
      kinds.push_back(FindingKind::states_differ);
    } else if (step) {
      if (!is_about_weights) add(lines, lines_of_step(*step));
      const std::string uncompared = uncompared_in_words(*step);
      if (!is_about_weights && !uncompared.empty()) lines.push_back(uncompared);
      kinds.push_back(kind_of(*step));
    }
  }
  if (!kinds.empty()) lines.push_back(meaning_in_words(kinds));
  return lines;
}

/// By values, whatever ended B.
Answer answer_by_values(const ComparedPair& diff) {
  if (is_void(diff)) {
    const auto cause =
        std::find_if(diff.preconditions.begin(), diff.preconditions.end(),
                     [](const Precondition& one) { return one.likeness == Likeness::different; });
    return {"VOID", fmt::format("the {} are not the same, so differences say nothing: {}",
                                name(cause->prerequisite), plain(cause->text))};
  }
  if (const Precondition* const fault = faulty_precondition(diff)) {
    return {"DIFFERENT", plain(fault->text)};
  }
  if (diff.matched == 0) {
    return {"NOTHING MATCHED", "no parameter has the same name on both sides"};
  }
  const Verdict verdict = verdict_of_values(diff);
  const std::string word = verdict == Verdict::holds       ? ""
                           : verdict == Verdict::undecided ? "UNDECIDED"
                                                           : "DIFFERENT";
  if (is_of_weights(diff)) return {word, weights_in_words(diff)};
  if (const StepDifference* const step = first_different(diff)) {
    const std::string found = difference_in_words(*step);
    if (may_be_precision(diff)) {
      return {word, fmt::format("another precision may look the same, and {}: {}",
                                plain(fmt::format("{}", fmt::join(diff.precisions, ", "))), found)};
    }
    if (may_be_samples(diff)) {
      return {word, fmt::format("other samples would look the same, and they are {}: {}",
                                plain(text_of(Prerequisite::samples, diff, "unknown")), found)};
    }
    return {word, found};
  }
  return {word, verdict == Verdict::holds ? holding_in_words(diff) : undecided_in_words(diff)};
}

std::string in_words(const Answer& answer) {
  return answer.word.empty() ? answer.text : fmt::format("{}: {}", answer.word, answer.text);
}

}  // namespace

Answer answer_of(const ComparedPair& diff) {
  if (!is_ended_by_fault(diff)) return answer_by_values(diff);
  Answer answer{"DIFFERENT", outcome_in_words("B", diff.sides[1])};
  if (!diff.steps.empty()) {
    while (answer.text.ends_with('.')) answer.text.pop_back();
    answer.text += "; its values until then: " + in_words(answer_by_values(diff));
  }
  return answer;
}

std::string verdict_in_words(const ComparedPair& diff) { return in_words(answer_of(diff)); }

std::vector<std::string> details_of(const ComparedPair& diff) {
  std::vector<std::string> lines = basis_in_words(diff);
  add(lines, lines_of_values(diff));
  return lines;
}

std::vector<std::string> lines_of(const ComparedPair& diff) {
  std::vector<std::string> lines{"A: " + side_in_words(diff, 0), "B: " + side_in_words(diff, 1)};
  add(lines, basis_in_words(diff));
  lines.emplace_back("");
  lines.push_back(verdict_in_words(diff));
  add(lines, lines_of_values(diff));
  return lines;
}

std::string side_in_words(const ComparedPair& diff, std::size_t which) {
  const ComparedSide& side = diff.sides.at(which);
  if (side.tensors) return checkpoint_in_words(side);
  std::string text =
      fmt::format("{}, {}, {}{} ({})", plain(side.title), counted(side.world_size, "rank"),
                  counted(side.steps, "step"), usage_in_words(side), plain(side.folder));
  if (!is_of_weights(diff)) return text;
  const StepDifference& only = diff.steps.front();
  return text + fmt::format(", its weights after step {}", which == 0 ? only.step : only.other);
}

}  // namespace lockstep
