#include "harness/judge/evidence/own_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;

ObservedTensor parameter(std::string name, std::vector<std::int64_t> shape = {4},
                         Phase phase = Phase::pre_forward, std::string group = "") {
  ObservedTensor tensor;
  tensor.phase = phase;
  tensor.name = std::move(name);
  tensor.dtype = "float32";
  tensor.offset = Shape(shape.size(), 0);
  tensor.global_shape = tensor.local_shape = shape;
  tensor.replica_group = std::move(group);
  return tensor;
}

using Ranks = std::vector<std::vector<ObservedTensor>>;

std::vector<OwnModel> models_of(const Ranks& ranks) {
  KnownTensors known;
  std::vector<std::vector<const KnownTensor*>> observed;
  for (const auto& tensors : ranks) {
    auto& of_rank = observed.emplace_back();
    for (const ObservedTensor& tensor : tensors) of_rank.push_back(known.of(tensor));
  }
  return own_models({observed.begin(), observed.end()});
}

/// The common names of the parameters of each rank.
std::vector<std::string> common_names(const Ranks& ranks) {
  const std::vector<OwnModel> models = models_of(ranks);
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string line;
    for (const ObservedTensor& tensor : ranks[rank]) {
      line += (line.empty() ? "" : " ") + models[rank].common_name(tensor);
    }
    names.push_back(line);
  }
  return names;
}

TEST(OwnModels, OfOneModelInSeveralModulesHaveCommonNames) {
  EXPECT_THAT(common_names({{parameter("net.a.w"), parameter("net.a.b")},
                            {parameter("a.w"), parameter("a.b")}}),
              ElementsAre("a.w a.b", "a.w a.b"));
  EXPECT_THAT(common_names({{parameter("a.w")}, {parameter("net.a.w")}, {parameter("net.a.w")}}),
              ElementsAre("net.a.w", "net.a.w", "net.a.w"));
  EXPECT_THAT(common_names({{parameter("teacher.w"), parameter("teacher.b")},
                            {parameter("student.w"), parameter("student.b")}}),
              ElementsAre("teacher.w teacher.b", "teacher.w teacher.b"));
}

TEST(OwnModels, NameOtherTensorsOfTheModelToo) {
  const auto models = models_of({{parameter("net.w")}, {parameter("w")}});
  ObservedTensor other = parameter("net.w: exp_avg");
  other.kind = Kind::optimizer_state;
  EXPECT_EQ(models[0].common_name(other), "w: exp_avg");
  other.kind = Kind::random_state;
  EXPECT_EQ(models[0].common_name(other), "net.w: exp_avg");
  EXPECT_EQ(own_names_in_words(models),
            "rank 0 names the parameters net.*, which are those of the other ranks named *: they "
            "were compared in their order");
  EXPECT_EQ(own_names_in_words(models_of({{parameter("w")}, {parameter("w")}})), "");
}

/// Stages of a pipeline have parts of one model, in modules that are numbered on.
TEST(OwnModels, OfOtherPartsKeepTheirNames) {
  const auto keep = [](const Ranks& ranks) {
    for (const OwnModel& model : models_of(ranks)) EXPECT_EQ(model.own, model.common);
  };
  keep({{parameter("layers.0.w")}, {parameter("layers.1.w")}});
  keep({{parameter("layers.0.w"), parameter("layers.1.w")},
        {parameter("layers.2.w"), parameter("layers.3.w")}});
  keep({{parameter("net.w", {4})}, {parameter("w", {5})}});
  keep({{parameter("net.w"), parameter("net.b")}, {parameter("b"), parameter("w")}});
  keep({{parameter("net.w"), parameter("w")}, {parameter("w"), parameter("net.w")}});
  keep({{parameter("net.w"), parameter("b")}, {parameter("w"), parameter("b")}});
  keep({{parameter("network")}, {parameter("work")}});
  keep({{parameter("net.w")}, {}});
  keep({{}, {}});
}

TEST(OwnModels, LeaveOutPartsThatOtherStagesTrain) {
  const Ranks ranks{
      {parameter("a", {4}, Phase::pre_forward, "stage 0"),
       parameter("a", {4}, Phase::post_step, "stage 0"), parameter("b")},
      {parameter("b", {4}, Phase::pre_forward, "stage 1"),
       parameter("b", {4}, Phase::post_step, "stage 1"), parameter("a"), parameter("frozen")}};
  const auto models = models_of(ranks);
  EXPECT_THAT(models[0].kept, ElementsAre("b"));
  EXPECT_THAT(models[1].kept, ElementsAre("a"));
  EXPECT_FALSE(models[1].leaves_out(parameter("frozen")));
  // What a rank trains without a stage is no copy that it keeps.
  const auto trained = models_of({{parameter("a", {4}, Phase::post_step, "stage 0")},
                                  {parameter("a"), parameter("a", {4}, Phase::post_step)}});
  EXPECT_TRUE(trained[1].kept.empty());
}

}  // namespace
}  // namespace lockstep
