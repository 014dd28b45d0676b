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
