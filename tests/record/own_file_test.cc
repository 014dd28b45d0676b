#include "harness/record/own_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/record/appended_file.h"
#include "harness/record/collective_log.h"
#include "harness/record/watch_control.h"
#include "reports/base/regular_file.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OwnFiles : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  /// Closes what is open at `first` and above, and opens a file of its own there.
  void take_over(int first, const std::string& name) const {
    const int own = ::open(path(name).c_str(), O_RDWR | O_CREAT, 0666);
    rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = first; fd < first + 64 && fd < static_cast<int>(limit.rlim_cur); ++fd) {
      if (::fcntl(fd, F_GETFD) < 0) continue;
      ::dup2(own, fd);
    }
    ::close(own);
  }

  TemporaryFolder folder_;
};

int highest_of_others() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 8192) / 2);
}

TEST_F(OwnFiles, HaveHighNumbers) {
  const OwnFile file(::open(path("a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  ASSERT_TRUE(file.valid());
  EXPECT_TRUE(file.is_own());
  EXPECT_GE(file.get(), highest_of_others());
  EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(OwnFiles, KeepTheirNumberWithoutRoom) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int fd = ::open(path("a").c_str(), O_RDWR | O_CREAT, 0666);
  const rlimit few{static_cast<rlim_t>(fd) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    const OwnFile file(fd);
    EXPECT_TRUE(file.is_own());
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(::fcntl(fd, F_GETFD), 0) << "it is closed at the end";
}

TEST_F(OwnFiles, WriteIntoNoFileThatGotTheirNumber) {
  AppendedFile file(path("rows"));
  file.append("one\n");
  take_over(highest_of_others(), "checkpoint");
  try {
    file.append("two\n");
    ADD_FAILURE() << "it wrote";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the job closed its descriptor"));
  }
  EXPECT_EQ(fs::file_size(path("checkpoint")), 0U);
  EXPECT_EQ(read_text(path("rows"), 100), "one\n");
}

TEST_F(OwnFiles, DoNotCloseAFileThatGotTheirNumber) {
  int number = -1;
  {
    const OwnFile file(::open(path("a").c_str(), O_RDWR | O_CREAT, 0666));
    number = file.get();
    const int other = ::open(path("b").c_str(), O_RDWR | O_CREAT, 0666);
    ::dup2(other, number);
    ::close(other);
    EXPECT_FALSE(file.is_own());
  }
  EXPECT_GE(::fcntl(number, F_GETFD), 0);
  ::close(number);
}

TEST_F(OwnFiles, OfACollectiveLogAreSoToo) {
  CollectiveLog log(path("collectives-0.bin"), 0);
  const std::uint64_t seq = log.enter({.operation = "allreduce"});
  take_over(highest_of_others(), "checkpoint");
  log.leave(seq, CollectiveState::completed);
  EXPECT_THROW(log.enter({.operation = "allreduce"}), Error);
  EXPECT_EQ(fs::file_size(path("checkpoint")), 0U);
}

TEST_F(OwnFiles, EndNoProcessOnceTheyAreTruncated) {
  const fs::path file = path("collectives-0.bin");
  CollectiveLog log(file, 0);
  LiveCollectiveLog live(file);
  const std::uint64_t seq = log.enter({.operation = "allreduce"});
  ASSERT_EQ(live.count(), 1U);
  fs::resize_file(file, 0);
  EXPECT_EQ(live.at(0).operation, "");
  EXPECT_EQ(live.count(), 0U);
  log.leave(seq, CollectiveState::completed);
  EXPECT_EQ(log.enter({.operation = "broadcast"}), 1U);
}

class TruncatedControl : public OwnFiles {
 protected:
  TruncatedControl() { WatchControl::create(folder_.path()); }
  fs::path page() const { return path("watch.control"); }
};

TEST_F(TruncatedControl, SaysWhatWasLastAsked) {
  WatchControl parent(folder_.path());
  const WatchControl rank(folder_.path());
  parent.ask_to_keep();
  parent.switch_from(7, false);
  ASSERT_TRUE(rank.keeps());
  fs::resize_file(page(), 0);
  EXPECT_TRUE(rank.keeps());
  EXPECT_TRUE(rank.observes(6));
  EXPECT_FALSE(rank.observes(7));
  parent.count_thinned_segments(3, 2);  // writes the whole page again
  EXPECT_EQ(rank.thinned_segments(3), 2);
  EXPECT_TRUE(WatchControl(folder_.path()).keeps());
}

TEST_F(TruncatedControl, IgnoresWhatOthersWrite) {
  const WatchControl rank(folder_.path());
  std::fstream file(page(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4).put(1);  // `keeps`, without its check
  file.flush();
  EXPECT_FALSE(rank.keeps());
  fs::remove(page());
  EXPECT_TRUE(rank.observes(1));
}

TEST_F(TruncatedControl, IsRefusedAtTheStart) {
  fs::resize_file(page(), 10);
  EXPECT_THROW(WatchControl{folder_.path()}, Error);
}

TEST_F(TruncatedControl, KeepsTheQuestionsOfTwoProcesses) {
  WatchControl one(folder_.path()), other(folder_.path());
  EXPECT_EQ(one.ask_where(), 1U);
  other.ask_to_keep();
  EXPECT_EQ(one.ask_where(), 2U);
  EXPECT_TRUE(one.keeps());
}

}  // namespace
}  // namespace lockstep
