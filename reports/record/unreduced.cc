#include "reports/record/unreduced.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

std::string at_place(const std::string& place) { return place.empty() ? "" : " at " + place; }

/// "DDP, made at train.py:40,".
std::string wrapper_in_words(const Unreduced& one) {
  return one.place.empty() ? one.wrapper : fmt::format("{}, made at {},", one.wrapper, one.place);
}

std::string bypass_in_words(const Unreduced& one, std::int64_t step) {
  std::string text = fmt::format("{}'s forward was ", one.wrapper);
  const std::string called = one.is_evaluated ? "called with gradients" : "called";
  if (one.is_repeated) {
    text += fmt::format("not {} in some steps, the first of them step {}", called, one.first_step);
  } else if (one.last_step > 0) {
    text += fmt::format("not {} in the steps {} to {}", called, one.first_step, one.last_step);
  } else {
    text += step == 1 ? "never " + called : fmt::format("not {} from step {} on", called, step);
  }
  if (one.place.empty()) return text;
  return text + fmt::format("; the loss was computed on the module inside it, at {}", one.place);
}

}  // namespace

std::string cause_in_words(const Unreduced& one, std::int64_t step) {
  const std::string made_at = one.place.empty() ? "" : ", at " + one.place;
  switch (one.reason) {
    case NoReduction::bypassed:
      return bypass_in_words(one, std::max(one.first_step, step));
    case NoReduction::no_sync:
      return fmt::format("{}'s forward was called in no_sync() alone{}", one.wrapper,
                         at_place(one.place));
    case NoReduction::added_after:
      return fmt::format("they were added to the module, or replaced, after {} had wrapped it{}",
                         one.wrapper, made_at);
    case NoReduction::unfrozen_after:
      return fmt::format("they required no gradient when {} wrapped the module{}", one.wrapper,
                         made_at);
    case NoReduction::outside:
      return fmt::format("they are in no module that {} wraps{}", one.wrapper, made_at);
    case NoReduction::switched_off:
      return fmt::format(
          "{} was told not to reduce them: set_requires_gradient_sync(False), or "
          "set_requires_all_reduce(False)",
          one.wrapper);
    case NoReduction::group_of_one:
      return fmt::format("{}'s group has one rank{}", one.wrapper, made_at);
    case NoReduction::in_backward:
      return fmt::format(
          "the optimizer steps in the backward pass, before {} reduces the gradients",
          wrapper_in_words(one));
    case NoReduction::written_after:
      return fmt::format("they were written on {} after {} had made them equal",
                         ranks_in_words(one.ranks), wrapper_in_words(one));
    case NoReduction::unwrapped:
      break;
  }
  return "neither DDP nor FSDP wraps the module";
}

}  // namespace lockstep
