// A small world of forked ranks on the CPU, for tests of parts that communicate.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "harness/comm/process_group.h"
#include "harness/comm/store_service.h"
#include "harness/launch/launch.h"
#include "harness/record/collective_log.h"
#include "tests/temporary_folder.h"

namespace lockstep {

/// Runs `body` on each rank; it returns whether all is right there. The process has one thread, so
/// nothing before it has used torch.
inline void expect_on_ranks(int ranks, const std::function<bool(ProcessGroup& group)>& body) {
  const TemporaryFolder folder;
  LaunchOptions options;
  options.ranks = ranks;
  options.folder = folder.path();
  options.host = serve_store;
  const auto exits = launch_ranks(options, [&](const RankPlacement& placement) {
    CollectiveLog log(collective_log_file(folder.path(), placement.rank), placement.rank);
    ProcessGroup group(placement, {}, log);
    return body(group) ? 0 : 1;
  });
  ASSERT_EQ(static_cast<int>(exits.size()), ranks);
  for (const RankExit& end : exits) {
    EXPECT_TRUE(end.kind == ExitKind::finished && end.code == 0)
        << end.rank << ": " << exit_in_words(end) << "\n"
        << end.last_output;
  }
}

}  // namespace lockstep
