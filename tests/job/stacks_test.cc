#include <gtest/gtest.h>

#include <string>

#include "harness/job/stall.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

std::string place_in(const std::string& stacks) {
  const TemporaryFolder folder;
  write_text(folder.path() / "rank-0.stacks", stacks);
  return place_in_stacks(folder.path(), 0);
}

TEST(Stacks, NameTheInnermostLineOfTheUser) {
  const std::string library =
      "  File \"/venv/site-packages/torch/linear.py\", line 117 in forward\n";
  EXPECT_EQ(place_in("Current thread 0x2 (most recent call first):\n" + library +
                     "  File \"/home/a b/train.py\", line 65 in main\n"
                     "  File \"train.py\", line 80 in <module>\n"),
            "main, train.py:65");
  EXPECT_EQ(place_in(library), "forward, linear.py:117");
  EXPECT_EQ(
      place_in("  File \"x.py\", line 1 in a\nCurrent thread 0x2\n  File \"y.py\", line 2 in b"),
      "b, y.py:2");
  EXPECT_EQ(place_in("  File \"x.py\", line in main\n  File \"x.py\", line 1 in \n"), "");
}

TEST(Stacks, MayHaveLinesOfAnyLength) {
  const std::string name(1'000'000, 'x');
  EXPECT_EQ(place_in("  File \"" + name), "");
  EXPECT_EQ(place_in("  File \"/" + name + "/train.py\", line 65 in main\n"), "main, train.py:65");
}

}  // namespace
}  // namespace lockstep
