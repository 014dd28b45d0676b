#include "harness/record/rank_status.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class RankStatusFile : public ::testing::Test {
 protected:
  RankStatus back(const RankStatus& status) {
    write_rank_status(file_, status);
    return read_rank_status(file_);
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  fs::path file_ = rank_status_file(folder_, 3);
};

TEST_F(RankStatusFile, IsNamedByRank) { EXPECT_EQ(file_.filename(), "rank-3.status.json"); }

TEST_F(RankStatusFile, ReadsBack) {
  RankStatus status{7, 42, true, true, false, "two\nlines, \"quoted\""};
  status.process = "3f9c2a rank 3";
  const RankStatus read = back(status);
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.line, 42);
  EXPECT_TRUE(read.ended);
  EXPECT_TRUE(read.raised);
  EXPECT_FALSE(read.is_own);
  EXPECT_EQ(read.process, "3f9c2a rank 3");
  EXPECT_EQ(read.error, "two\nlines, \"quoted\"");
}

TEST_F(RankStatusFile, ReplacesTheOlderOne) {
  back({7, 42, true, true, true, "a long error that is longer than nothing"});
  const RankStatus read = back({8, 0, false, false, false, ""});
  EXPECT_EQ(read.step, 8);
  EXPECT_FALSE(read.ended);
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "no temporary file is left";
}

TEST_F(RankStatusFile, HoldsAnErrorOfAnyBytes) {
  EXPECT_EQ(back({1, 0, true, true, false, "bad \xff byte"}).error, "bad \xef\xbf\xbd byte");
}

TEST_F(RankStatusFile, KeepsTheTimeOfAStepToTheLastBit) {
  RankStatus status{3, 41, true, false, false, ""};
  for (const double seconds : {0.0, 0.1, 1.0 / 3, 1e-300, 12345.678}) {
    status.step_s = seconds;
    EXPECT_EQ(back(status).step_s, seconds);
  }
}

TEST_F(RankStatusFile, HasNoTimeOfAStepWhereThereIsNone) {
  EXPECT_EQ(back({3, 41, true, false, false, ""}).step_s, std::nullopt);
  EXPECT_EQ(back({.step = 3}).step_s, std::nullopt);
}

TEST_F(RankStatusFile, KeepsWhenItsStepBeganAndHowFarTheRendezvousWas) {
  EXPECT_EQ(back({.step = 3}).rendezvous, std::nullopt);
  EXPECT_EQ(back({.step = 3}).step_began_ns, std::nullopt);
  EXPECT_EQ(back({.step = 3, .step_began_ns = 40122776473251}).step_began_ns, 40122776473251);
  for (const auto state : {RendezvousState::not_begun, RendezvousState::begun, RendezvousState::met,
                           RendezvousState::failed}) {
    EXPECT_EQ(back({.rendezvous = state}).rendezvous, state);
  }
}

TEST_F(RankStatusFile, RefusesARendezvousThatNobodyKnows) {
  back({.rendezvous = RendezvousState::met});
  std::string text = text_of(file_);
  text.replace(text.find("met"), 3, "dreamt");
  std::ofstream(file_) << text;
  EXPECT_THROW(read_rank_status(file_), Error);
}

TEST_F(RankStatusFile, RefusesATimeThatIsNoNumber) {
  back({.step = 3, .step_s = 0.5});
  std::string text = text_of(file_);
  text.replace(text.find("0.5"), 3, "\"fast\"");
  std::ofstream(file_) << text;
  EXPECT_THROW(read_rank_status(file_), Error);
}

TEST_F(RankStatusFile, CountsTheRowsOfItsJournal) {
  EXPECT_EQ(back({.step = 3, .ended = true, .rows = 120}).rows, 120);
  EXPECT_EQ(back({.step = 3}).rows, std::nullopt);
}

TEST_F(RankStatusFile, RefusesNumbersThatAreNotWhole) {
  for (const char* step : {"1.5", "1e300", "18446744073709551615", "1e999"}) {
    std::ofstream(file_) << "{\"step\": " << step
                         << ", \"line\": 0, \"ended\": true, \"raised\": false, \"is_own\": false, "
                            "\"error\": \"\", \"cause\": \"none\", \"process\": \"\"}";
    EXPECT_THROW(read_rank_status(file_), Error) << step;
  }
}

TEST_F(RankStatusFile, IsEmptyWhenMissing) {
  const RankStatus read = read_rank_status(file_);
  EXPECT_EQ(read.step, 0);
  EXPECT_FALSE(read.ended);
  EXPECT_EQ(read.error, "");
}

TEST_F(RankStatusFile, RefusesWhatIsMalformed) {
  for (const char* text : {"", "{", "[]", "3", "{\"step\": 1, \"line\": 2, \"ended\": true}",
                           "{\"step\": \"1\", \"line\": 2, \"ended\": true, \"error\": \"\"}",
                           "{\"step\": 1, \"line\": 2, \"ended\": 1, \"error\": \"\"}",
                           "{\"step\": 1, \"line\": 2, \"ended\": true, \"error\": null}"}) {
    std::ofstream(file_) << text;
    try {
      read_rank_status(file_);
      ADD_FAILURE() << "accepted " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      EXPECT_NE(std::string(error.what()).find("rank-3.status.json: expected a rank's status"),
                std::string::npos);
    }
  }
}

TEST_F(RankStatusFile, SaysThatItCannotBeWritten) {
  EXPECT_THROW(write_rank_status(folder_ / "none" / "rank-0.status.json", {}), Error);
  fs::create_symlink("/dev/full", temporary_name(file_));
  try {
    write_rank_status(file_, {});
    ADD_FAILURE() << "written to a full device";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(folder_)) << "nothing is left behind";
}

}  // namespace
}  // namespace lockstep
