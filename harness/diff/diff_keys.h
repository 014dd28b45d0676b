#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/diff/diff_record.h"
#include "reports/base/exit_status.h"
#include "reports/record/finding_kind.h"
#include "reports/record/known_findings.h"

namespace lockstep {

/// The claim that a difference of a quantity breaks: B equals A.
Claim claim_of(Compared quantity);

/// The tensors that differ in a step, of the first quantity that does: updates follow gradients,
/// and outputs of modules are findings alone.
std::vector<const TensorDifference*> faults_of(const StepDifference& step);

/// The kind of fault that a difference shows.
FindingKind kind_of(const TensorDifference& difference);

/// That of the first fault of a step. Requires: it has one.
FindingKind kind_of(const StepDifference& step);

/// The keys of the tensors that differ in the first step with a difference, of the first quantity
/// that does: updates follow gradients (reports/record/finding_key.h). Their label is the title of
/// B.
std::vector<std::string> keys_of(const DiffRecord& diff);

/// Which of the keys are known, as lines of text; empty without `known`.
std::string keys_in_words(const DiffRecord& diff, const std::optional<KnownFindings>& known);

/// 0: B equals A; 1: it differs by a finding that is not known; 2: undecided; 3: nothing matched.
ExitStatus status_of(const DiffRecord& diff, const std::optional<KnownFindings>& known);

}  // namespace lockstep
