#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/launch/launch.h"

namespace lockstep {

/// Watches the collective log of `rank` in `folder`, in a helper process of that rank. For worlds
/// that span machines, because peers elsewhere cannot read the log. The rank is overdue once one of
/// its collectives has not ended for two seconds. Only then are its calls compared, through the
/// store at `rendezvous`, with those of the first other rank overdue in them. All overdue ranks
/// receive a mismatch, which is written to `folder` for `overdue_mismatch`. Does not return. Call
/// after a fork, since it runs torch.
[[noreturn]] void watch_overdue_calls(const Rendezvous& rendezvous, int rank,
                                      const std::filesystem::path& folder);

/// The mismatch between the calls of `rank` and those of others; empty until one is known.
std::optional<std::string> overdue_mismatch(const std::filesystem::path& folder, int rank);

}  // namespace lockstep
