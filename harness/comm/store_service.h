#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "harness/launch/launch.h"

namespace lockstep {

// What is done beside ranks, in processes of its own, which run torch: to be called after a fork.

/// Serves the store in which ranks meet on `rendezvous.listen_fd`, until this process is ended. So
/// the store outlives every rank.
[[noreturn]] void serve_store(const Rendezvous& rendezvous);

/// For the process of rank 0, whose folder the others may not see: receives the files that they
/// send into `folder`, the end of a rank after all else of it, until this process is ended.
/// `token` is that of the world in `folder`.
[[noreturn]] void receive_files(const Rendezvous& rendezvous, int world_size,
                                const std::string& token, const std::filesystem::path& folder);

/// For the process of another rank: sends the files of `rank` in `folder` to that of rank 0, where
/// `token` is not that of rank 0's folder, because this is another folder; returns whether it is.
/// Throws c10::Error when nobody takes them within `limit`.
bool send_files(const Rendezvous& rendezvous, int rank, const std::string& token,
                const std::filesystem::path& folder, std::chrono::milliseconds limit);

/// For the process of rank 0: tells the exit status of the run to all that sent files, and returns
/// when they know it. Throws c10::Error when they do not within `limit`.
void tell_status(const Rendezvous& rendezvous, int world_size, int status,
                 std::chrono::milliseconds limit);

/// For the process of `rank`, which sent files: what the one of rank 0 tells. Throws c10::Error
/// when it does not within `limit`.
int hear_status(const Rendezvous& rendezvous, int rank, std::chrono::milliseconds limit);

}  // namespace lockstep
