#include "reports/record/exit_cause.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

TEST(LossOfPeer, IsKnownByTheWordsOfTheTransport) {
  for (const char* error :
       {"Connection closed by peer [::1]:9", "read: Connection reset by peer",
        "writev: Broken pipe", "Timed out waiting 100ms for recv", "wait timeout after 100ms",
        "Application timeout caused pair closure"}) {
    EXPECT_TRUE(is_loss_of_peer(error)) << error;
  }
  EXPECT_FALSE(is_loss_of_peer("marked as ready twice"));
}

TEST(ExitCause, OfAnOlderRecordIsDerivedFromItsSentences) {
  using enum ExitCause;
  const std::vector<std::pair<std::string, ExitCause>> known{
      {"stopped by SIGSTOP", stopped},
      {"limit of 2 s", time_limit},
      {"interrupted by SIGINT", interrupted},
      {"ended 5 s after rank 1 failed", peer_failed},
      {"ended by its launcher after rank 1 failed", peer_failed},
      {"its launcher left no word of it", unseen},
      {"no word of it within 60 s", unseen},
      {"its launcher is gone", none},
      {"", none}};
  for (const auto& [detail, cause] : known) {
    EXPECT_EQ(cause_by_sentences({.kind = ExitKind::unfinished, .detail = detail}), cause)
        << detail;
    EXPECT_EQ(cause_by_sentences({.kind = ExitKind::signalled, .detail = detail}), none) << detail;
  }
  EXPECT_EQ(cause_by_sentences({.kind = ExitKind::raised, .error = "Broken pipe"}), lost_peer);
  EXPECT_EQ(cause_by_sentences({.kind = ExitKind::raised, .error = "a bug"}), none);
  EXPECT_EQ(cause_by_sentences({.kind = ExitKind::exited, .error = "Broken pipe"}), none);
}

}  // namespace
}  // namespace lockstep
