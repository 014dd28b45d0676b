#include "reports/record/claim.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "reports/record/cell.h"

namespace lockstep {
namespace {

TEST(Claim, ReadsAsASentence) {
  EXPECT_EQ(sentence(agree_across_ranks(Kind::gradient, Phase::pre_step)),
            "gradients agree across ranks");
  EXPECT_EQ(sentence(equal_reference(Kind::parameter, Phase::post_step)),
            "parameters equal the reference");
  EXPECT_EQ(sentence(agree_across_ranks(Kind::buffer, Phase::pre_forward)),
            "buffers agree across ranks");
  EXPECT_EQ(sentence(equal_reference(Kind::loss, Phase::pre_forward)),
            "losses equal the reference");
  EXPECT_EQ(sentence(ranks_finish()), "ranks finish");
}

TEST(Claim, NamesAPointThatIsNotTheCustomaryOne) {
  EXPECT_EQ(sentence(agree_across_ranks(Kind::gradient, Phase::post_backward)),
            "gradients agree across ranks after backward");
  EXPECT_EQ(sentence(equal_reference(Kind::parameter, Phase::pre_forward)),
            "parameters equal the reference before forward");
}

TEST(Verdict, MergesToTheWorse) {
  EXPECT_EQ(merge(Verdict::holds, Verdict::undecided), Verdict::undecided);
  EXPECT_EQ(merge(Verdict::violated, Verdict::undecided), Verdict::violated);
  EXPECT_EQ(merge(Verdict::holds, Verdict::holds), Verdict::holds);
}

TEST(Names, ReadBackWhatTheyWrite) {
  for (const auto word : Names<Role>::values) EXPECT_EQ(name(parse<Role>(word).value()), word);
  EXPECT_EQ(name(Role::wrong_fix), "wrong-fix");
  EXPECT_FALSE(parse<Role>("wrong_fix"));
  EXPECT_FALSE(parse<Phase>(""));
}

Cell tiled() {
  return {"loss-on-unwrapped-module", "bypass", Role::buggy, 2, {{"tiles", "4"}, {"view", "on"}}};
}

TEST(Cell, HasAFolderThatNamesItsChoices) {
  EXPECT_EQ(folder_of(tiled()), "loss-on-unwrapped-module/bypass/w2-tiles=4-view=on");
  Cell plain = tiled();
  plain.axes.clear();
  EXPECT_EQ(folder_of(plain), "loss-on-unwrapped-module/bypass/w2");
}

TEST(Cell, HasAFolderThatNamesADeviceThatIsNoDefault) {
  Cell virtual_one = tiled();
  virtual_one.device = DeviceKind::sim;
  EXPECT_EQ(folder_of(virtual_one),
            "loss-on-unwrapped-module/bypass/w2-device=sim-tiles=4-view=on");
  EXPECT_EQ(folder_of(virtual_one, DeviceKind::sim),
            "loss-on-unwrapped-module/bypass/w2-tiles=4-view=on");
}

TEST(Cell, HasATitleThatNamesItsDevice) {
  Cell virtual_one = tiled();
  virtual_one.device = DeviceKind::sim;
  EXPECT_EQ(title_of(virtual_one),
            "loss-on-unwrapped-module/bypass, 2 ranks on sim, tiles=4, view=on");
}

TEST(Cell, NamesItsBackendUnlessThatIsGloo) {
  Cell cell = tiled();
  cell.backend = Backend::mpi;
  EXPECT_EQ(folder_of(cell), "loss-on-unwrapped-module/bypass/w2-backend=mpi-tiles=4-view=on");
  EXPECT_EQ(title_of(cell), "loss-on-unwrapped-module/bypass, 2 ranks over mpi, tiles=4, view=on");
  cell.device = DeviceKind::sim;
  EXPECT_EQ(folder_of(cell),
            "loss-on-unwrapped-module/bypass/w2-backend=mpi-device=sim-tiles=4-view=on");
  EXPECT_EQ(title_of(cell),
            "loss-on-unwrapped-module/bypass, 2 ranks over mpi on sim, tiles=4, view=on");
}

TEST(Cell, HasATitleForSentences) {
  EXPECT_EQ(title_of(tiled()), "loss-on-unwrapped-module/bypass, 2 ranks, tiles=4, view=on");
  Cell alone = tiled();
  alone.world_size = 1;
  alone.axes.clear();
  EXPECT_EQ(title_of(alone), "loss-on-unwrapped-module/bypass, 1 rank");
}

TEST(Cell, KnowsTheValueOfAnAxis) {
  const Cell cell = tiled();
  EXPECT_EQ(axis_value(cell, "view"), "on");
  EXPECT_THROW(axis_value(cell, "vie"), std::out_of_range);
}

}  // namespace
}  // namespace lockstep
