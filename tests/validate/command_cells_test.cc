#include "harness/validate/command_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/refusal.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(CommandCells, AreAllCombinations) {
  const auto cells = cells_of({command_axis("ranks=2,4"), command_axis("layout=ddp,fsdp2")});
  ASSERT_THAT(cells, SizeIs(4));
  EXPECT_EQ(in_words(cells[1]), "ranks=2, layout=fsdp2");
  EXPECT_EQ(folder_of(cells[1]), "ranks=2-layout=fsdp2");
  EXPECT_THAT(cells_of({}), SizeIs(1));
  EXPECT_EQ(in_words(cells_of({})[0]), "");
}

TEST(CommandCells, AboveSixteenHaveEveryPair) {
  const auto cells =
      cells_of({command_axis("a=1,2,3"), command_axis("b=1,2,3"), command_axis("c=1,2,3")});
  EXPECT_LT(cells.size(), 16U);
  std::set<std::pair<std::string, std::string>> pairs;
  for (const CommandCell& cell : cells) pairs.emplace(cell[0].second, cell[2].second);
  EXPECT_THAT(pairs, SizeIs(9));
}

TEST(CommandCells, FillNamesAndLeaveOtherBraces) {
  const CommandCell cell{{"ranks", "2"}, {"out", "a{ranks}"}};
  EXPECT_THAT(filled({"-n", "{ranks}", "{ranks}x{ranks}", "{}", "{\"a\": 1}", "{other}"}, cell),
              ElementsAre("-n", "2", "2x2", "{}", "{\"a\": 1}", "{other}"));
}

TEST(CommandCells, HaveFoldersWithoutSlashes) {
  EXPECT_EQ(folder_of(CommandCell{{"model", "../a b"}}), "model=.._a_b");
  EXPECT_EQ(folder_of(CommandCell()), ".");
}

TEST(CommandCells, RefuseWhatIsNoAxis) {
  for (const char* text : {"ranks", "ranks=", "=2", "ranks=2,2", "ranks=2,,4", "r r=1", ""}) {
    EXPECT_THAT(refusal_of({}, [&] { command_axis(text); }), HasSubstr("NAME=A,B")) << text;
  }
  EXPECT_THAT(refusal_of({},
                         [] {
                           check_axes({command_axis("ranks=2")}, {{"train", "{rank}"}});
                         }),
              HasSubstr("{ranks}"));
  check_axes({command_axis("ranks=2")}, {{"train"}, {"-n{ranks}"}});
}

}  // namespace
}  // namespace lockstep
