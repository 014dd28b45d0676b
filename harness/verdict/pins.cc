#include "harness/verdict/pins.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/judge/evidence/words.h"
#include "reports/base/name_pattern.h"
#include "reports/base/names.h"

namespace lockstep {

namespace {

/// Unmet expectations, part by part.
class Departures {
 public:
  template <class Expected, class Found>
  void add(std::string_view part, const Expected& expected, const Found& found) {
    if (!text_.empty()) text_ += "; ";
    text_ += fmt::format("expected {} {}, found {}", part, expected, found);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

template <class T>
bool contains(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

void compare_steps(const Pin& pin, const Finding& finding, Departures& departures) {
  if (!pin.steps.empty() && !contains(pin.steps, finding.step)) {
    departures.add("first step", fmt::to_string(fmt::join(pin.steps, " or ")), finding.step);
  }
  if (pin.last_step && *pin.last_step != finding.last_step) {
    departures.add("last step", *pin.last_step, finding.last_step);
  }
}

bool is_named(const std::vector<std::string>& patterns, const std::string& tensor) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, tensor); });
}

/// A finding about memory names the first tensor alone.
std::vector<std::string> tensors_of(const Finding& finding) {
  return finding.tensors.empty() ? std::vector{finding.tensor} : finding.tensors;
}

void compare_tensors(const Pin& pin, const Finding& finding, Departures& departures) {
  if (pin.tensors.empty()) return;
  const std::vector<std::string> tensors = tensors_of(finding);
  const auto other = std::find_if(tensors.begin(), tensors.end(), [&](const std::string& tensor) {
    return !is_named(pin.tensors, tensor);
  });
  if (other == tensors.end()) return;
  departures.add("only", fmt::to_string(fmt::join(pin.tensors, ", ")), *other);
}

std::string number_or_none(const std::optional<double>& value) {
  return value ? number(*value) : "none";
}

void compare_number(std::string_view what, const std::optional<Range>& range,
                    const std::optional<double>& value, Departures& departures) {
  if (!range || (value && range->least <= *value && *value <= range->most)) return;
  departures.add(what, fmt::format("from {} to {}", number(range->least), number(range->most)),
                 number_or_none(value));
}

void compare_attribution(const Pin& pin, const Finding& finding, Departures& departures) {
  if (!pin.attribution || pin.attribution == finding.attribution) return;
  departures.add("attribution", name(*pin.attribution),
                 finding.attribution ? name(*finding.attribution) : "none");
}

void compare_groups(const Pin& pin, const Finding& finding, Departures& departures) {
  if (pin.groups.empty() || pin.groups == finding.groups) return;
  departures.add("ranks", fmt::format("{}", pin.groups), fmt::format("{}", finding.groups));
}

void compare_mismatch(const Pin& pin, const std::optional<CollectiveMismatch>& missed,
                      Departures& departures) {
  if (pin.fault && (!missed || missed->fault != *pin.fault)) {
    departures.add("collective mismatch", name(*pin.fault), missed ? name(missed->fault) : "none");
  }
  if (!pin.culprits.empty() && (!missed || missed->culprits != pin.culprits)) {
    departures.add("culprits", fmt::format("{}", pin.culprits),
                   missed ? fmt::format("{}", missed->culprits) : "none");
  }
}

bool tells_faults_apart(const Pin& pin) {
  return !pin.steps.empty() && (pin.attribution || pin.ratio || pin.cosine || pin.fault ||
                                !pin.tensors.empty() || !pin.groups.empty());
}

bool is_declared(const Claim& claim, const Expectation& expectation) {
  return contains(expectation.breaks, claim) ||
         (claim.predicate == Predicate::ranks_finish && !expectation.raises.empty());
}

/// An error is identified by its text; wrong values before it are not.
bool has_to_pin(const Expectation& expectation) {
  return std::any_of(expectation.breaks.begin(), expectation.breaks.end(),
                     [&](const Claim& claim) { return claim.kind || expectation.raises.empty(); });
}

}  // namespace

std::string departure(const Pin& pin, const Finding& finding, const CellRecord& cell) {
  Departures departures;
  compare_steps(pin, finding, departures);
  compare_tensors(pin, finding, departures);
  compare_attribution(pin, finding, departures);
  compare_number("ratio", pin.ratio, finding.ratio, departures);
  // A zero gradient has no direction, so it does not match the reference's.
  const bool is_zero = finding.ratio && *finding.ratio == 0;
  compare_number("cosine", pin.cosine, is_zero ? 0 : finding.cosine, departures);
  compare_groups(pin, finding, departures);
  compare_mismatch(pin, cell.mismatch, departures);
  return departures.take();
}

std::string open_part(const Expectation& expectation) {
  if (!expectation.not_applicable.empty()) return "";
  if (!expectation.symptom) return "it declares no symptom";
  for (const Pin& pin : expectation.pins) {
    if (is_declared(pin.claim, expectation)) continue;
    return fmt::format("it pins '{}' but does not declare it broken", sentence(pin.claim));
  }
  const bool is_known = std::any_of(expectation.pins.begin(), expectation.pins.end(),
                                    [](const Pin& pin) { return tells_faults_apart(pin); });
  if (is_known || !has_to_pin(expectation)) return "";
  return "it declares broken claims without a pin, so another fault would pass for this one";
}

}  // namespace lockstep
