#include "harness/diff/diff_keys.h"

#include <algorithm>

#include "reports/record/finding_key.h"

namespace lockstep {

namespace {

/// The claim that a difference breaks: B equals A.
Claim claim_of(Compared quantity) {
  switch (quantity) {
    case Compared::loss:
      return equal_reference(Kind::loss, Phase::pre_forward);
    case Compared::gradient:
      return equal_reference(Kind::gradient, Phase::pre_step);
    case Compared::update:
      break;
  }
  return equal_reference(Kind::parameter, Phase::post_step);
}

}  // namespace

FindingKind kind_of(const TensorDifference& difference) {
  if (difference.kind) return *difference.kind;
  return difference.quantity == Compared::update ? FindingKind::wrong_update
                                                 : FindingKind::wrong_values;
}

std::vector<std::string> keys_of(const DiffRecord& diff) {
  std::vector<std::string> keys;
  const StepDifference* const step = first_different(diff);
  if (!step || verdict_of(diff) != Verdict::violated) return keys;
  const auto is_fault = [](const TensorDifference& one) {
    return one.quantity != Compared::loss && one.likeness == Likeness::different;
  };
  const auto first = std::find_if(step->tensors.begin(), step->tensors.end(), is_fault);
  for (const TensorDifference& one : step->tensors) {
    // An update follows its gradient.
    if (!is_fault(one) || one.quantity != first->quantity) continue;
    keys.push_back(key_of(kind_of(one), diff.sides[1].title, claim_of(one.quantity), one.name));
  }
  return keys;
}

std::string keys_in_words(const DiffRecord& diff, const std::optional<KnownFindings>& known) {
  return known ? known->in_words({diff.sides[1].title}, keys_of(diff)) : "";
}

ExitStatus status_of(const DiffRecord& diff, const std::optional<KnownFindings>& known) {
  if (diff.matched == 0) return ExitStatus::not_applicable;
  if (known && known->lists_all(keys_of(diff))) return ExitStatus::as_expected;
  switch (verdict_of(diff)) {
    case Verdict::holds:
      return ExitStatus::as_expected;
    case Verdict::undecided:
      return ExitStatus::undecided;
    case Verdict::violated:
      break;
  }
  return ExitStatus::failed;
}

}  // namespace lockstep
