#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>

#include "harness/launch/launch.h"

namespace c10d {
class Store;
}

namespace lockstep {

/// Connects to the store that is served at `rendezvous`, where a socket may listen before anybody
/// serves it; where there is no port, makes a store for a world of one. `timeout` is that of
/// connecting and of every wait. Throws c10::Error.
c10::intrusive_ptr<c10d::Store> open_store(const Rendezvous& rendezvous,
                                           std::chrono::milliseconds timeout);

}  // namespace lockstep
