#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Whether `error` is a transport's message that a peer is gone or never came. Used where the error
/// is raised: verdicts depend on the cause alone.
bool is_loss_of_peer(const std::string& error);

}  // namespace lockstep
