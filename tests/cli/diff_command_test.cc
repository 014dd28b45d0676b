// `lockstep diff` of checkpoints, as a program.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/checkpoint/literal_checkpoint.h"
#include "tests/cli/fake_catalogue.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

class DiffOfCheckpoints : public testing::Test {
 protected:
  DiffOfCheckpoints() {
    write("a", {1, 2, 3, 4});
    write("copy", {1, 2, 3, 4});
    write("exchanged", {1, 2, 4, 3});
    write_text(folder_.path() / "fewer.safetensors",
               safetensors(R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})",
                           bytes_of<float>({1, 2})));
  }

  Outcome diff(const std::string& arguments) const {
    return run_shell(
        fmt::format("cd {} && {} diff {}", folder_.path().string(), kLockstep, arguments));
  }

 private:
  void write(const std::string& name, const std::vector<float>& values) const {
    write_text(folder_.path() / (name + ".safetensors"),
               safetensors(R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                           bytes_of(values)));
  }

  TemporaryFolder folder_;
};

TEST_F(DiffOfCheckpoints, ExitsByWhatDiffers) {
  EXPECT_EQ(diff("a.safetensors copy.safetensors --expect same").status, 0);
  EXPECT_EQ(diff("a.safetensors exchanged.safetensors").status, 2);
  const Outcome outcome = diff("a.safetensors exchanged.safetensors --expect same");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(
      unwrapped(outcome.out),
      HasSubstr("DIFFERENT: 1 of 2 weights, b: ratio 0.96, cosine 0.96; relative difference "
                "0.283; 2 of 2 elements differ, farthest at [0]: 3 in A and 4 in B, "
                "2.1e+06 units in the last place"));
  const Outcome json = diff("a.safetensors exchanged.safetensors --expect same --format json");
  EXPECT_THAT(json.out, HasSubstr("\"differing\": 2"));
  EXPECT_THAT(json.out, HasSubstr("\"verdict\": \"violated\""));
}

TEST_F(DiffOfCheckpoints, SaysThatBothSidesAreTheSameFile) {
  const std::string note = "note: a.safetensors and ./a.safetensors are the same files";
  EXPECT_THAT(diff("a.safetensors ./a.safetensors").out, HasSubstr(note));
  EXPECT_THAT(diff("a.safetensors copy.safetensors").out, testing::Not(HasSubstr("same files")));
}

TEST_F(DiffOfCheckpoints, LetsTensorsBeMissingOnlyIfToldSo) {
  const Outcome outcome = diff("a.safetensors fewer.safetensors --expect same");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(unwrapped(outcome.out),
              HasSubstr("DIFFERENT: 1 of 2 weights, b: there is none in B; 1 only in A"));
  EXPECT_EQ(diff("fewer.safetensors a.safetensors").status, 1);
  const Outcome allowed = diff("a.safetensors fewer.safetensors --expect same --allow-missing");
  EXPECT_EQ(allowed.status, 0) << allowed.out;
  EXPECT_THAT(unwrapped(allowed.out), HasSubstr("only in A (1 of 2 parameters): b"));
}

}  // namespace
}  // namespace lockstep
