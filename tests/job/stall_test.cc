#include "harness/job/stall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harness/record/rank_files.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

std::string place_in(const std::string& stacks) {
  const TemporaryFolder folder;
  write_text(rank_file(folder.path(), 0, kStacksEnding), stacks);
  return read_stack(folder.path(), 0).place;
}

TEST(Stacks, TellTheInnermostLineOfTheUser) {
  EXPECT_EQ(place_in("Thread 0x1 (most recent call first):\n"
                     "  File \"/a/other.py\", line 3 in wait\n"
                     "\nCurrent thread 0x2 (most recent call first):\n"
                     "  File \"/x/python/_lockstep/_stalls.py\", line 9 in answer\n"
                     "  File \"/v/lib/python3.11/site-packages/torch/a.py\", line 5 in reduce\n"
                     "  File \"/a/my \"own\" train.py\", line 65 in main\n"
                     "  File \"/a/train.py\", line 70 in <module>\n"),
            "main, my \"own\" train.py:65");
  EXPECT_EQ(place_in("  File \"/v/site-packages/torch/a.py\", line 5 in reduce\n"),
            "reduce, a.py:5");
}

TEST(Stacks, AreThoseOfTheMainThreadWithoutOurs) {
  const TemporaryFolder folder;
  write_text(
      rank_file(folder.path(), 0, kStacksEnding),
      "Thread 0x1 (most recent call first):\n"
      "  File \"/a/other.py\", line 3 in wait\n"
      "\nCurrent thread 0x2 (most recent call first):\n"
      "  File \"/x/python/_lockstep/_stalls.py\", line 9 in answer\n"
      "  File \"/v/site-packages/torch/distributed/distributed_c10d.py\", line 5 in all_reduce\n"
      "  File \"/v/site-packages/torch/distributed/distributed_c10d.py\", line 7 in barrier\n"
      "  File \"/v/site-packages/torch/distributed/c10d_logger.py\", line 8 in wrapper\n"
      "  File \"/a/train.py\", line 65 in main\n"
      "\nExtension modules: torch._C (total: 1)\n"
      "  File \"/a/late.py\", line 1 in late\n");
  const std::vector<std::string> stack = read_stack(folder.path(), 0).frames;
  EXPECT_THAT(stack, testing::ElementsAre("all_reduce, distributed_c10d.py:5",
                                          "barrier, distributed_c10d.py:7",
                                          "wrapper, c10d_logger.py:8", "main, train.py:65"));
  EXPECT_EQ(collective_in(stack), "barrier");

  // A thread of Gloo aborted.
  write_text(rank_file(folder.path(), 0, kStacksEnding),
             "Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n"
             "  File \"/a/other.py\", line 3 in wait\n"
             "\nThread 0x2 (most recent call first):\n"
             "  File \"/a/train.py\", line 65 in main\n"
             "\nExtension modules: torch._C (total: 1)\n");
  EXPECT_THAT(read_stack(folder.path(), 0).frames, testing::ElementsAre("main, train.py:65"));
  EXPECT_EQ(read_stack(folder.path(), 0).place, "main, train.py:65");
  EXPECT_EQ(collective_in({"reduce, a.py:5", "main, train.py:65"}), "");
  EXPECT_EQ(collective_in({}), "");
}

TEST(Stacks, ThatAreNoneHaveNoPlace) {
  for (const char* text :
       {"", "File \"", "File \"a\", line ", "File \"a\", line x in f", "File \"a\", line 3 in ",
        "File \"a\", line 3 at f", "\", line 3 in f\nFile \"a", "File \"\", line \xff in \n"}) {
    EXPECT_EQ(place_in(text), "") << text;
  }
}

/// Of ranks of which one waits for the other, which is outside of any function of the script.
TEST(Stalls, HaveTheLineOfARank) {
  Stall stall;
  stall.is_open = true;
  stall.ranks = {{0}, {1}, {2}};
  for (StalledRank& rank : stall.ranks) rank.steps = 4;
  stall.ranks[0].place = "load, train.py:7";
  stall.ranks[0].stack = {"read, os.py:3", "load, train.py:7", "<module>, train.py:9"};
  stall.ranks[1].place = "the script, train.py:9";
  stall.ranks[1].stack = {"read, os.py:3", "<module>, train.py:9"};
  stall.ranks[2].place = "futex_wait";
  stall.ranks[2].stack = {"<module>, train.py:9"};
  std::vector<RankExit> exits(3);
  for (int rank = 0; rank < 3; ++rank) {
    exits[static_cast<std::size_t>(rank)].rank = rank;
    exits[static_cast<std::size_t>(rank)].kind = ExitKind::unfinished;
  }
  add_stall(stall, true, exits);
  EXPECT_EQ(exits[0].place, "train.py:7");
  EXPECT_EQ(exits[1].place, "train.py:9");
  EXPECT_EQ(exits[2].place, "") << "it is in the system";
}

/// A name of a file may be as long as the file.
TEST(Stacks, AreReadHoweverLongTheirLinesAre) {
  const std::string name(2'000'000, 'a');
  EXPECT_EQ(frames_in("File \"" + name + "\", line 3 in " + name).front().function, name);
  std::string frames;
  for (int i = 0; i < 50'000; ++i) frames += "File \"File \"a\", line 3 in f\n";
  EXPECT_EQ(frames_in(frames).size(), 50'000U);
}

}  // namespace
}  // namespace lockstep
