#include "harness/diff/diff_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/diff/diff_keys.h"
#include "harness/diff/module_words.h"
#include "harness/diff/tensor_words.h"
#include "harness/diff/weights_words.h"
#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownTensors = 8;

using Json = nlohmann::json;

std::string plural(Compared quantity) { return std::string(name(quantity)) + "s"; }

/// Null: none has it, or it was left out. Losses decide nothing.
const TensorDifference* first_of(const StepDifference& step, Likeness likeness) {
  const auto found =
      std::find_if(step.tensors.begin(), step.tensors.end(), [&](const TensorDifference& one) {
        return one.likeness == likeness && one.quantity != Compared::loss;
      });
  return found == step.tensors.end() ? nullptr : &*found;
}

/// Tensors of a step and quantity that have the likeness, and all of them.
std::pair<std::int64_t, std::int64_t> share(const StepDifference& step, Compared quantity,
                                            Likeness likeness) {
  std::int64_t found = 0, all = 0;
  for (const TensorDifference& one : step.tensors) {
    if (one.quantity != quantity) continue;
    ++all;
    if (one.likeness == likeness) ++found;
  }
  return {found, all};
}

std::string name_in_words(const TensorDifference& one) {
  return plain(one.name) + (one.ranks.empty() ? "" : " on " + ranks_in_words(one.ranks));
}

std::string tensors_in_words(const StepDifference& step) {
  const TensorDifference& first = *first_of(step, Likeness::different);
  const auto [found, all] = share(step, first.quantity, Likeness::different);
  const std::string many =
      found == all && all > 1 ? fmt::format("all {}", all) : fmt::format("{} of {}", found, all);
  return fmt::format("{} {} differ in step {}, first that of {}: {}", many, plural(first.quantity),
                     step.step, name_in_words(first), size_in_words(first));
}

std::string difference_in_words(const StepDifference& step) {
  if (step.count(Likeness::different) == 0) return output_difference_in_words(step);
  const std::string hint = module_hint(step);
  return tensors_in_words(step) + (hint.empty() ? "" : ". " + hint);
}

/// The first step that could not be decided; null: all could.
const StepDifference* first_undecided(const DiffRecord& diff) {
  const auto step = std::find_if(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return !one.undecidable.empty() || one.count(Likeness::undecided) > 0;
  });
  return step == diff.steps.end() ? nullptr : &*step;
}

std::string why_undecided(const StepDifference& step) {
  if (!step.undecidable.empty()) return step.undecidable;
  if (!first_of(step, Likeness::undecided)) {
    return fmt::format("{} tensors", step.count(Likeness::undecided));
  }
  const TensorDifference& one = *first_of(step, Likeness::undecided);
  return fmt::format("the {} of {}: {}", name(one.quantity), plain(one.name), size_in_words(one));
}

/// "equal up to rounding in 6 steps, 1 to 6; 7 of 8 parameters have a partner".
std::string agreement_in_words(const DiffRecord& diff) {
  const bool has_same_bits = std::all_of(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return one.count(Likeness::equal) == one.count();
  });
  const std::string text = fmt::format(
      "{} in {} steps, {} to {}", has_same_bits ? "equal, bit for bit," : "equal up to rounding",
      diff.steps.size(), diff.steps.front().step, diff.steps.back().step);
  const std::size_t alone = std::max(diff.unmatched[0].size(), diff.unmatched[1].size());
  if (alone == 0) return text;
  return text + fmt::format("; only {} of {} parameters are on both sides", diff.matched,
                            static_cast<std::size_t>(diff.matched) + alone);
}

std::string undecided_in_words(const DiffRecord& diff) {
  if (diff.steps.empty()) return "UNDECIDED: no step was observed on both sides";
  if (!first_undecided(diff)) {
    return fmt::format("UNDECIDED: {}, but {}, which may show too little in so few steps",
                       agreement_in_words(diff),
                       plain(fmt::format("{}", fmt::join(diff.hyperparameters, ", "))));
  }
  const StepDifference& step = *first_undecided(diff);
  const auto decided = &step - diff.steps.data();
  const std::string so_far =
      decided == 0 ? ""
                   : fmt::format("equal up to rounding up to step {}, but not decided after it: ",
                                 diff.steps[static_cast<std::size_t>(decided) - 1].step);
  return fmt::format("UNDECIDED: {}step {}: {}", so_far, step.step, why_undecided(step));
}

/// `after`: the step whose weights are compared; 0: all steps are.
std::string side_in_words(const char* letter, const DiffSide& side, std::int64_t after) {
  if (side.tensors) return fmt::format("{}: {}", letter, checkpoint_in_words(side));
  return fmt::format("{}: {}, {}, {} ({}){}", letter, plain(side.title),
                     counted(side.world_size, "rank"), counted(side.steps, "step"),
                     plain(side.folder),
                     after == 0 ? "" : fmt::format(", its weights after step {}", after));
}

/// Tensors of a quantity that are the same multiple, or that ranks do not have alike; or one that
/// is neither.
struct Alike {
  const TensorDifference* first = nullptr;
  std::int64_t count = 0;
};

/// Of a step that differs, in the order of execution. An update follows its gradient.
std::vector<Alike> alike_in(const StepDifference& step) {
  const bool is_about_gradients = first_of(step, Likeness::different)->quantity != Compared::update;
  std::vector<Alike> all;
  for (const TensorDifference& one : step.tensors) {
    const bool follows = one.quantity == Compared::update && is_about_gradients;
    const bool is_loss = one.quantity == Compared::loss;
    if (one.likeness != Likeness::different || follows || is_loss) continue;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Alike& other) {
      return (one.is_multiple || !one.ranks.empty()) && other.first->quantity == one.quantity &&
             other.first->cause == one.cause;
    });
    if (same == all.end()) {
      all.push_back({&one, 1});
    } else {
      ++same->count;
    }
  }
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
    lines.push_back(fmt::format("  {} of {}{}: {}", name(alike.first->quantity),
                                name_in_words(*alike.first), others, size_in_words(*alike.first)));
  }
  return lines;
}

/// The first loss that differs; empty: none does, or none was recorded by all ranks alike.
std::string loss_in_words(const DiffRecord& diff) {
  for (const StepDifference& step : diff.steps) {
    for (const TensorDifference& one : step.tensors) {
      if (one.quantity != Compared::loss || one.likeness != Likeness::different) continue;
      return fmt::format("The recorded {} differs from step {} on, which decides nothing: {}",
                         plain(one.name), step.step, size_in_words(one));
    }
  }
  return "";
}

std::string meaning_in_words(const StepDifference& step) {
  return fmt::format("What it means: lockstep explain {}", name(kind_of(step)));
}

std::vector<std::string> lines_of(const DiffRecord& diff) {
  const bool is_one_step = is_of_weights(diff);
  std::vector<std::string> lines{
      side_in_words("A", diff.sides[0], is_one_step ? diff.steps.front().step : 0),
      side_in_words("B", diff.sides[1], is_one_step ? diff.steps.front().other : 0)};
  if (!diff.noise.empty()) {
    lines.push_back(fmt::format("noise: measured with {}", names_in_words(diff.noise)));
  }
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
  lines.push_back("");
  lines.push_back(verdict_in_words(diff));
  if (is_one_step) {
    for (std::string& line : lines_of_weights(diff)) lines.push_back(std::move(line));
    if (const StepDifference* const step = first_different(diff)) {
      lines.push_back(meaning_in_words(*step));
    }
    return lines;
  }
  if (!diff.without_evidence.empty()) {
    lines.push_back(fmt::format(
        "{} of {} parameters carry no evidence, because their gradients are 0 up to rounding, "
        "or elements of them: {}",
        diff.without_evidence.size(), diff.matched, names_in_words(diff.without_evidence)));
  }
  const std::string undeciding = undeciding_modules_in_words(diff);
  if (!undeciding.empty()) lines.push_back(undeciding);
  if (const std::string loss = loss_in_words(diff); !loss.empty()) lines.push_back(loss);
  if (const StepDifference* const step = first_non_finite(diff)) {
    lines.push_back(
        fmt::format("From step {} on, elements are not finite on both sides.", step->step));
  }
  if (const StepDifference* const step = first_different(diff)) {
    for (std::string& line : lines_of_step(*step)) lines.push_back(std::move(line));
    lines.push_back(meaning_in_words(*step));
  }
  return lines;
}

Json json_of(const DiffSide& side) {
  Json json = {{"folder", side.folder}, {"title", side.title}};
  if (side.tensors) {
    json["tensors"] = *side.tensors;
    json["optimizer_tensors"] = side.optimizer_tensors;
    json["other_values"] = side.other_values;
  } else {
    json["world_size"] = side.world_size;
    json["steps"] = side.steps;
  }
  return json;
}

Json json_of(const ElementDifferences& found) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"elements", found.elements},
          {"differing", found.differing},
          {"rows", found.rows},
          {"differing_rows", found.differing_rows},
          {"ulps", number(found.ulps)},
          {"place", found.place},
          {"a", number(found.value_a)},
          {"b", number(found.value_b)},
          {"is_rounded", found.is_rounded}};
}

Json json_of(const TensorDifference& one) {
  Json json = {{"quantity", name(one.quantity)},
               {"name", one.name},
               {"likeness", name(one.likeness)},
               {"tolerance", one.tolerance},
               {"is_finite", one.is_finite},
               {"is_estimate", one.is_estimate},
               {"cause", one.cause}};
  json["relative"] = one.is_measured() ? Json(one.relative) : Json();
  const bool is_finding = one.likeness == Likeness::different;
  json["kind"] = is_finding ? Json(name(kind_of(one))) : Json();
  json["ratio"] = one.ratio ? Json(*one.ratio) : Json();
  json["cosine"] = one.cosine ? Json(*one.cosine) : Json();
  json["ranks"] = one.ranks;
  json["elements"] = one.elements ? json_of(*one.elements) : Json();
  return json;
}

Json json_of(const ModuleDifferences& modules) {
  Json tensors = Json::array(), not_comparable = Json::array();
  for (const TensorDifference& one : modules.tensors) tensors.push_back(json_of(one));
  for (const NotComparable& one : modules.not_comparable) {
    not_comparable.push_back(
        {{"quantity", name(one.quantity)}, {"name", one.name}, {"reason", one.reason}});
  }
  return {{"basis", name(modules.basis)},
          {"decides", modules.decides},
          {"only_in", modules.alone},
          {"not_comparable", not_comparable},
          {"tensors", tensors}};
}

Json json_of(const StepDifference& step) {
  Json counts = Json::object();
  for (const std::string_view likeness : Names<Likeness>::values) {
    counts[std::string(likeness)] = step.count(*parse<Likeness>(likeness));
  }
  Json tensors = Json::array();
  for (const TensorDifference& one : step.tensors) tensors.push_back(json_of(one));
  return {{"step", step.step},
          {"other", step.other},
          {"weights_apart", step.weights_apart ? Json(*step.weights_apart) : Json()},
          {"undecidable", step.undecidable},
          {"counts", counts},
          {"tensors", tensors},
          {"modules", json_of(step.modules)}};
}

}  // namespace

std::string verdict_in_words(const DiffRecord& diff) {
  if (is_void(diff)) {
    const auto cause =
        std::find_if(diff.preconditions.begin(), diff.preconditions.end(),
                     [](const Precondition& one) { return one.likeness == Likeness::different; });
    return fmt::format("VOID: the {} are not the same, so differences say nothing: {}",
                       name(cause->prerequisite), plain(cause->text));
  }
  if (diff.matched == 0) return "NOTHING MATCHED: no parameter has the same name on both sides";
  if (is_of_weights(diff)) return weights_in_words(diff);
  if (const StepDifference* const step = first_different(diff)) {
    const std::string found = difference_in_words(*step);
    if (may_be_precision(diff)) {
      return fmt::format("UNDECIDED: another precision may look the same, and {}: {}",
                         plain(fmt::format("{}", fmt::join(diff.precisions, ", "))), found);
    }
    return may_be_samples(diff) ? "UNDECIDED: other samples would look the same, and they are "
                                  "unknown (watch both with --data): " +
                                      found
                                : "DIFFERENT: " + found;
  }
  return verdict_of(diff) == Verdict::holds ? agreement_in_words(diff) : undecided_in_words(diff);
}

std::string diff_in_words(const DiffRecord& diff, std::size_t width) {
  std::string text;
  for (const std::string& line : lines_of(diff)) {
    const bool is_detail = line.starts_with("  ");
    text += line.empty() ? "\n"
                         : wrapped(is_detail ? line.substr(2) : line, is_detail ? 2 : 0, 2, width);
  }
  return text;
}

std::string diff_in_json(const DiffRecord& diff) {
  Json sides = Json::array(), preconditions = Json::array(), steps = Json::array();
  for (const std::size_t side : {0U, 1U}) {
    sides.push_back(json_of(diff.sides[side]));
    sides.back()["unmatched"] = diff.unmatched[side];
  }
  for (const Precondition& one : diff.preconditions) {
    preconditions.push_back(
        {{"name", name(one.prerequisite)}, {"likeness", name(one.likeness)}, {"text", one.text}});
  }
  for (const StepDifference& step : diff.steps) steps.push_back(json_of(step));
  Json tied = Json::array();
  for (const TiedTensor& one : diff.tied) {
    tied.push_back({{"side", one.side == 0 ? "A" : "B"}, {"name", one.name}, {"same", one.same}});
  }
  const Json json = {{"schema", "lockstep.diff"},
                     {"version", "1.0"},
                     {"verdict", name(verdict_of(diff))},
                     {"is_void", is_void(diff)},
                     {"sentence", verdict_in_words(diff)},
                     {"matched", diff.matched},
                     {"keys", keys_of(diff)},
                     {"sides", sides},
                     {"unmapped", diff.unmapped},
                     {"tied", tied},
                     {"noise", diff.noise},
                     {"without_evidence", diff.without_evidence},
                     {"precisions", diff.precisions},
                     {"hyperparameters", diff.hyperparameters},
                     {"preconditions", preconditions},
                     {"steps", steps}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
