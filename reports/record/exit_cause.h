#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Whether `error` is a transport's message that a peer is gone or never came. Used where the error
/// is raised, and for records that lack the cause of an exit.
bool is_loss_of_peer(const std::string& error);

/// The cause of an exit, parsed from the sentences that records before 1.5 contain instead.
ExitCause cause_by_sentences(const RankExit& end);

}  // namespace lockstep
