#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "harness/launch/launch.h"

namespace lockstep {

// Services for ranks, in helper processes. They run torch, so call them after a fork.

/// Serves the ranks' rendezvous store on `rendezvous.listen_fd` until this process is ended. So the
/// store outlives every rank.
[[noreturn]] void serve_store(const Rendezvous& rendezvous);

/// For the process of rank 0, whose folder the others may not see. Stores the files that they send
/// in `folder`, each rank's exit file last, until this process is ended. `token` is that of the
/// world in `folder`.
[[noreturn]] void receive_files(const Rendezvous& rendezvous, int world_size,
                                const std::string& token, const std::filesystem::path& folder);

/// For the process of another rank: sends the files of `rank` in `folder` to rank 0. It does so
/// only if `token` differs from that of rank 0, which means another folder, and returns whether it
/// does. Throws c10::Error when they are not received within `limit`.
bool send_files(const Rendezvous& rendezvous, int rank, const std::string& token,
                const std::filesystem::path& folder, std::chrono::milliseconds limit);

/// For the process of rank 0: sends the exit status of the run to all ranks that sent files.
/// Returns when they have received it. Throws c10::Error when they have not within `limit`.
void tell_status(const Rendezvous& rendezvous, int world_size, int status,
                 std::chrono::milliseconds limit);

/// For the process of `rank`, which sent files: receives the status from rank 0. Throws c10::Error
/// when none arrives within `limit`.
int hear_status(const Rendezvous& rendezvous, int rank, std::chrono::milliseconds limit);

}  // namespace lockstep
