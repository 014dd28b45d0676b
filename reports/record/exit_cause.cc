#include "reports/record/exit_cause.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep {

namespace {

/// Messages of Gloo, the store and the MPI backend for a peer that is gone or never comes.
constexpr std::array<std::string_view, 9> kLossOfPeer{"Connection closed by peer",
                                                      "Connection reset by peer",
                                                      "Broken pipe",
                                                      "Read error [",
                                                      "Timed out waiting",
                                                      "wait timeout after",
                                                      "Connection was likely closed",
                                                      "Application timeout caused pair closure",
                                                      "not called a collective"};

}  // namespace

bool is_loss_of_peer(const std::string& error) {
  return std::any_of(kLossOfPeer.begin(), kLossOfPeer.end(), [&](std::string_view words) {
    return error.find(words) != std::string::npos;
  });
}

}  // namespace lockstep
