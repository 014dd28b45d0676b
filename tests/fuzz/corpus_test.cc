// Replays the inputs of the fuzzer that are worth keeping: each is read or refused with a sentence,
// and those called `refused-...` are refused. LOCKSTEP_UPDATE_CORPUS=1 writes the seeds anew.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "tests/command.h"
#include "tests/fuzz/literal_files.h"
#include "tests/fuzz/readers.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/fuzz/corpus";
constexpr std::uintmax_t kLargestFile = 4096;
constexpr std::uintmax_t kLargestCorpus = 1 << 20;

TEST(FuzzCorpus, HasSeedsOfEveryReaderThatItAccepts) {
  std::map<std::string, int> seeds;
  for (const LiteralFile& seed : literal_seeds()) {
    const FuzzedReader* const reader = fuzzed_reader(seed.name);
    ASSERT_NE(reader, nullptr) << seed.name;
    EXPECT_NO_THROW(reader->read(seed.bytes)) << seed.name;
    EXPECT_LE(seed.bytes.size(), kLargestFile) << seed.name;
    const fs::path file = kCorpus / seed.name / ("seed-" + std::to_string(++seeds[seed.name]));
    if (std::getenv("LOCKSTEP_UPDATE_CORPUS")) {
      fs::create_directories(file.parent_path());
      write_text(file, seed.bytes);
    }
    EXPECT_TRUE(fs::exists(file)) << file << ": run with LOCKSTEP_UPDATE_CORPUS=1";
  }
  for (const FuzzedReader& reader : fuzzed_readers()) {
    EXPECT_TRUE(seeds.contains(std::string(reader.name))) << reader.name;
  }
}

TEST(FuzzCorpus, IsReadOrRefused) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kCorpus)) {
    if (entry.is_directory()) continue;
    const fs::path& file = entry.path();
    SCOPED_TRACE(file.lexically_relative(kCorpus));
    const FuzzedReader* const reader = fuzzed_reader(file.parent_path().filename().string());
    ASSERT_NE(reader, nullptr);
    EXPECT_LE(entry.file_size(), kLargestFile);
    bytes += entry.file_size();
    const bool is_refused = file.filename().string().starts_with("refused-");
    EXPECT_NO_THROW(EXPECT_FALSE(accepts(*reader, text_of(file)) && is_refused));
  }
  EXPECT_LE(bytes, kLargestCorpus);
}

}  // namespace
}  // namespace lockstep
