#include "harness/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"
#include "tests/checkpoint/literal_checkpoint.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5F);
  return values;
}

/// The whole tensor at once, as a rank of a job observes it.
MeasuredTensor observed(const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
  Observation row;
  row.dtype = "float32";
  row.global_shape = row.local_shape = shape;
  row.offset = Shape(shape.size(), 0);
  const auto bytes = std::as_bytes(std::span(values));
  measure(row, bytes);
  return {row.digest, row.statistics.norm, row.statistics.non_finite, sketch_of(row, bytes)};
}

void expect_same(const MeasuredTensor& read, const MeasuredTensor& wanted) {
  EXPECT_EQ(read.digest, wanted.digest);
  EXPECT_NEAR(read.norm, wanted.norm, 1e-12 * wanted.norm);
  EXPECT_EQ(read.non_finite, wanted.non_finite);
  Sketch apart = read.sketch;
  apart -= wanted.sketch;
  EXPECT_LE(norm_of(apart), 1e-12 * wanted.norm);
}

class CheckpointFiles : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  MeasuredTensor only_tensor(const fs::path& checkpoint) const {
    const Checkpoint opened = open_checkpoint(checkpoint);
    EXPECT_EQ(opened.tensors.size(), 1U);
    return measure_tensor(opened.tensors.at(0));
  }

  std::string refusal(const fs::path& checkpoint) const {
    return refusal_of(checkpoint, [&] {
      for (const CheckpointTensor& tensor : open_checkpoint(checkpoint).tensors) {
        measure_tensor(tensor);
      }
    });
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointFiles, AreMeasuredLikeObservedTensors) {
  const auto values = numbers(6);
  write_text(path("a.safetensors"),
             safetensors(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                         bytes_of(values)));
  EXPECT_TRUE(is_checkpoint(path("a.safetensors")));
  expect_same(only_tensor(path("a.safetensors")), observed({2, 3}, values));
}

TEST_F(CheckpointFiles, OfManyBlocksAreMeasuredLikeOne) {
  const auto values = numbers(3 * 700 * 401);
  write_text(path("a.safetensors"),
             safetensors(R"({"w":{"dtype":"F32","shape":[3,700,401],"data_offsets":[0,3368400]}})",
                         bytes_of(values)));
  expect_same(only_tensor(path("a.safetensors")), observed({3, 700, 401}, values));
}

/// 4 x 3 numbers; columns 0 and 1 in one chunk, and column 2 in another.
TEST_F(CheckpointFiles, AreThatWhatTheirChunksMakeUp) {
  const std::vector<float> left{1, 2, 4, 5, 7, 8, 10, 11}, right{3, 6, 9, 12};
  LiteralDistributed()
      .add("w", {4, 3},
           {{{0, 0}, {4, 2}, saved_tensor({4, 2}, {2, 1}, bytes_of(left))},
            {{0, 2}, {4, 1}, saved_tensor({4, 1}, {1, 1}, bytes_of(right))}})
      .write(path("dcp"));
  std::vector<float> values(12);
  std::iota(values.begin(), values.end(), 1.0F);
  EXPECT_TRUE(is_checkpoint(path("dcp")));
  expect_same(only_tensor(path("dcp")), observed({4, 3}, values));
}

/// Cuts a box into two, again and again.
void cut(std::mt19937& random, std::vector<std::int64_t> offsets, std::vector<std::int64_t> sizes,
         int cuts, std::vector<LiteralChunk>& chunks) {
  const std::size_t d = random() % sizes.size();
  if (cuts == 0 || sizes[d] < 2) return chunks.push_back({offsets, sizes, ""});
  const std::int64_t first = 1 + random() % static_cast<std::uint32_t>(sizes[d] - 1);
  std::vector<std::int64_t> rest = sizes;
  rest[d] = sizes[d] - first;
  sizes[d] = first;
  cut(random, offsets, sizes, cuts - 1, chunks);
  offsets[d] += first;
  cut(random, offsets, rest, cuts - 1, chunks);
}

TEST_F(CheckpointFiles, OfAnyLayoutAreMeasuredAlike) {
  const std::vector<std::int64_t> shape{7, 5, 9};
  const auto values = numbers(7 * 5 * 9);
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    std::vector<LiteralChunk> chunks;
    cut(random, {0, 0, 0}, shape, 4, chunks);
    for (LiteralChunk& chunk : chunks) {
      std::vector<float> part;
      for (std::int64_t i = 0; i < element_count(chunk.sizes); ++i) {
        const auto index = index_of(i, chunk.sizes);
        const std::int64_t place = (chunk.offsets[0] + index[0]) * 45 +
                                   (chunk.offsets[1] + index[1]) * 9 + chunk.offsets[2] + index[2];
        part.push_back(values[static_cast<std::size_t>(place)]);
      }
      chunk.archive = saved_tensor(
          chunk.sizes, {chunk.sizes[1] * chunk.sizes[2], chunk.sizes[2], 1}, bytes_of(part));
    }
    std::shuffle(chunks.begin(), chunks.end(), random);
    LiteralDistributed().add("w", shape, chunks).write(path("dcp"));
    SCOPED_TRACE(seed);
    expect_same(only_tensor(path("dcp")), observed(shape, values));
  }
}

TEST_F(CheckpointFiles, MayHoldTransposedTensorsAndLargerStorages) {
  LiteralDistributed()
      .add("w", {2, 2},
           {{{0, 0}, {2, 2}, saved_tensor({2, 2}, {1, 2}, bytes_of<float>({9, 1, 3, 2, 4}), 1)}})
      .write(path("dcp"));
  expect_same(only_tensor(path("dcp")), observed({2, 2}, {1, 2, 3, 4}));
}

TEST_F(CheckpointFiles, MayHoldEmptyTensorsOfAnySizes) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  for (const std::vector<std::int64_t>& shape : {std::vector{kLarge, kLarge, std::int64_t{0}},
                                                 std::vector{std::int64_t{0}, kLarge, kLarge}}) {
    const std::string empty = saved_tensor(shape, {kLarge, kLarge, 1}, "");
    LiteralDistributed().add("w", shape, {{{0, 0, 0}, shape, empty}}).write(path("dcp"));
    EXPECT_EQ(only_tensor(path("dcp")).norm, 0);
  }
}

TEST_F(CheckpointFiles, LeaveOptimizersAndOtherValuesOut) {
  const std::string one = saved_tensor({}, {}, bytes_of<float>({1}));
  LiteralDistributed()
      .add("model.w", {}, {{{}, {}, one}})
      .add("optim.state.w.exp_avg", {}, {{{}, {}, one}})
      .add("app.optimizer.state.w.step", {}, {{{}, {}, one}})
      .add("optimism.w", {}, {{{}, {}, one}})
      .value("step")
      .write(path("dcp"));
  LiteralDistributed state;
  state.dtype = "float4_e2m1fn_x2";
  state.add("optim.state.w.exp_avg", {}, {{{}, {}, one}}).write(path("only state"));
  EXPECT_EQ(open_checkpoint(path("only state")).optimizer_tensors, 1);
  const Checkpoint opened = open_checkpoint(path("dcp"));
  ASSERT_EQ(opened.tensors.size(), 2U);
  EXPECT_EQ(opened.tensors[0].name, "model.w");
  EXPECT_EQ(opened.optimizer_tensors, 2);
  EXPECT_EQ(opened.other_values, 1);
  EXPECT_EQ(opened.title, "distributed checkpoint in 1 file");
}

TEST_F(CheckpointFiles, OfAnIndexAreThoseThatItNames) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  write_text(path("one.safetensors"), safetensors(header, "abcd"));
  write_text(path("other.safetensors"), safetensors(header, "abcd"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("'w' in one file only"));
  write_text(path("model.safetensors.index.json"), R"({"weight_map":{"w":"one.safetensors"}})");
  EXPECT_EQ(open_checkpoint(folder_.path()).tensors.size(), 1U);
  write_text(path("model.safetensors.index.json"), R"({"weight_map":{"w":"gone.safetensors"}})");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("it names gone.safetensors, which is not there"));
  write_text(path("model.safetensors.index.json"), R"({"weight_map":{"w":"../one.safetensors"}})");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("names of files in its folder"));
  write_text(path("model.safetensors.index.json"), R"({"weight_map":7})");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("a weight_map from tensors to files"));
}

/// As torch's HuggingFaceStorageWriter writes them.
TEST_F(CheckpointFiles, OfShardsArePutTogether) {
  const auto shard = [&](int number, int row, float first) {
    const std::string info = R"({\"w\":{\"saved_offsets\":[)" + std::to_string(row) + ",0]}}";
    write_text(path("shard-" + std::to_string(number) + ".safetensors"),
               safetensors(R"({"__metadata__":{"DCP_SHARDING_INFO":")" + info +
                               R"("},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
                           bytes_of<float>({first, first + 1})));
  };
  shard(1, 1, 3);
  shard(2, 0, 1);
  expect_same(only_tensor(folder_.path()), observed({2, 2}, {1, 2, 3, 4}));
  shard(2, 1, 1);
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("chunks that do not overlap"));
  shard(2, 2, 1);
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("chunks of all its 6 elements, found '4'"));
  shard(2, -1, 1);
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("an offset of 'w' from 0 on, found '-1'"));
}

TEST_F(CheckpointFiles, OfTorchSaveAreRefusedWithTheCommandThatConvertsThem) {
  for (const char* name : {"model.pt", "my model.pth", "pytorch_model.bin"}) {
    write_text(path(name), "PK");
    EXPECT_TRUE(is_checkpoint(path(name)));
    EXPECT_THAT(refusal(path(name)), HasSubstr("weights_only=True"));
    fs::create_directory(path("folder"));
    fs::rename(path(name), path("folder") / name);
    EXPECT_TRUE(is_checkpoint(path("folder")));
    EXPECT_THAT(refusal(path("folder")), HasSubstr("dcp.save"));
    fs::remove_all(path("folder"));
  }
}

TEST_F(CheckpointFiles, OfTorchSaveAreKnownByTheirFirstBytes) {
  for (const char* bytes : {"PK\3\4 and more", "\x80\x02 and more"}) {
    write_text(path("step-100"), bytes);
    EXPECT_TRUE(is_checkpoint(path("step-100")));
    EXPECT_THAT(refusal(path("step-100")), HasSubstr("weights_only=True"));
  }
  for (const char* bytes : {"", "PK", "{\"jobs\": []}"}) {
    write_text(path("step-100"), bytes);
    EXPECT_FALSE(is_checkpoint(path("step-100"))) << bytes;
  }
}

TEST_F(CheckpointFiles, OfAnotherKindAreNone) {
  fs::create_directory(path("empty"));
  fs::create_directory(path("run"));
  write_text(path("run/record.json"), "{}");
  write_text(path("run/a.safetensors"), "");
  write_text(path("pack.tar.gz"), "");
  fs::create_directory(path("job"));
  write_text(path("job/collectives-0.bin"), "");
  for (const char* name : {"empty", "run", "job", "pack.tar.gz", "nowhere"}) {
    EXPECT_FALSE(is_checkpoint(path(name))) << name;
  }
  EXPECT_THAT(refusal(path("empty")), HasSubstr("it holds no checkpoint"));
  write_text(path("empty/__0_0.distcp"), "");
  EXPECT_THAT(refusal(path("empty")), HasSubstr("no .metadata, which torch writes last"));
  ASSERT_EQ(::mkfifo(path("a.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(refusal(path("a.safetensors")), HasSubstr("it is a named pipe"));
  fs::create_symlink(path("gone"), path("b.safetensors"));
  EXPECT_THAT(refusal_of(path("b.safetensors"), [&] { open_checkpoint(path("b.safetensors")); }),
              HasSubstr("No such file"));
}

/// A file that is refused, and a part of the sentence.
struct Refused {
  const char* name;
  std::string header, data, said;
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class HostileSafetensors : public CheckpointFiles, public testing::WithParamInterface<Refused> {};

TEST_P(HostileSafetensors, AreRefused) {
  write_text(path("a.safetensors"), safetensors(GetParam().header, GetParam().data));
  EXPECT_THAT(refusal(path("a.safetensors")), HasSubstr(GetParam().said));
}

const std::string kEight(8, 'x');

INSTANTIATE_TEST_SUITE_P(
    Each, HostileSafetensors,
    testing::Values(
        Refused{"no_json", "{", "", "the header in JSON"},
        Refused{"beyond_the_file", R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
                kEight, "begin and end of 'w' within 8 bytes, found '0, 12'"},
        Refused{"negative", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", kEight,
                "a list of whole numbers as data_offsets of 'w'"},
        Refused{"overlapping",
                R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("w":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                std::string(6, 'x'), "'w' to begin at byte 4, found '2'"},
        Refused{"dtype", R"({"w":{"dtype":"F4","shape":[8],"data_offsets":[0,8]}})", kEight,
                "as dtype of 'w', found 'F4'"},
        Refused{"twice",
                R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                kEight, "every key once in the header, found 'w twice'"},
        Refused{"shape_overflows",
                R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
                kEight, "as many bytes of 'w'"},
        Refused{"deep", std::string(100000, '['), "", "the header of at most 4 levels"}),
    [](const auto& tested) { return tested.param.name; });

TEST_F(CheckpointFiles, AreRefusedIfTheirHeaderIsCutOff) {
  write_text(path("a.safetensors"), "1234567");
  EXPECT_THAT(refusal(path("a.safetensors")), HasSubstr("at least 8 bytes, found '7 bytes'"));
  write_text(path("a.safetensors"), little<std::uint64_t>(1000) + "{}");
  EXPECT_THAT(refusal(path("a.safetensors")), HasSubstr("a header length of 1000"));
  write_text(path("a.safetensors"), little<std::uint64_t>(UINT64_MAX) + "{}");
  EXPECT_THAT(refusal(path("a.safetensors")), HasSubstr("a header length of 18446744073709551615"));
}

/// A distributed checkpoint of a tensor "w" that is refused.
struct RefusedChunks {
  const char* name;
  std::vector<std::int64_t> shape;
  std::vector<LiteralChunk> chunks;
  std::string said;
};

void PrintTo(const RefusedChunks& refused, std::ostream* out) { *out << refused.name; }

class HostileChunks : public CheckpointFiles, public testing::WithParamInterface<RefusedChunks> {};

TEST_P(HostileChunks, AreRefused) {
  LiteralDistributed().add("w", GetParam().shape, GetParam().chunks).write(path("dcp"));
  EXPECT_THAT(refusal(path("dcp")), HasSubstr(GetParam().said));
}

/// Chunks that overlap, of more elements together than a number counts.
std::vector<LiteralChunk> overlapping_chunks(std::int64_t size) {
  std::vector<LiteralChunk> chunks;
  for (std::int64_t i = 0; i < 40; ++i) chunks.push_back({{i}, {size - 40}, ""});
  return chunks;
}

const std::string kFour = saved_tensor({4}, {1}, std::string(16, 'x'));
constexpr std::int64_t kHuge = std::int64_t{1} << 61;

INSTANTIATE_TEST_SUITE_P(
    Each, HostileChunks,
    testing::Values(
        RefusedChunks{
            "outside", {4}, {{{1}, {4}, kFour}}, "chunks in its shape [4], found '[4] at"},
        RefusedChunks{"overlapping",
                      {6},
                      {{{0}, {4}, kFour}, {{2}, {4}, kFour}},
                      "chunks that do not overlap, found '[4] at [0] and [4] at [2]'"},
        RefusedChunks{"not_covering",
                      {9},
                      {{{0}, {4}, kFour}, {{5}, {4}, kFour}},
                      "chunks of all its 9 elements, found '8'"},
        RefusedChunks{"of_other_dimensions", {4}, {{{0, 0}, {4, 1}, kFour}}, "chunks in its shape"},
        RefusedChunks{"of_another_shape",
                      {4},
                      {{{0}, {4}, saved_tensor({2, 2}, {2, 1}, std::string(16, 'x'))}},
                      "a chunk of 'w' with float32 [4] at byte 0, found 'float32 [2, 2]'"},
        RefusedChunks{"too_large", {kHuge, 4}, {{{0, 0}, {4, 4}, kFour}}, "2^63 bytes"},
        RefusedChunks{"more_than_can_be_counted",
                      {kHuge / 8},
                      overlapping_chunks(kHuge / 8),
                      "chunks that do not overlap"},
        RefusedChunks{"negative", {4}, {{{-1}, {4}, kFour}}, "offsets and sizes of 'w'"},
        RefusedChunks{"beyond_the_storage",
                      {4},
                      {{{0}, {4}, saved_tensor({4}, {1}, std::string(12, 'x'))}},
                      "found 'elements outside its storage'"},
        RefusedChunks{"strided_beyond_the_storage",
                      {2},
                      {{{0}, {2}, saved_tensor({2}, {kHuge}, std::string(12, 'x'))}},
                      "found 'elements outside its storage'"},
        RefusedChunks{"negative_stride",
                      {2},
                      {{{0}, {2}, saved_tensor({2}, {-1}, std::string(12, 'x'))}},
                      "found 'a tensor of another kind'"},
        RefusedChunks{"one_element_many_times",
                      {1000000, 1000000},
                      {{{0, 0},
                        {1000000, 1000000},
                        saved_tensor({1000000, 1000000}, {0, 0}, std::string(4, 'x'))}},
                      "more elements than its storage"},
        RefusedChunks{"compressed",
                      {4},
                      {{{0}, {4}, zip({{"a/data.pkl", "x"}}, 8)}},
                      "neither compressed nor encrypted"},
        RefusedChunks{"no_archive", {4}, {{{0}, {4}, "anything"}}, "the end of an archive"},
        RefusedChunks{"no_pickle", {4}, {{{0}, {4}, zip({{"a/b", "x"}})}}, "the member data.pkl"},
        RefusedChunks{
            "big_endian",
            {4},
            {{{0}, {4}, zip({{"a/data.pkl", pickled_tensor({4}, {1})}, {"a/byteorder", "big"}})}},
            "a big-endian machine"},
        RefusedChunks{"another_storage",
                      {4},
                      {{{0},
                        {4},
                        zip({{"a/data.pkl", pickled_tensor({4}, {1}, 0, "QUInt8Storage")},
                             {"a/data/0", std::string(16, 'x')}})}},
                      "its pickle names torch.QUInt8Storage"}),
    [](const auto& tested) { return tested.param.name; });

TEST_F(CheckpointFiles, AreRefusedWithOtherMetadata) {
  LiteralDistributed good;
  good.add("w", {4}, {{{0}, {4}, kFour}});
  const auto refused = [&](const auto& change) {
    LiteralDistributed bad = good;
    change(bad);
    bad.write(path("dcp"));
    return refusal(path("dcp"));
  };
  EXPECT_EQ(refused([](auto&) {}), "accepted");
  EXPECT_THAT(refused([](auto& bad) { bad.places.clear(); }),
              HasSubstr("the place of one chunk of 'w' at [0], found 'none'"));
  EXPECT_THAT(refused([](auto& bad) { bad.places.push_back(bad.places[0]); }),
              HasSubstr("one place of 'w' [0], found 'two'"));
  EXPECT_THAT(refused([](auto& bad) { bad.entries.push_back(bad.entries[0]); }),
              HasSubstr("every tensor once, found 'w twice'"));
  EXPECT_THAT(refused([](auto& bad) { bad.entries[0].second = "N"; }),
              HasSubstr("size and chunks of 'w'"));
  EXPECT_THAT(refused([](auto& bad) { bad.data.resize(40); }), HasSubstr("became shorter"));
  const auto with = [&](const std::string& file, const std::string& dtype) {
    LiteralDistributed bad;
    bad.file = file;
    bad.dtype = dtype;
    bad.add("w", {4}, {{{0}, {4}, kFour}}).write(path("dcp"));
    return refusal(path("dcp"));
  };
  EXPECT_THAT(with("../x", "float32"), HasSubstr("names of files in its folder, found '../x'"));
  EXPECT_THAT(with("/etc/passwd", "float32"), HasSubstr("names of files in its folder"));
  EXPECT_THAT(with("__1_0.distcp", "float32"), HasSubstr("No such file"));
  EXPECT_THAT(with("__0_0.distcp", "float4_e2m1fn_x2"),
              HasSubstr("found 'torch.float4_e2m1fn_x2'"));
  EXPECT_THAT(with("__0_0.distcp", "load"), HasSubstr("its pickle names torch.load"));
}

/// Whatever bytes are changed or cut off, a reader refuses the files or reads them.
TEST_F(CheckpointFiles, NeverCrashAReader) {
  LiteralDistributed good;
  good.value("step").add("w", {4}, {{{0}, {4}, kFour}}).write(path("dcp"));
  for (const char* name : {"dcp/.metadata", "dcp/__0_0.distcp"}) {
    const std::string bytes = text_of(path(name));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(bytes[i] ^ std::array{0x01, 0x80, 0xff}[i % 3]);
      write_text(path(name), changed);
      refusal(path("dcp"));
    }
    for (std::size_t i = 0; i < bytes.size(); i += 5) {
      write_text(path(name), bytes.substr(0, i));
      EXPECT_NE(refusal(path("dcp")), "accepted") << name << " of " << i << " bytes";
    }
    write_text(path(name), bytes);
  }
  EXPECT_EQ(refusal(path("dcp")), "accepted");
}

/// A tensor of one row that 3000 ranks shared by its columns.
TEST_F(CheckpointFiles, HaveAsManyColumnsAsRows) {
  for (const bool are_rows : {true, false}) {
    const std::string one = saved_tensor({1, 1}, {1, 1}, bytes_of<float>({1}));
    std::vector<LiteralChunk> chunks;
    for (std::int64_t i = 0; i < 3000; ++i) {
      const std::vector<std::int64_t> place = are_rows ? std::vector{i, 0L} : std::vector{0L, i};
      chunks.push_back({place, {1, 1}, one});
    }
    const std::vector<std::int64_t> shape =
        are_rows ? std::vector{3000L, 1L} : std::vector{1L, 3000L};
    LiteralDistributed().add("w", shape, chunks).write(path("dcp"));
    EXPECT_EQ(refusal(path("dcp")), "accepted");
  }
}

/// A pickle may name one part of it as often as it likes, so none may be large.
TEST_F(CheckpointFiles, OfPartsThatAreTooLargeAreRefused) {
  const LiteralChunk chunk{{0}, {1}, saved_tensor({1}, {1}, bytes_of<float>({1}))};
  const auto refusal_of_one = [&](const LiteralDistributed& checkpoint) {
    checkpoint.write(path("dcp"));
    return refusal(path("dcp"));
  };
  EXPECT_EQ(refusal_of_one(LiteralDistributed().add(std::string(4096, 'w'), {1}, {chunk})),
            "accepted");
  EXPECT_THAT(refusal_of_one(LiteralDistributed().add(std::string(4097, 'w'), {1}, {chunk})),
              HasSubstr("names of at most 4096 bytes, found '4097'"));
  LiteralDistributed long_path;
  long_path.file = std::string(4097, 'f');
  EXPECT_THAT(refusal_of_one(long_path.add("w", {1}, {chunk})),
              HasSubstr("names of at most 4096 bytes, found '4097'"));
  const std::vector<std::int64_t> many(65, 1), origin(65, 0);
  EXPECT_THAT(refusal_of_one(LiteralDistributed().add("w", many, {{origin, many, ""}})),
              HasSubstr("size and chunks of 'w'"));
  std::vector<LiteralChunk> rows_and_columns;
  for (std::int64_t i = 0; i < 6000; ++i) {
    rows_and_columns.push_back({{i, 0}, {1, 6000}, ""});
    rows_and_columns.push_back({{0, 6000 + i}, {6000, 1}, ""});
  }
  EXPECT_THAT(refusal_of_one(LiteralDistributed().add("w", {6000, 12000}, rows_and_columns)),
              HasSubstr("fewer chunks side by side"));
}

}  // namespace
}  // namespace lockstep
