#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>

#include "harness/launch/launch.h"

namespace c10d {
class Store;
}

namespace lockstep {

/// Connects to the store at `rendezvous`, where a socket may listen before a process serves it.
/// Without a port, creates a store for a world of one. `timeout` limits the connection and every
/// wait. Throws c10::Error.
c10::intrusive_ptr<c10d::Store> open_store(const Rendezvous& rendezvous,
                                           std::chrono::milliseconds timeout);

}  // namespace lockstep
