#include "reports/record/unreduced.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

std::string at_place(const std::string& place) { return place.empty() ? "" : " at " + place; }

std::string bypass_in_words(const Unreduced& one, std::int64_t step) {
  std::string text = fmt::format("{}'s forward was ", one.wrapper);
  if (one.last_step > 0) {
    text += fmt::format("not called in the steps {} to {}", one.first_step, one.last_step);
  } else {
    text += step == 1 ? "never called" : fmt::format("not called from step {} on", step);
  }
  if (one.place.empty()) return text;
  return text + fmt::format("; the loss was computed on the module inside it, at {}", one.place);
}

}  // namespace

std::string cause_in_words(const Unreduced& one, std::int64_t step) {
  switch (one.reason) {
    case NoReduction::bypassed:
      return bypass_in_words(one, std::max(one.first_step, step));
    case NoReduction::no_sync:
      return fmt::format("{}'s forward was called in no_sync() alone{}", one.wrapper,
                         at_place(one.place));
    case NoReduction::added_after:
      return fmt::format("they were added to the module, or replaced, after {} had wrapped it",
                         one.wrapper);
    case NoReduction::unfrozen_after:
      return fmt::format("they required no gradient when {} wrapped the module", one.wrapper);
    case NoReduction::outside:
      break;
  }
  return fmt::format("they are in no module that {} wraps", one.wrapper);
}

}  // namespace lockstep
