#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Whether `error` is how a transport says that a peer is gone or did not come. Asked where the
/// error is raised, and of records that do not say why a rank ended.
bool is_loss_of_peer(const std::string& error);

/// Why a rank ended, by the sentences that records before 1.5 have in place of a cause.
ExitCause cause_by_sentences(const RankExit& end);

}  // namespace lockstep
