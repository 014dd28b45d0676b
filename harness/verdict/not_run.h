#pragma once

#include <optional>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Why ranks that were launched never began to train, where the machine is the reason; nothing
/// where they did, or where the body of one of them failed before. Goes by how the ranks ended and
/// by how far each got in the rendezvous, never by what they said.
std::optional<NotRun> why_not_run(const std::vector<RankExit>& exits);

}  // namespace lockstep
