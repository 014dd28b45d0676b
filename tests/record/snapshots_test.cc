#include "harness/record/snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(37 * i + 11);
  return bytes;
}

SnapshotTensor tensor(DType dtype, const std::vector<std::int64_t>& shape) {
  std::size_t size = item_size(dtype);
  for (const std::int64_t length : shape) size *= static_cast<std::size_t>(length);
  return {dtype, shape, some_bytes(size)};
}

void expect_equal(const std::map<std::string, SnapshotTensor>& a,
                  const std::map<std::string, SnapshotTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, tensor] : a) {
    ASSERT_TRUE(b.contains(key)) << key;
    EXPECT_EQ(b.at(key).dtype, tensor.dtype) << key;
    EXPECT_EQ(b.at(key).shape, tensor.shape) << key;
    EXPECT_EQ(b.at(key).bytes, tensor.bytes) << key;
  }
}

std::string with_header(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

class SafetensorsFile : public ::testing::Test {
 protected:
  std::string refusal(const std::string& file) {
    std::ofstream(path_, std::ios::binary) << file;
    return refusal_of(path_, [&] { read_safetensors(path_); });
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  fs::path path_ = snapshot_file(folder_, 1, 20);
};

using Tensors = std::map<std::string, SnapshotTensor>;

TEST(SnapshotKey, NamesTheObservation) {
  Observation o;
  o.micro_batch = 2;
  o.phase = Phase::pre_step;
  o.kind = Kind::gradient;
  o.name = "layer.0.weight";
  EXPECT_EQ(snapshot_key(o), "2/pre_step/gradient/layer.0.weight");
}

TEST_F(SafetensorsFile, IsNamedByRankAndStep) {
  EXPECT_EQ(path_.filename(), "rank-1.step-20.safetensors");
}

TEST_F(SafetensorsFile, ReadsBackEveryDType) {
  Tensors tensors;
  for (std::size_t i = 0; i < Names<DType>::values.size(); ++i) {
    tensors["0/pre_forward/buffer/" + std::string(Names<DType>::values[i])] =
        tensor(static_cast<DType>(i), {3, 1});
  }
  write_safetensors(path_, tensors);
  expect_equal(tensors, read_safetensors(path_));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "no temporary file is left";
}

TEST_F(SafetensorsFile, ReadsBackEveryShape) {
  const Tensors tensors{{"scalar", tensor(DType::float32, {})},
                        {"empty", tensor(DType::float64, {0, 4})},
                        {"also empty", tensor(DType::complex64, {0})},
                        {"complex scalar", tensor(DType::complex128, {})},
                        {"odd", tensor(DType::uint8, {3})},
                        {"whole", tensor(DType::int16, {2, 3, 4})}};
  write_safetensors(path_, tensors);
  expect_equal(tensors, read_safetensors(path_));
}

TEST_F(SafetensorsFile, ReadsBackAnyName) {
  const Tensors tensors{{"0/pre_step/gradient/a \"b\",\n\\ \xc3\xa9", tensor(DType::int8, {1})}};
  write_safetensors(path_, tensors);
  expect_equal(tensors, read_safetensors(path_));
}

TEST_F(SafetensorsFile, ReadsBackNothing) {
  write_safetensors(path_, {});
  EXPECT_TRUE(read_safetensors(path_).empty());
}

TEST_F(SafetensorsFile, ReplacesTheOlderOne) {
  write_safetensors(path_, {{"a", tensor(DType::int8, {9})}});
  write_safetensors(path_, {{"b", tensor(DType::int8, {1})}});
  EXPECT_TRUE(read_safetensors(path_).contains("b"));
}

TEST_F(SafetensorsFile, IsWrittenAsDocumented) {
  SnapshotTensor kept{DType::float32, {2}, std::vector<std::byte>(8)};
  const float values[] = {1, 2};
  std::memcpy(kept.bytes.data(), values, sizeof values);
  write_safetensors(path_, {{"0/post_step/parameter/w", kept}},
                    "rank 1 of loss-on-unwrapped-module/bypass/w2 with seed 0 and 5 steps");
  std::string hex;
  for (const char c : read_text(path_, kLargestFile)) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[c & 15];
  }
  std::string documented;
  std::ifstream docs(LOCKSTEP_SOURCE_DIR "/docs/formats.md");
  std::string line;
  while (std::getline(docs, line) && line != "```safetensors") continue;
  while (std::getline(docs, line) && line != "```") documented += line;
  EXPECT_EQ(hex, documented);
}

TEST_F(SafetensorsFile, RefusesToWriteWhatDoesNotFitItsShape) {
  try {
    write_safetensors(path_, {{"w", {DType::float32, {2}, some_bytes(7)}}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::internal);
  }
}

TEST_F(SafetensorsFile, SaysThatTheDiskIsFull) {
  fs::create_symlink("/dev/full", temporary_name(path_));
  try {
    write_safetensors(path_, {{"w", tensor(DType::float32, {2})}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(folder_)) << "nothing is left behind";
}

TEST_F(SafetensorsFile, ReadsForeignMetadata) {
  EXPECT_EQ(refusal(with_header(R"({"__metadata__":{"format":"pt"}})", "")), "accepted");
}

TEST_F(SafetensorsFile, SaysWhoWroteIt) {
  const std::map<std::string, SnapshotTensor> tensors{{"a", tensor(DType::complex64, {2})}};
  write_safetensors(path_, tensors, "rank 1 of a cell");
  EXPECT_EQ(read_snapshot(path_).identity, "rank 1 of a cell");
  expect_equal(read_snapshot(path_).tensors, tensors);
  write_safetensors(path_, tensors);
  EXPECT_EQ(read_snapshot(path_).identity, "");
}

TEST_F(SafetensorsFile, RefusesALongHeaderBeforeItIsRead) {
  std::uint64_t length = 200 * kMebibyte;
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  std::ofstream(path_, std::ios::binary) << file;
  fs::resize_file(path_, 1024 * kMebibyte);  // sparse
  try {
    read_safetensors(path_);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("of 104857600 at most, found 'a header length of "),
              std::string::npos)
        << error.what();
  }
}

TEST_F(SafetensorsFile, RefusesTensorsInTheSamePlace) {
  EXPECT_NE(refusal(with_header(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
                                R"("b":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}})",
                                "xy")),
            "accepted");
}

TEST_F(SafetensorsFile, RefusesAMissingFile) {
  EXPECT_THROW(read_safetensors(path_), Error);
  EXPECT_THROW(read_safetensors(folder_), Error);
}

TEST_F(SafetensorsFile, RefusesAFileCutAnywhere) {
  write_safetensors(path_, {{"a", tensor(DType::float32, {2})}, {"b", tensor(DType::int8, {3})}});
  const std::string file = read_text(path_, kLargestFile);
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(refusal(file.substr(0, size)), "accepted") << size << " of " << file.size();
  }
  EXPECT_EQ(refusal(file), "accepted");
  EXPECT_NE(refusal(file + "x"), "accepted");
}

TEST_F(SafetensorsFile, RefusesAHeaderThatIsNone) {
  EXPECT_EQ(refusal("1234567"),
            ": expected a safetensors file of at least 8 bytes, found '7 bytes'.");
  EXPECT_EQ(refusal(std::string(8, '\xff')),
            ": expected a header within the 8 bytes of the file, of 104857600 at most, found 'a "
            "header length of "
            "18446744073709551615'.");
  EXPECT_EQ(refusal(with_header("{", "")), ": expected the header in JSON, found '{'.");
  EXPECT_EQ(refusal(with_header("[]", "")), ": expected a JSON object as header, found '[]'.");
  EXPECT_EQ(refusal(with_header("", "")), ": expected the header in JSON, found nothing.");
}

TEST_F(SafetensorsFile, RefusesAHeaderThatIsNestedWithoutEnd) {
  const std::string deep(200'000, '[');
  const std::string end(200'000, ']');
  const auto header = [&](const std::string& entry) { return with_header(entry, ""); };
  for (const std::string& entry :
       {R"({"w":{"dtype":"U8","shape":)" + deep + end + R"(,"data_offsets":[0,0]}})",
        R"({"__metadata__":)" + deep + end + "}"}) {
    EXPECT_THAT(refusal(header(entry)),
                testing::StartsWith(": expected the header of at most 4 levels"));
  }
}

TEST_F(SafetensorsFile, RefusesKeysThatStandTwice) {
  const std::string entry = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(refusal(with_header("{" + entry + "}", "x")), "accepted");
  EXPECT_EQ(refusal(with_header("{" + entry + "," + entry + "}", "x")),
            ": expected every key once in the header, found 'w twice'.");
  EXPECT_EQ(refusal(with_header(
                R"({"w":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x")),
            ": expected every key once in the header, found 'dtype twice'.");
}

TEST_F(SafetensorsFile, RefusesEntriesThatMeanNothing) {
  const auto entry = [&](const std::string& text) {
    return refusal(with_header("{\"w\":" + text + "}", "12345678"));
  };
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), "accepted");
  for (const char* text : {"3",
                           "null",
                           "{}",
                           R"({"dtype":"F32","shape":[2]})",
                           R"({"shape":[2],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","data_offsets":[0,8]})",
                           R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})",
                           R"({"dtype":"F4","shape":[8],"data_offsets":[0,8]})",
                           R"({"dtype":"f32","shape":[2],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":["2"],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})",
                           R"({"dtype":"F32","shape":[2],"data_offsets":[0]})",
                           R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})",
                           R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})",
                           R"({"dtype":"F32","shape":[2],"data_offsets":[9,8]})",
                           R"({"dtype":"F32","shape":[2],"data_offsets":[1,9]})",
                           R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})",
                           R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})",
                           R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"}) {
    EXPECT_NE(entry(text), "accepted") << text;
  }
}

TEST_F(SafetensorsFile, RefusesTensorsThatOverlapOrLeaveGaps) {
  const auto two = [&](const std::string& a, const std::string& b) {
    const std::string start = R"({"dtype":"U8","shape":[4],"data_offsets":)";
    return refusal(with_header("{\"a\":" + start + a + "},\"b\":" + start + b + "}}", "12345678"));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]"), "accepted");
  EXPECT_EQ(two("[4,8]", "[0,4]"), "accepted");
  EXPECT_EQ(two("[0,4]", "[3,7]"), ": expected 'b' to begin at byte 4, found '3'.");
  EXPECT_NE(two("[0,4]", "[0,4]"), "accepted");
  EXPECT_NE(two("[4,8]", "[4,8]"), "accepted");
}

TEST_F(SafetensorsFile, RefusesComplexTensorsThatAreNone) {
  const auto complex = [&](const std::string& dtype, const std::string& shape,
                           const std::string& word) {
    return refusal(with_header("{\"__metadata__\":{\"w\":" + word + "},\"w\":{\"dtype\":\"" +
                                   dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[0,16]}}",
                               std::string(16, 'x')));
  };
  EXPECT_EQ(complex("F32", "[2,2]", "\"complex64\""), "accepted");
  EXPECT_EQ(complex("F64", "[2]", "\"complex128\""), "accepted");
  EXPECT_EQ(complex("F64", "[2]", "\"complex64\""),
            ": expected pairs of F32 for complex64 in 'w', found 'F64 of shape [2]'.");
  EXPECT_NE(complex("F32", "[4]", "\"complex64\""), "accepted");
  EXPECT_EQ(complex("F32", "[4]", "7"),
            ": expected strings by name as __metadata__, found '{\"w\":7}'.");
}

}  // namespace
}  // namespace lockstep
