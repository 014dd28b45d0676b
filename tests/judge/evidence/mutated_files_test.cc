// Files of a run with randomly changed bytes, from a fixed seed: a reader accepts them or rejects
// them with a sentence. The sanitizers check that it neither crashes nor reads beyond their end.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <random>

#include "harness/judge/evidence/read_cell.h"
#include "harness/record/process_identity.h"
#include "harness/record/sound_record.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/formats/renderer.h"
#include "reports/record/json.h"
#include "tests/judge/literal_evidence.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kMutations = 50;  // of each kind of file

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::size_t change = 0; change <= below(3) && !text.empty(); ++change) mutate(text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t length = std::min<std::size_t>(1 + below(16), text.size() - at);
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text.replace(at, length, std::string(length, '\xff'));
        break;
      case 2:
        text.replace(at, length, "-99999999999999999999");
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(at, text.substr(at, length));
        break;
      default:
        text.resize(at);
    }
  }

  std::mt19937 random_;
};

/// Whether `read` accepts the text; the only other result is a usage error.
template <class Read>
bool is_accepted(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage) << error.what();
    return false;
  }
}

TEST(MutatedFiles, OfARecordAreReadOrRefused) {
  const TemporaryFolder folder;
  RunRecord run = literal_run();
  const std::string text = render_json(run);
  Mutator mutate(1);
  for (int i = 0; i < 4 * kMutations; ++i) {
    const std::string mutated = mutate(text);
    is_accepted([&] { require_sound(read_json(mutated, "record.json"), folder.path()); });
  }
}

/// A cell of two ranks, each with a journal, snapshots and a log.
class MutatedFiles : public testing::TestWithParam<const char*> {
 protected:
  MutatedFiles() {
    record_.cell.scenario = "a-scenario";
    record_.cell.variant = "a-variant";
    record_.cell.role = Role::fixed;
    record_.cell.world_size = 2;
    record_.cell.steps = 1;
    record_.folder = literal_.folder().filename();
    record_.processes = 2;
    for (int rank = 0; rank < 2; ++rank) {
      literal_.add(rank, 1, "a", {1, 2});
      literal_.add(rank, 1, "b", {3, 4});
      record_.exits.emplace_back().rank = rank;
    }
    const auto identity = [&](int rank) { return process_identity(record_.cell, rank); };
    literal_.write_as(identity);
    for (int rank = 0; rank < 2; ++rank) {
      CollectiveLog log(collective_log_file(literal_.folder(), rank), rank, identity(rank));
      Collective call;
      call.operation = "allreduce";
      call.group = "world";
      call.group_size = 2;
      for (call.number = 1; call.number <= 3; ++call.number) {
        log.leave(log.enter(call), CollectiveState::completed);
      }
    }
  }

  void read_and_judge() const {
    const auto evidence =
        open_execution(literal_.folder().parent_path(), record_, writers_of(record_));
    CellEvidence cell;
    cell.world_size = 2;
    cell.steps = 1;
    cell.claims = {kAgree, collectives_match(), ranks_finish()};
    cell.evidence = evidence.get();
    cell.exits = record_.exits;
    for (const ClaimResult& result : judge(cell)) {
      EXPECT_EQ(result.reason.find("the judge failed"), std::string::npos) << result.reason;
    }
  }

  LiteralEvidence literal_{2};
  CellRecord record_;
};

TEST_P(MutatedFiles, AreReadOrRefused) {
  const fs::path file = literal_.folder() / GetParam();
  const std::string text = read_text(file, kLargestFile);
  ASSERT_TRUE(is_accepted([&] { read_and_judge(); }));
  Mutator mutate(2);
  for (int i = 0; i < kMutations; ++i) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << mutate(text);
    is_accepted([&] { read_and_judge(); });
  }
}

INSTANTIATE_TEST_SUITE_P(Of, MutatedFiles,
                         testing::Values("rank-1.csv", "rank-1.tensors.csv", "rank-1.index",
                                         "rank-1.step-1.safetensors", "collectives-1.bin"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) {
                                 return std::isalnum(static_cast<unsigned char>(c)) == 0;
                               },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep
