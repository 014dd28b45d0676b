#include "harness/train/placement/device_map.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/sim/virtual_devices.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/nn/vision_language_model.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const at::Device kFirst("cuda:0"), kSecond("cuda:1"), kThird("cuda:2");

/// A hand-made part of a model; sizes in bytes.
class Tree : public Module {
 public:
  std::shared_ptr<Tree> part(const std::string& name, std::int64_t bytes = 0) {
    auto child = std::make_shared<Tree>();
    if (bytes > 0) child->own("weight", bytes);
    return register_module(name, child);
  }
  void share(const std::string& name, std::shared_ptr<Tree> part) {
    register_module(name, std::move(part));
  }
  at::Tensor own(const std::string& name, std::int64_t bytes) {
    return own(name, at::empty({bytes}, at::kByte));
  }
  at::Tensor own(const std::string& name, const at::Tensor& tensor) {
    return register_buffer(name, tensor);
  }
  at::Tensor forward(const at::Tensor& input) override { return input; }
};

/// Parts a, b, c, ... of these sizes.
Tree row(const std::vector<std::int64_t>& sizes) {
  Tree model;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    model.part(std::string(1, static_cast<char>('a' + i)), sizes[i]);
  }
  return model;
}

std::vector<DeviceCapacity> devices(const std::vector<std::int64_t>& capacities) {
  std::vector<DeviceCapacity> result;
  for (const std::int64_t bytes : capacities) {
    result.push_back({at::Device(at::kCUDA, static_cast<at::DeviceIndex>(result.size())), bytes});
  }
  return result;
}

std::string inferred(const Module& model, DevicePolicy policy,
                     const std::vector<std::int64_t>& capacities,
                     const IsIndivisible& is_indivisible = residual_blocks()) {
  return to_string(infer_device_map(
      model, policy, {.devices = devices(capacities), .is_indivisible = is_indivisible}));
}

std::vector<std::int64_t> left_by(const Module& model, DevicePolicy policy,
                                  const std::vector<std::int64_t>& capacities,
                                  const IsIndivisible& is_indivisible = residual_blocks()) {
  std::vector<std::int64_t> bytes;
  for (const DeviceCapacity& device : capacities_of(
           model, policy, {.devices = devices(capacities), .is_indivisible = is_indivisible})) {
    bytes.push_back(device.bytes);
  }
  return bytes;
}

template <class Function>
std::string refusal_in_words(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return "no error";
}

TEST(DeviceMap, IsWrittenAsInPython) {
  EXPECT_EQ(to_string(DeviceMap{{"", kFirst}}), R"({"": "cuda:0"})");
  EXPECT_EQ(to_string(DeviceMap{{"vision", kFirst}, {"language", at::kCPU}}),
            R"({"vision": "cuda:0", "language": "cpu"})");
  EXPECT_EQ(to_string(DeviceMap{}), "{}");
}

TEST(DeviceMap, GivesEachPartTheEntryWithTheLongestName) {
  const DeviceMap map{{"blocks", kSecond}, {"blocks.1", kThird}, {"head", kFirst}};
  EXPECT_EQ(device_of(map, "blocks.1.weight"), kThird);
  EXPECT_EQ(device_of(map, "blocks.10.weight"), kSecond);
  EXPECT_EQ(device_of(map, "blocks"), kSecond);
  EXPECT_EQ(device_of(map, "headless"), std::nullopt);
  EXPECT_EQ(device_of({{"blocks", kSecond}, {"", kFirst}}, "norm"), kFirst);
}

TEST(DeviceMapRequest, IsReadAsItIsWritten) {
  for (const char* const word : {"none", "auto", "balanced", "balanced_low_0", "sequential"}) {
    EXPECT_EQ(to_string(parse_device_map(word)), word);
  }
  EXPECT_EQ(parse_device_map("auto").policy, DevicePolicy::automatic);
  const DeviceMapRequest written = parse_device_map("vision=cuda:1,=cpu");
  EXPECT_EQ(written.policy, DevicePolicy::explicit_map);
  EXPECT_THAT(written.map,
              ElementsAre(DeviceMapEntry{"vision", kSecond}, DeviceMapEntry{"", at::kCPU}));
  EXPECT_EQ(to_string(written), R"({"vision": "cuda:1", "": "cpu"})");
}

TEST(DeviceMapRequest, RefusesOtherWordsInASentence) {
  const auto refused = [](const char* text) {
    return refusal_in_words([&] { parse_device_map(text); });
  };
  EXPECT_THAT(refused("balancd"), HasSubstr("There is no device map 'balancd'. Did you mean "
                                            "'balanced'?"));
  EXPECT_THAT(refused(""), AllOf(HasSubstr("auto"), HasSubstr("NAME=DEVICE")));
  EXPECT_THAT(refused("a=cuda:0,b"), HasSubstr("a device map cannot be 'b'"));
  EXPECT_THAT(refused("a=gpu0"), HasSubstr("the device of 'a' cannot be 'gpu0'"));
  EXPECT_THAT(refused("a=cuda:0,a=cuda:1"), HasSubstr("has 'a' twice"));
  EXPECT_THAT(refused("=cuda:0,=cuda:1"), HasSubstr("has the whole model twice"));
}

TEST(BytesOf, CountsWhatIsInSeveralPlacesOnce) {
  Tree model;
  const auto embedding = model.part("embedding", 40);
  model.part("block", 10)->own("mask", 2);
  model.share("head", embedding);
  EXPECT_EQ(bytes_of(model), 52);
}

TEST(Sequential, FillsTheDevicesInOrder) {
  // The first device keeps room for the largest part still to come: 3 of 10.
  const Tree model = row({3, 3, 3, 3, 3});
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {10, 100}),
            R"({"a": "cuda:0", "b": "cuda:0", "c": "cuda:1", "d": "cuda:1", "e": "cuda:1"})");
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {9, 6, 100}),
            R"({"a": "cuda:0", "b": "cuda:0", "c": "cuda:1", "d": "cuda:1", "e": "cuda:2"})");
}

TEST(Sequential, TakesOneDeviceThatOnlyJustHoldsAll) {
  const Tree model = row({3, 4, 3});
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {10, 10}), R"({"": "cuda:0"})");
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {10}), R"({"": "cuda:0"})");
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {9, 10}),
            R"({"a": "cuda:0", "b": "cuda:1", "c": "cuda:1"})");
}

TEST(Sequential, DoesNotReturnToAnEarlierDevice) {
  EXPECT_EQ(inferred(row({2, 8, 2}), DevicePolicy::sequential, {11, 8, 2}),
            R"({"a": "cuda:0", "b": "cuda:1", "c": "cuda:2"})");
}

TEST(Sequential, LeavesOutDevicesWithoutCapacity) {
  EXPECT_EQ(inferred(row({3, 3}), DevicePolicy::sequential, {0, 6}), R"({"": "cuda:1"})");
  EXPECT_EQ(inferred(row({3, 3, 3}), DevicePolicy::sequential, {6, 0, 6}),
            R"({"a": "cuda:0", "b": "cuda:2", "c": "cuda:2"})");
  // The device that becomes the first keeps no room for another part.
  EXPECT_EQ(inferred(row({3, 3, 3}), DevicePolicy::sequential, {0, 6, 6}),
            R"({"a": "cuda:1", "b": "cuda:1", "c": "cuda:2"})");
}

TEST(Sequential, DividesAPartIntoItsTensorsAndChildren) {
  Tree model;
  const auto block = model.part("block");
  block->own("position", 2);
  block->part("up", 3);
  block->part("down", 3);
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {8}), R"({"": "cuda:0"})");
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {5, 8}),
            R"({"block.position": "cuda:0", "block.up": "cuda:1", "block.down": "cuda:1"})");
}

TEST(Sequential, KeepsWhatIsIndivisibleOnOneDevice) {
  Tree model;
  model.part("embedding", 2);
  const auto block = model.part("block");
  block->part("up", 4);
  block->part("gate", 1);
  block->part("down", 1);
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {7, 8}),
            R"({"embedding": "cuda:0", "block.up": "cuda:0", "block.gate": "cuda:1", )"
            R"("block.down": "cuda:1"})");
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {7, 8}, parts_named({"block"})),
            R"({"": "cuda:1"})");
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {8, 8}, parts_named({"block"})),
            R"({"": "cuda:0"})");
}

TEST(Sequential, PlacesPartsThatShareATensorTogether) {
  Tree model;
  model.part("input", 10);
  const at::Tensor weight = model.part("embedding")->own("weight", 4);
  model.part("block", 4);
  model.part("head", 3)->own("tied", weight);
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {14, 7, 4}),
            R"({"input": "cuda:0", "embedding": "cuda:1", "block": "cuda:2", "head": "cuda:1"})");
}

TEST(Sequential, DividesWhatAPartSharesATensorWith) {
  Tree model;
  model.part("input", 10);
  const at::Tensor weight = model.part("embedding")->own("weight", 4);
  const auto output = model.part("output");
  output->part("norm", 4);
  output->part("head")->own("tied", weight);
  const std::string divided =
      R"({"input": "cuda:0", "embedding": "cuda:1", "output.norm": "cuda:2", )"
      R"("output.head": "cuda:1"})";
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {14, 7, 8}), divided);
  EXPECT_EQ(inferred(model, DevicePolicy::sequential, {14, 7, 8}, parts_named({"output"})),
            R"({"input": "cuda:0", "embedding": "cuda:2", "output": "cuda:2"})");
}

TEST(Balanced, GivesEveryDeviceItsShareAndRoomForOneLayer) {
  const Tree model = row({8, 8, 8, 8});
  // 32 / 2 + 8 * 1.25; the last device keeps its full capacity.
  EXPECT_THAT(left_by(model, DevicePolicy::balanced, {100, 100}), ElementsAre(26, 100));
  EXPECT_THAT(left_by(model, DevicePolicy::automatic, {100, 100}), ElementsAre(26, 100));
  EXPECT_THAT(left_by(model, DevicePolicy::balanced, {20, 100}), ElementsAre(20, 100));
  EXPECT_THAT(left_by(model, DevicePolicy::balanced, {100}), ElementsAre(100));
  EXPECT_THAT(left_by(model, DevicePolicy::balanced, {0, 100, 0}), ElementsAre(100));
  EXPECT_THAT(left_by(model, DevicePolicy::sequential, {100, 100}), ElementsAre(100, 100));
  const std::string halves = R"({"a": "cuda:0", "b": "cuda:0", "c": "cuda:1", "d": "cuda:1"})";
  EXPECT_EQ(inferred(model, DevicePolicy::balanced, {100, 100}), halves);
  EXPECT_EQ(inferred(model, DevicePolicy::automatic, {100, 100}), halves);
  EXPECT_EQ(inferred(model, DevicePolicy::balanced, {100}), R"({"": "cuda:0"})");
}

TEST(Balanced, KeepsRoomForTheLargestIndivisiblePart) {
  Tree model;
  const auto block = model.part("block");
  block->part("up", 9);
  block->part("down", 8);
  model.part("head", 4);
  // Leaves of 21 / 3 bytes; 21 / 2 + 7 * 1.25 and 21 / 2 + 17 * 1.25, all rounded down.
  EXPECT_THAT(left_by(model, DevicePolicy::balanced, {99, 99}), ElementsAre(18, 99));
  EXPECT_THAT(left_by(model, DevicePolicy::balanced, {99, 99}, parts_named({"block"})),
              ElementsAre(31, 99));
}

TEST(Balanced, CountsATensorInSeveralPlacesOnce) {
  Tree model;
  const auto embedding = model.part("embedding", 8);
  model.part("block", 8);
  model.share("head", embedding);
  // 16 / 2 + 8 * 1.25
  EXPECT_THAT(left_by(model, DevicePolicy::balanced, {99, 99}), ElementsAre(18, 99));
}

TEST(Balanced, DividesPartsOfUnevenSize) {
  // 40 / 2 + 10 * 1.25 = 32, which includes room for the largest part to come.
  EXPECT_EQ(inferred(row({20, 4, 4, 12}), DevicePolicy::balanced, {99, 99}),
            R"({"a": "cuda:0", "b": "cuda:1", "c": "cuda:1", "d": "cuda:1"})");
  EXPECT_EQ(inferred(row({4, 4, 12, 20}), DevicePolicy::balanced, {99, 99}),
            R"({"a": "cuda:0", "b": "cuda:0", "c": "cuda:1", "d": "cuda:1"})");
}

TEST(BalancedLow0, LeavesTheFirstDeviceWhatTheOthersCannotTake) {
  const Tree model = row({8, 8, 8, 8});
  // Two of three devices share: 32 / 2 + 8 * 1.25.
  EXPECT_THAT(left_by(model, DevicePolicy::balanced_low_0, {100, 100, 100}),
              ElementsAre(0, 26, 100));
  EXPECT_EQ(inferred(model, DevicePolicy::balanced_low_0, {100, 100, 100}),
            R"({"a": "cuda:1", "b": "cuda:1", "c": "cuda:1", "d": "cuda:2"})");
  EXPECT_THAT(left_by(model, DevicePolicy::balanced_low_0, {100, 8, 8}), ElementsAre(16, 8, 8));
  EXPECT_EQ(inferred(model, DevicePolicy::balanced_low_0, {100, 100}), R"({"": "cuda:1"})");
  EXPECT_EQ(inferred(model, DevicePolicy::balanced_low_0, {100}), R"({"": "cuda:0"})");
}

TEST(InferDeviceMap, SaysWhatFitsNowhere) {
  const std::string text = refusal_in_words([] {
    inferred(row({3, 8, 3}), DevicePolicy::sequential, {12, 5});
  });
  EXPECT_EQ(text,
            "The part 'b' of 8 bytes fits on no device: cuda:0 has 9 left of 12, cuda:1 has 5 left "
            "of 5. Give more or larger devices: Lockstep does not offload to the host or to a "
            "disk.");
  EXPECT_THAT(refusal_in_words([] {
                inferred(row({3, 8}), DevicePolicy::balanced, {0, 0});
              }),
              HasSubstr("The device map 'balanced' has no device with capacity to place 11 bytes"));
}

TEST(InferDeviceMap, PlacesNothingWhereThereIsNothingToPlace) {
  EXPECT_EQ(inferred(row({3}), DevicePolicy::none, {}), "{}");
  EXPECT_EQ(inferred(Tree(), DevicePolicy::balanced, {}), "{}");
  EXPECT_EQ(inferred(row({0, 3, 0}), DevicePolicy::sequential, {3}), R"({"": "cuda:0"})");
}

TEST(InferDeviceMap, KeepsResidualBlocksWhole) {
  const VisionLanguageModel model({.tied_head = false}, cpu_generator(5));
  for (const std::int64_t eighths : {2, 3, 4, 5, 6}) {
    const DeviceMap map =
        infer_device_map(model, DevicePolicy::sequential,
                         {.devices = devices({bytes_of(model) * eighths / 8, bytes_of(model)})});
    EXPECT_EQ(device_of(map, "language.head"), kSecond);
    for (const DeviceMapEntry& entry : map) {
      EXPECT_THAT(entry.name, ::testing::Not(::testing::ContainsRegex("blocks.[0-9][.]")))
          << to_string(map);
    }
  }
}

TEST(ResolveDeviceMap, TakesAWrittenMapAsItIs) {
  const Tree model = row({3, 3});
  const DeviceMapRequest written = parse_device_map("b=cuda:1,=cuda:0");
  EXPECT_EQ(resolve_device_map(written, model, {}), written.map);
  EXPECT_EQ(resolve_device_map({DevicePolicy::none}, model, {}), DeviceMap{});
  EXPECT_EQ(resolve_device_map({DevicePolicy::sequential}, model, {.devices = devices({6})}),
            (DeviceMap{{"", kFirst}}));
  EXPECT_THAT(refusal_in_words([&] { resolve_device_map(parse_device_map("c=cpu"), model, {}); }),
              HasSubstr("There is no part of the model 'c'. Known:\n  a, b, a.weight, b.weight"));
}

TEST(Place, MovesNothingWhereTheMapIsEmpty) {
  Tree model = row({3});
  const void* const before = model.buffers().front().data_ptr();
  place(model, {});
  EXPECT_EQ(model.buffers().front().data_ptr(), before);
}

TEST(Place, RefusesAMapThatLeavesATensorOutOrOpen) {
  Tree model;
  const at::Tensor weight = model.part("embedding")->own("weight", 4);
  model.part("block", 4);
  model.part("head")->own("tied", weight);
  const auto refused = [&](const char* map) {
    return refusal_in_words([&] { place(model, parse_device_map(map).map); });
  };
  EXPECT_EQ(refused("embedding=cpu,head=cpu"),
            R"(The device map {"embedding": "cpu", "head": "cpu"} lacks 'block.weight'. )"
            R"(Add it, or "" for everything that is not named.)");
  EXPECT_THAT(refused("embedding=cpu,head=meta,block=cpu"),
              HasSubstr("divides one tensor: 'embedding.weight' and 'head.tied' are the same"));
  EXPECT_THAT(refused("=cpu,tail=cpu"), HasSubstr("There is no part of the model 'tail'"));
  EXPECT_THAT(refusal_in_words([&] {
                place(model, {{"", at::kCPU}, {"", at::kMeta}});
              }),
              HasSubstr("has the whole model twice"));
  EXPECT_EQ(refused("block.weight=cpu,embedding=cpu,=cpu"), "no error");
}

/// The output, then gradients of trained tensors, on the CPU.
std::vector<at::Tensor> results_of(const Module& model, const at::Tensor& output,
                                   const at::Tensor& loss) {
  loss.backward();
  std::vector<at::Tensor> results{output.detach().to(at::kCPU)};
  for (const NamedTensor& parameter : model.named_parameters()) {
    if (!parameter.tensor.requires_grad()) continue;
    EXPECT_EQ(parameter.tensor.grad().device(), parameter.tensor.device()) << parameter.name;
    results.push_back(parameter.tensor.grad().to(at::kCPU));
  }
  return results;
}

TEST(Place, DividesATransformerThatGivesTheBitsOfTheCpu) {
  open_two();
  const auto results = [](const DeviceMap& map) {
    TimeSeriesTransformer model({}, cpu_generator(5));
    place(model, map);
    for (const NamedTensor& parameter : model.named_parameters()) {
      EXPECT_EQ(parameter.tensor.device(), device_of(map, parameter.name).value_or(at::kCPU));
    }
    const at::Tensor logits = model(at::randn({6, 64}, cpu_generator(1), at::TensorOptions()));
    return results_of(model, logits, logits.pow(2).sum());
  };
  const auto on_the_cpu = results({});
  for (const char* const text :
       {"=sim:1", "=sim:0,blocks.1=sim:1", "=sim:1,position=sim:0",
        "=sim:1,blocks.0=sim:0,head=cpu", "=sim:0,head=sim:1,embedding=sim:1"}) {
    SCOPED_TRACE(text);
    expect_equal(results(parse_device_map(text).map), on_the_cpu);
  }
}

TEST(Place, DividesAResidualBlockThatThenCannotRun) {
  open_two();
  TimeSeriesTransformer model({}, cpu_generator(5));
  place(model, parse_device_map("=sim:1,blocks.0.mlp=sim:0").map);
  try {
    model(at::randn({6, 64}, cpu_generator(1), at::TensorOptions()));
    FAIL() << "what the block adds was on one device";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("Expected all tensors to be on the same device"));
  }
}

TEST(Place, DividesAModelOfImagesAndTextThatGivesTheBitsOfTheCpu) {
  open_two();
  for (const VisionLanguageOptions& options :
       {VisionLanguageOptions{}, VisionLanguageOptions{.tied_head = false, .shared_blocks = true},
        VisionLanguageOptions{.lora = LoraOptions{.draws_b = true}},
        VisionLanguageOptions{.lora = LoraOptions{.draws_b = true, .quantises_base = true}}}) {
    const auto results = [&](const DeviceMapRequest& request) {
      VisionLanguageModel model(options, cpu_generator(5));
      const std::int64_t bytes = bytes_of(model);
      place(model, resolve_device_map(
                       request, model,
                       {.devices = {{virtual_device(0), bytes}, {virtual_device(1), bytes}}}));
      const at::Tensor text = at::randint(32, {3, 5}, cpu_generator(2), at::kLong);
      const at::Tensor image = at::randn({3, 1, 8, 8}, cpu_generator(1), at::TensorOptions());
      const at::Tensor logits = model.forward(image, text);
      return results_of(model, logits, next_token_loss(logits, text.to(logits.device())));
    };
    const auto on_the_cpu = results({DevicePolicy::none});
    for (const char* const text :
         {"auto", "balanced_low_0", "vision=sim:0,projector=sim:0,language=sim:1",
          "=sim:1,language.embedding=sim:0", "=sim:0,language.blocks.0=sim:1", "=sim:1"}) {
      SCOPED_TRACE(text);
      expect_equal(results(parse_device_map(text)), on_the_cpu);
    }
  }
}

constexpr std::int64_t kDeviceBytes = 4 << 20;

std::string out_of_memory(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(Place, SaysWhichPartFoundNoRoom) {
  open_two({.capacity = kDeviceBytes});
  {
    Tree model;
    model.part("first", 3 << 20);
    const auto second = model.part("second", 1 << 20);
    second->own("more", 1 << 20);
    const std::string text = out_of_memory(
        [&] { place(model, parse_device_map("=sim:0,second=sim:1,first=sim:1").map); });
    EXPECT_THAT(text, HasSubstr("1048576 wanted, 0 free, 4194304 capacity"));
    EXPECT_THAT(text, HasSubstr("while the whole model of 5242880 bytes was placed on sim:1, at "
                                "its tensor 'second.more'"));
    EXPECT_EQ(virtual_memory(1).live, kDeviceBytes);
  }
  EXPECT_EQ(virtual_memory(1).live, 0);
  {
    Tree model;
    model.part("first", 1 << 20);
    model.part("second", 5 << 20);
    EXPECT_THAT(out_of_memory([&] { place(model, parse_device_map("=sim:0,second=sim:1").map); }),
                HasSubstr("while 'second' of 5242880 bytes was placed on sim:1, at its tensor "
                          "'second.weight'"));
  }
  EXPECT_EQ(virtual_memory(0).live, 0);
  EXPECT_EQ(virtual_memory(1).live, 0);
}

TEST(Place, LetsAPartSayThatItHadNoRoomToRun) {
  open_two({.capacity = kDeviceBytes});
  {
    Mlp model(256, 256, cpu_generator(5));
    place(model, parse_device_map("up=sim:0,down=sim:1").map);
    EXPECT_THAT(out_of_memory([&] {
                  model(at::zeros({5000, 256}));
                }),
                HasSubstr("while module 'up' ran on sim:0"));
  }
  EXPECT_EQ(virtual_memory(0).live, 0);
}

constexpr RunKind kTraining{.is_distributed = true}, kAlone{.is_distributed = false},
    kInference{.is_distributed = true, .trains = false};

DeviceMapRequest request(const char* text) { return parse_device_map(text); }

TEST(SplitGuard, OfThePullRequestStopsThreeNamesInEveryDistributedRun) {
  const SplitGuard guard = guard_of_the_pull_request();
  for (const char* const word : {"auto", "balanced", "balanced_low_0"}) {
    EXPECT_TRUE(guard.stops(request(word), kTraining)) << word;
    EXPECT_TRUE(guard.stops(request(word), kInference)) << word;
    EXPECT_FALSE(guard.stops(request(word), kAlone)) << word;
  }
  for (const char* const word : {"none", "sequential", "a=cuda:0,b=cuda:1"}) {
    EXPECT_FALSE(guard.stops(request(word), kTraining)) << word;
  }
}

TEST(SplitGuard, OfOursStopsWhateverCanDivideAModelInTraining) {
  const SplitGuard guard = complete_guard();
  for (const char* const word :
       {"auto", "balanced", "balanced_low_0", "sequential", "a=cuda:0,b=cuda:1"}) {
    EXPECT_TRUE(guard.stops(request(word), kTraining)) << word;
    EXPECT_FALSE(guard.stops(request(word), kInference)) << word;
    EXPECT_FALSE(guard.stops(request(word), kAlone)) << word;
  }
  EXPECT_FALSE(guard.stops(request("none"), kTraining));
  EXPECT_FALSE(guard.stops(request("=cuda:0,a=cuda:0"), kTraining));
}

TEST(OverrideSplit, WarnsInTheWordsOfThePullRequest) {
  const DeviceMap per_rank{{"", kSecond}};
  const Overridden changed =
      override_split(request("balanced"), guard_of_the_pull_request(), kTraining, per_rank);
  EXPECT_EQ(changed.request.policy, DevicePolicy::explicit_map);
  EXPECT_EQ(changed.request.map, per_rank);
  EXPECT_EQ(changed.warning,
            "Unsloth: Multi-GPU device splitting (device_map='balanced') is not supported for "
            "vision/multimodal models in distributed training. Using device_map={\"\": "
            "\"cuda:1\"} instead (data-parallel mode). Each GPU will load a full copy of the "
            "model.");
  const Overridden unchanged =
      override_split(request("sequential"), guard_of_the_pull_request(), kTraining, per_rank);
  EXPECT_EQ(unchanged.request.policy, DevicePolicy::sequential);
  EXPECT_EQ(unchanged.warning, "");
}

TEST(RefuseSplit, SaysWhatWasProposedInTheReview) {
  EXPECT_EQ(
      refusal_in_words(
          [] { refuse_split(request("auto"), guard_of_the_pull_request(), kTraining); }),
      "Unsloth: device_map='auto' is not supported for FastVisionModel in multi-GPU training. "
      "Model splitting across GPUs causes gradient device mismatch errors. For multi-GPU "
      "training, remove device_map or set device_map=None to use data-parallel mode where each "
      "GPU loads a full copy of the model. Note: This uses more VRAM per GPU but provides "
      "equivalent training to single GPU.");
  EXPECT_NO_THROW(refuse_split(request("auto"), guard_of_the_pull_request(), kAlone));
  EXPECT_NO_THROW(refuse_split(request("sequential"), guard_of_the_pull_request(), kTraining));
}

}  // namespace
}  // namespace lockstep
