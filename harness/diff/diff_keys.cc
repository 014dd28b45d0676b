#include "harness/diff/diff_keys.h"

#include "reports/record/finding_key.h"

namespace lockstep {

Claim claim_of(Compared quantity) {
  switch (quantity) {
    case Compared::loss:
      return equal_reference(Kind::loss, Phase::pre_forward);
    case Compared::gradient:
      return equal_reference(Kind::gradient, Phase::pre_step);
    case Compared::output:
      return equal_reference(Kind::module_output, Phase::pre_forward);
    case Compared::output_gradient:
      return equal_reference(Kind::module_gradient, Phase::post_backward);
    case Compared::update:
    case Compared::weight:
      break;
  }
  return equal_reference(Kind::parameter, Phase::post_step);
}

std::vector<const TensorDifference*> faults_of(const StepDifference& step) {
  std::vector<const TensorDifference*> faults;
  const auto add = [&](const TensorDifference& one) {
    const bool is_next = faults.empty() || faults.front()->quantity == one.quantity;
    if (one.likeness == Likeness::different && is_next) faults.push_back(&one);
  };
  for (const TensorDifference& one : step.tensors) {
    if (one.quantity != Compared::loss) add(one);
  }
  if (!faults.empty()) return faults;
  for (const TensorDifference& one : step.modules.tensors) {
    if (one.quantity == Compared::output) add(one);
  }
  return faults;
}

FindingKind kind_of(const TensorDifference& difference) {
  if (difference.kind) return *difference.kind;
  return difference.quantity == Compared::update ? FindingKind::wrong_update
                                                 : FindingKind::wrong_values;
}

FindingKind kind_of(const StepDifference& step) { return kind_of(*faults_of(step).front()); }

std::vector<std::string> keys_of(const DiffRecord& diff) {
  std::vector<std::string> keys;
  const StepDifference* const step = first_different(diff);
  if (!step || verdict_of(diff) != Verdict::violated) return keys;
  for (const TensorDifference* one : faults_of(*step)) {
    keys.push_back(key_of(kind_of(*one), diff.sides[1].title, claim_of(one->quantity), one->name));
  }
  return keys;
}

std::string keys_in_words(const DiffRecord& diff, const std::optional<KnownFindings>& known) {
  return known ? known->in_words({diff.sides[1].title}, keys_of(diff)) : "";
}

ExitStatus status_of(const DiffRecord& diff, const std::optional<KnownFindings>& known) {
  if (diff.matched == 0) return ExitStatus::not_applicable;
  if (known && known->lists_all(keys_of(diff))) return ExitStatus::as_expected;
  return status_of(verdict_of(diff));
}

}  // namespace lockstep
