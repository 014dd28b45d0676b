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

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

bool is_loss_of_peer(const std::string& error) {
  return std::any_of(kLossOfPeer.begin(), kLossOfPeer.end(),
                     [&](std::string_view words) { return contains(error, words); });
}

ExitCause cause_by_sentences(const RankExit& end) {
  if (end.kind == ExitKind::raised) {
    return is_loss_of_peer(end.error) ? ExitCause::lost_peer : ExitCause::none;
  }
  if (end.kind != ExitKind::unfinished) return ExitCause::none;
  const std::string& detail = end.detail;
  if (detail.starts_with("stopped ")) return ExitCause::stopped;
  if (detail.starts_with("limit of ")) return ExitCause::time_limit;
  if (detail.starts_with("interrupted ")) return ExitCause::interrupted;
  if (contains(detail, "no word of it")) return ExitCause::unseen;
  const bool is_for_another = detail.starts_with("ended ") && contains(detail, " after rank ");
  return is_for_another ? ExitCause::peer_failed : ExitCause::none;
}

}  // namespace lockstep
