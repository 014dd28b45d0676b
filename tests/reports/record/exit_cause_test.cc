#include "reports/record/exit_cause.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep
