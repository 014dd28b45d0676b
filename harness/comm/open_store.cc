#include "harness/comm/open_store.h"

#include <cstdint>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace lockstep {

c10::intrusive_ptr<c10d::Store> open_store(const Rendezvous& rendezvous,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(rendezvous.port);
  options.isServer = rendezvous.port == 0;
  options.waitWorkers = false;
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
}

}  // namespace lockstep
