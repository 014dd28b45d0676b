// Two jobs are compared although files of one have changed bits.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/diff/diff_runs.h"
#include "harness/record/process_identity.h"
#include "reports/base/error.h"
#include "reports/comparison/comparison_words.h"
#include "tests/command.h"
#include "tests/judge/literal_evidence.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A job of two ranks and three steps, whose files no manifest lists.
class UnsealedJob {
 public:
  UnsealedJob() : files_(2), run_(literal_run_of_job(files_, 2)) {
    for (int rank = 0; rank < 2; ++rank) {
      for (std::int64_t step = 1; step <= 3; ++step) {
        const auto value = static_cast<float>(step);
        files_.add(rank, step, "layer.weight", {value, 2});
        files_.add(rank, step, "layer.weight", {value, 3}, {Kind::parameter, Phase::post_step, 0});
        files_.add_shard(rank, step, "head", {value, 4}, {2, 2}, {rank, 0}, {1, 2});
      }
    }
    files_.write_as([&](int rank) { return process_identity(run_.jobs[0], rank); });
  }

  fs::path file(const std::string& name) const { return files_.folder() / name; }
  SideFiles side() const {
    return {run_.jobs[0], files_.folder().parent_path(), files_.folder().string()};
  }

 private:
  LiteralEvidence files_;
  RunRecord run_;
};

/// Whatever bit of a text file is another one, the comparison has a result or names the file.
TEST(DamagedJob, IsComparedOrRefusedWithASentence) {
  const UnsealedJob whole;
  const SideFiles a = whole.side();
  int refused = 0;
  for (const char* name : {"rank-0.tensors.csv", "rank-1.csv"}) {
    const UnsealedJob damaged;
    const std::string text = text_of(damaged.file(name));
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
      write_text(damaged.file(name), changed);
      try {
        const SideFiles b = damaged.side();
        EXPECT_NE(verdict_in_words(diff_runs(a, b, {}, {})), "");
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.kind(), Error::Kind::usage) << error.what();
        EXPECT_NE(std::string(error.what()).find("rank-"), std::string::npos) << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << name << ", byte " << at << ": " << error.what();
      }
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace lockstep
