#include "harness/checkpoint/model_names.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ModelNames, HaveNoPartsOfWrappers) {
  EXPECT_EQ(without_wrappers("module._orig_mod.layer.weight"), "layer.weight");
  EXPECT_EQ(without_wrappers("_orig_mod.module.layer.weight"), "layer.weight");
  EXPECT_EQ(without_wrappers("a._fsdp_wrapped_module.b._checkpoint_wrapped_module.c"), "a.b.c");
  EXPECT_EQ(without_wrappers("a.module.weight"), "a.module.weight");
  EXPECT_EQ(without_wrappers("my_orig_mod.weight"), "my_orig_mod.weight");
  EXPECT_EQ(without_wrappers("_orig_mod"), "_orig_mod");
  EXPECT_EQ(without_wrappers("a..b."), "a..b.");
  EXPECT_EQ(without_wrappers(""), "");
}

TEST(ModelNames, AreThoseThatMatchTheOtherSide) {
  const std::array<std::string, 2> none{"", ""}, of_b{"", "model."},
      of_both{"state_dict.", "app.model."};
  EXPECT_EQ(model_prefixes({"a", "b"}, {"a", "b"}), none);
  EXPECT_EQ(model_prefixes({"model.a", "model.b"}, {"model.a", "model.b"}), none);
  EXPECT_EQ(model_prefixes({"model.a", "head"}, {"model.model.a", "model.head", "step"}), of_b);
  EXPECT_EQ(model_prefixes({"state_dict.a"}, {"app.model.a"}), of_both);
  EXPECT_EQ(model_prefixes({"x"}, {"y"}), none);
}

TEST(ModelNames, AreNotThoseOfOptimizers) {
  for (const char* name : {"optim.state.a.exp_avg", "optimizer.param_groups.0.lr",
                           "app.optim.state.a.step", "optimizers.0.state"}) {
    EXPECT_TRUE(is_of_optimizer(name)) << name;
  }
  for (const char* name : {"optimizer", "optimism.a", "model.optim.a", "a.optimizer.b"}) {
    EXPECT_FALSE(is_of_optimizer(name)) << name;
  }
}

}  // namespace
}  // namespace lockstep
