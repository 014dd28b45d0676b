#include "harness/record/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "harness/record/journal_writer.h"
#include "reports/base/csv_text.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "tests/full_disk.h"
#include "tests/record/whole_journal.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Observation observation(std::int64_t seq) {
  Observation o;
  o.seq = seq;
  o.step = 1 + seq / 2;
  o.micro_batch = seq % 2;
  o.phase = Phase::pre_step;
  o.kind = Kind::gradient;
  o.name = "layer.0.weight";
  o.dtype = "float32";
  o.global_shape = {4, 6};
  o.offset = {0, 3};
  o.local_shape = {4, 3};
  o.digest = {0x0123456789abcdef, 42};
  o.statistics = {0.1 + 0.2, -3.0, double{0.1F}, 1};
  return o;
}

class JournalFile : public ::testing::Test {
 protected:
  void write(const std::vector<Observation>& observations) {
    remove_journal(path_);
    JournalWriter journal(path_);
    for (const Observation& o : observations) journal.append(o);
  }

  Observation back(const Observation& o) {
    write({o});
    return read_journal(path_).observations.at(0);
  }

  std::string refusal() {
    return lockstep::refusal_of(path_, [&] { read_journal(path_); });
  }

  /// The error for a journal of one row whose cell in `column` is `cell`.
  std::string refusal_of(const std::string& column, const std::string& cell) {
    const std::vector<std::string> columns{"step", "micro_batch", "tensor",  "digest",
                                           "norm", "minimum",     "maximum", "non_finite"};
    std::vector<std::string> cells{"1", "0", "0", std::string(32, 'a'), "1.5", "-1", "2", "0"};
    write_row(path_, columns, cells, column, cell);
    return refusal();
  }

  /// The same for the table of its one tensor.
  std::string refusal_of_table(const std::string& column, const std::string& cell) {
    const std::vector<std::string> columns{
        "tensor", "phase",       "kind",          "name",       "dtype",         "global_shape",
        "offset", "local_shape", "replica_group", "is_summand", "not_comparable"};
    std::vector<std::string> cells{"0",   "pre_step", "gradient", "w", "float32", "4x6",
                                   "0x3", "4x3",      "",         "0", ""};
    write_row(tensor_table_file(path_), columns, cells, column, cell);
    return lockstep::refusal_of(tensor_table_file(path_), [&] { read_journal(path_); });
  }

  void write_row(const fs::path& to, const std::vector<std::string>& columns,
                 std::vector<std::string> cells, const std::string& column,
                 const std::string& cell) {
    cells.at(std::find(columns.begin(), columns.end(), column) - columns.begin()) = cell;
    write({});
    {
      std::ofstream(tensor_table_file(path_), std::ios::app)
          << (to == path_ ? "0,pre_step,gradient,w,float32,4x6,0x3,4x3,,0,\n" : "");
    }
    std::ofstream file(to, std::ios::app);
    for (std::size_t i = 0; i < cells.size(); ++i) file << (i ? "," : "") << cells[i];
    file << "\n";
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  fs::path path_ = folder_ / "rank-0.csv";
};

TEST_F(JournalFile, ReadsBack) {
  const std::vector<Observation> written{observation(0), observation(1), observation(2)};
  write(written);
  const WholeJournal journal = read_journal(path_);
  EXPECT_EQ(journal.observations, written);
  EXPECT_FALSE(journal.torn_tail);
}

TEST_F(JournalFile, ReadsBackEveryWord) {
  Observation o = observation(0);
  for (const Phase phase :
       {Phase::pre_forward, Phase::post_backward, Phase::pre_step, Phase::post_step}) {
    for (const Kind kind : {Kind::parameter, Kind::gradient, Kind::buffer, Kind::loss}) {
      o.phase = phase;
      o.kind = kind;
      EXPECT_EQ(back(o), o);
    }
  }
}

TEST_F(JournalFile, ReadsBackAnyName) {
  Observation o = observation(0);
  o.name = "a,\"b\"\nc\\x41\\";
  o.replica_group = "0,1";
  EXPECT_EQ(back(o), o);
}

TEST_F(JournalFile, TellsScalarsFromEmptyTensors) {
  Observation o = observation(0);
  o.global_shape = o.offset = o.local_shape = {};
  EXPECT_EQ(back(o), o);
  o.global_shape = o.offset = o.local_shape = {0};
  EXPECT_EQ(back(o), o);
  o.global_shape = o.local_shape = {0, 4};
  o.offset = {0, 0};
  EXPECT_EQ(back(o), o);
}

TEST_F(JournalFile, KeepsWhyATensorIsNotComparable) {
  Observation o = observation(0);
  o.not_comparable = "sparse layout";
  o.digest = {};
  o.statistics = {};
  EXPECT_EQ(back(o), o);
}

TEST_F(JournalFile, KeepsEveryDigitOfTheNorm) {
  Observation o = observation(0);
  for (const double norm : {5e-324, 1.7976931348623157e308, 0.1, double{INFINITY}}) {
    o.statistics.norm = norm;
    EXPECT_EQ(back(o).statistics.norm, norm);
  }
}

TEST_F(JournalFile, IsWrittenAsDocumented) {
  Observation o = observation(0);
  o.name = "weight";
  o.global_shape = o.local_shape = {2, 2};
  o.offset = {0, 0};
  o.digest = {0xd5ce53c3ebc00000, 0x8802dfa05cc00000};
  o.statistics = {3.774917217635375, -3.0, 2.0, 0};
  {
    JournalWriter journal(path_,
                          "rank 1 of loss-on-unwrapped-module/bypass/w2 with seed 0 and 5 steps");
    journal.append(o);
  }
  const std::string written = read_text(path_, kLargestFile);
  std::string documented;
  std::ifstream docs(LOCKSTEP_SOURCE_DIR "/docs/formats.md");
  for (std::string line; std::getline(docs, line);) {
    for (const char* begin :
         {"# journal 2", "step,micro", "1,0,0,", "# rank 1 of loss", "tensor,ph", "0,pre_step,"}) {
      if (line.starts_with(std::string("    ") + begin)) documented += line.substr(4) + "\n";
    }
  }
  EXPECT_EQ(read_text(tensor_table_file(path_), kLargestFile) + written, documented);
}

TEST_F(JournalFile, SaysWhoWroteIt) {
  {
    JournalWriter journal(path_, "rank 1 of a cell, \"quoted\"");
    journal.append(observation(0));
  }
  const WholeJournal journal = read_journal(path_);
  EXPECT_EQ(journal.identity, "rank 1 of a cell, \"quoted\"");
  EXPECT_EQ(journal.observations.size(), 1U);
  write({observation(0)});
  EXPECT_EQ(read_journal(path_).identity, "");
}

TEST_F(JournalFile, CountsTheLineThatSaysWhoWroteIt) {
  { const JournalWriter journal(path_, "rank 1 of a cell"); }
  std::ofstream(path_, std::ios::app) << "x\n";
  EXPECT_EQ(refusal(), ":3:2: expected the cell 'micro_batch', found nothing.");
}

TEST_F(JournalFile, IsBegunWhenItIsNotEmpty) {
  EXPECT_FALSE(has_journal(path_));
  write({});
  EXPECT_TRUE(has_journal(path_));
  fs::resize_file(path_, 0);
  EXPECT_FALSE(has_journal(path_));
  fs::remove(path_);
  fs::create_symlink("/dev/zero", path_);
  EXPECT_THROW(has_journal(path_), Error);
}

TEST_F(JournalFile, LeavesATornRowOut) {
  write({observation(0), observation(1)});
  const std::string text = read_text(path_, kLargestFile);
  const std::size_t header = text.find('\n', text.find('\n') + 1) + 1;  // after the remark
  const std::size_t first = text.find('\n', header) + 1;
  for (std::size_t size = header; size < text.size(); ++size) {
    fs::resize_file(path_, size);
    std::ofstream(path_) << text.substr(0, size);
    const WholeJournal journal = read_journal(path_);
    EXPECT_EQ(journal.observations.size(), size < first ? 0u : 1u);
    EXPECT_EQ(journal.torn_tail, size != header && size != first);
  }
}

TEST_F(JournalFile, SurvivesAKilledRank) {
  const pid_t child = ::fork();
  if (child == 0) {
    JournalWriter journal(path_);
    for (std::int64_t seq = 0; seq < 100; ++seq) journal.append(observation(seq));
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const WholeJournal journal = read_journal(path_);
  ASSERT_EQ(journal.observations.size(), 100u);
  EXPECT_EQ(journal.observations.back(), observation(99));
}

TEST_F(JournalFile, RefusesToReplaceAnother) {
  write({observation(0)});
  EXPECT_THROW(JournalWriter{path_}, Error);
  EXPECT_EQ(read_journal(path_).observations.size(), 1u);
}

TEST_F(JournalFile, SaysThatItCannotBeMade) {
  try {
    JournalWriter journal(folder_ / "none" / "rank-0.csv");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No such file or directory"), std::string::npos);
  }
}

TEST_F(JournalFile, SaysThatTheDiskIsFull) {
  JournalWriter journal(path_);
  const std::string said = lockstep::refusal_of(path_.parent_path(), [&] {
    const FullDisk full(1000);
    Observation row = observation(0);
    for (; row.micro_batch < 100; ++row.micro_batch) journal.append(row);
  });
  EXPECT_NE(said.find("rank-0.csv: File too large"), std::string::npos) << said;
  EXPECT_FALSE(read_journal(path_).torn_tail);
}

TEST_F(JournalFile, GoesOnWhereTheDiskHasRoomAgain) {
  JournalWriter journal(path_);
  const Observation first = observation(0), second = observation(1);
  journal.append(first);
  {
    const FullDisk full(fs::file_size(path_) + 10);
    EXPECT_THROW(journal.append(second), Error);
  }
  journal.append(second);
  EXPECT_EQ(read_journal(path_).observations, (std::vector<Observation>{first, second}));
}

TEST_F(JournalFile, RefusesAMissingFile) { EXPECT_THROW(read_journal(path_), Error); }

TEST_F(JournalFile, RefusesAStepThatGoesBack) {
  write({observation(2)});
  std::ofstream(path_, std::ios::app) << "1,0,0," << std::string(32, 'a') << ",1,,,0\n";
  EXPECT_EQ(refusal(), ":4:1: expected at least 2 as 'step', found '1'.");
}

TEST_F(JournalFile, RefusesCellsThatMeanNothing) {
  EXPECT_EQ(refusal_of("norm", "2"), "accepted");
  EXPECT_EQ(refusal_of("step", "0"), ":3:1: expected at least 1 as 'step', found '0'.");
  EXPECT_EQ(refusal_of("micro_batch", "-1"),
            ":3:2: expected at least 0 as 'micro_batch', found '-1'.");
  EXPECT_EQ(refusal_of("tensor", "1"),
            ":3:3: expected one of the 1 tensors of rank-0.tensors.csv, found '1'.");
  EXPECT_EQ(refusal_of("digest", "abc"), ":3:4: expected 32 hexadecimal digits, found 'abc'.");
  EXPECT_EQ(refusal_of("norm", "1.5f"), ":3:5: expected a number as 'norm', found '1.5f'.");
  EXPECT_EQ(refusal_of("minimum", "-"), ":3:6: expected a number as 'minimum', found '-'.");
  EXPECT_EQ(refusal_of("non_finite", "-1"),
            ":3:8: expected at least 0 as 'non_finite', found '-1'.");
}

TEST_F(JournalFile, RefusesATableThatMeansNothing) {
  EXPECT_EQ(refusal_of_table("name", "v"), "accepted");
  EXPECT_EQ(refusal_of_table("is_summand", "2"), ":3:10: expected 0 or 1, found '2'.");
  EXPECT_EQ(refusal_of_table("tensor", "1"), ":3:1: expected 0 as 'tensor', found '1'.");
  EXPECT_EQ(
      refusal_of_table("phase", "later"),
      ":3:2: expected one of pre_forward, post_backward, pre_step, post_step, found 'later'.");
  EXPECT_EQ(
      refusal_of_table("kind", ""),
      ":3:3: expected one of parameter, gradient, buffer, loss, memory, data, optimizer_state, "
      "random_state, module_output, module_gradient, contribution, reduction, update, used_weight, "
      "held_weight, found "
      "nothing.");
  for (const std::string cell : {"", "x", "4x", "x4", "4x-6", "4,6", "4 x6", "scalars"}) {
    EXPECT_THAT(refusal_of_table("global_shape", csv_cell(cell)),
                testing::HasSubstr(":3:6: expected sizes like 2x3, or scalar"))
        << cell;
  }
  EXPECT_EQ(refusal_of_table("offset", "0"),
            ":3:7: expected as many sizes as the global shape, 2, found '0'.");
  EXPECT_EQ(refusal_of_table("local_shape", "scalar"),
            ":3:8: expected as many sizes as the global shape, 2, found 'scalar'.");
}

TEST_F(JournalFile, RefusesShapesThatAreTooLargeToGoThrough) {
  const auto refused = [&] {
    return lockstep::refusal_of(tensor_table_file(path_), [&] { read_journal(path_); });
  };
  Observation huge = observation(0);
  huge.offset = {0, 0};
  huge.global_shape = huge.local_shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  write({huge});
  EXPECT_THAT(refused(),
              testing::HasSubstr(":3:6: expected at most 281474976710656 elements, found "));
  Observation columns = observation(0);
  columns.offset = {0, 0};
  columns.global_shape = {std::int64_t{1} << 40, 2};
  columns.local_shape = {std::int64_t{1} << 40, 1};
  write({columns});
  EXPECT_THAT(refused(),
              testing::HasSubstr(":3:8: expected a part in at most 16777216 pieces, found "));
}

TEST_F(JournalFile, RefusesATableOfAnotherRank) {
  {
    JournalWriter journal(path_, "rank 0 of a cell");
    journal.append(observation(0));
  }
  const fs::path table = tensor_table_file(path_);
  const std::string text = read_text(table, kLargestFile);
  std::ofstream(table) << "# rank 1 of a cell" << text.substr(text.find('\n'));
  EXPECT_THAT(lockstep::refusal_of(table, [&] { read_journal(path_); }),
              testing::HasSubstr("expected a table of rank 0 of a cell, found 'rank 1 of a cell'"));
  fs::remove(table);
  EXPECT_THROW(read_journal(path_), Error);
}

}  // namespace
}  // namespace lockstep
