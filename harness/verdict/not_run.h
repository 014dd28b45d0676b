#pragma once

#include <optional>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Why launched ranks never began to train, if the machine is the cause. Empty if they did, or if
/// the body of a rank failed first. Based on the kinds of exit and each rank's progress in the
/// rendezvous, never on messages.
std::optional<NotRun> why_not_run(const std::vector<RankExit>& exits);

}  // namespace lockstep
