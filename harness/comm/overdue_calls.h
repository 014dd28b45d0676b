#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/launch/launch.h"

namespace lockstep {

/// For a process beside a rank whose peers are on other machines as well, where they cannot read
/// along in its collective log: watches the log of `rank` in `folder`. Once one of its collectives
/// has not ended for two seconds, the rank is overdue, and only then: its calls are held, through
/// the store at `rendezvous`, against those of the first other rank that was overdue in them. What
/// does not fit is told to all that are overdue, and left in `folder` for `overdue_mismatch`. Does
/// not return. To be called after a fork, since it runs torch.
[[noreturn]] void watch_overdue_calls(const Rendezvous& rendezvous, int rank,
                                      const std::filesystem::path& folder);

/// What does not fit between the calls of `rank` and those of others, once that is known.
std::optional<std::string> overdue_mismatch(const std::filesystem::path& folder, int rank);

}  // namespace lockstep
