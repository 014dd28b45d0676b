#include "harness/record/collective_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "tests/full_disk.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Collective all_reduce(std::int64_t step) {
  Collective c;
  c.step = step;
  c.operation = "allreduce";
  c.reduction = "sum";
  c.dtype = "float32";
  c.tensors = 2;
  c.elements = 20 + static_cast<std::uint64_t>(step);
  c.bytes = 4 * c.elements;
  c.root = -1;
  c.number = 9;
  c.shape = "[2, 10]";
  c.group_size = 4;
  c.group = "default_pg";
  c.tensor = "gradient of w";
  c.tensor_id = 77;
  c.site = "file.cc:12";
  return c;
}

/// Without the fields of the clock.
Collective timeless(Collective c) {
  c.entered_ns = c.completed_ns = 0;
  return c;
}

class CollectiveLogFile : public ::testing::Test {
 protected:
  /// The reader's error after `bytes` were written at `offset` of a log of two entries.
  std::string refusal(std::size_t offset, std::string_view bytes) {
    fs::remove(path_);
    {
      CollectiveLog log(path_, 0);
      log.enter(all_reduce(1));
      log.enter(all_reduce(2));
    }
    std::string text = read_text(path_, kLargestFile);
    text.replace(offset, bytes.size(), bytes);
    std::ofstream(path_, std::ios::binary) << text;
    return refusal();
  }

  std::string refusal() {
    return refusal_of(path_, [&] { read_collective_log(path_); });
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  fs::path path_ = folder_ / "collectives-0.bin";
};

TEST_F(CollectiveLogFile, ReadsBack) {
  {
    CollectiveLog log(path_, 0);
    EXPECT_EQ(log.enter(all_reduce(0)), 0u);
    EXPECT_EQ(log.enter(all_reduce(1)), 1u);
    EXPECT_EQ(log.enter(all_reduce(2)), 2u);
    log.leave(1, CollectiveState::failed);
    log.leave(0, CollectiveState::completed);
  }
  const std::vector<Collective> read = read_collective_log(path_);
  ASSERT_EQ(read.size(), 3u);
  const std::vector<CollectiveState> states{CollectiveState::completed, CollectiveState::failed,
                                            CollectiveState::entered};
  for (std::size_t i = 0; i < read.size(); ++i) {
    Collective expected = all_reduce(static_cast<std::int64_t>(i));
    expected.seq = i;
    expected.state = states[i];
    EXPECT_EQ(timeless(read[i]), expected);
    EXPECT_GT(read[i].entered_ns, 0);
  }
  EXPECT_LE(read[0].entered_ns, read[1].entered_ns);
  EXPECT_GE(read[0].completed_ns, read[1].completed_ns);
  EXPECT_EQ(read[2].completed_ns, 0);
}

TEST_F(CollectiveLogFile, IsReadWhileItIsWritten) {
  LiveCollectiveLog live(path_);
  EXPECT_EQ(live.count(), 0U);
  CollectiveLog log(path_, 0);
  for (std::int64_t step = 1; step <= 1000; ++step) {
    const std::uint64_t seq = log.enter(all_reduce(step));
    ASSERT_EQ(live.count(), seq + 1);
    EXPECT_EQ(live.at(seq).step, step);
    EXPECT_EQ(live.at(seq).state, CollectiveState::entered);
    log.leave(seq, CollectiveState::completed);
    EXPECT_EQ(live.at(seq).state, CollectiveState::completed);
  }
}

TEST_F(CollectiveLogFile, IsNotReadWhileAnotherMachineMayBeWritingIt) {
  {
    CollectiveLog log(path_, 0);
    log.enter(all_reduce(1));
  }
  EXPECT_EQ(LiveCollectiveLog(path_).count(), 1U);
  std::string text = read_text(path_, kLargestFile);
  text[32] = text[32] == 'x' ? 'y' : 'x';  // the first letter of the machine
  std::ofstream(path_, std::ios::binary) << text;
  EXPECT_EQ(LiveCollectiveLog(path_).count(), 0U);
  EXPECT_EQ(read_collective_log(path_).size(), 1U);
}

TEST_F(CollectiveLogFile, IsReadLiveWhateverItsNumbersAre) {
  {
    CollectiveLog log(path_, 0);
    log.enter(all_reduce(1));
  }
  const std::string text = read_text(path_, kLargestFile);
  // The last is one that becomes small when it is multiplied by the size of an entry.
  for (const std::uint64_t count :
       {std::uint64_t{2}, UINT64_MAX, UINT64_MAX / 384, UINT64_MAX / 384 + 1}) {
    std::string changed = text;
    std::memcpy(changed.data() + 24, &count, sizeof count);
    std::ofstream(path_, std::ios::binary) << changed;
    EXPECT_EQ(LiveCollectiveLog(path_).count(), 0U) << count;
  }
  std::string changed = text;
  changed[384 + 72] = 7;
  std::ofstream(path_, std::ios::binary) << changed;
  LiveCollectiveLog live(path_);
  ASSERT_EQ(live.count(), 1U);
  EXPECT_EQ(live.at(0).state, CollectiveState::entered);
}

TEST_F(CollectiveLogFile, SendsACollectiveAsItsBytes) {
  Collective sent = all_reduce(3);
  sent.seq = 7;
  sent.state = CollectiveState::failed;
  sent.entered_ns = 5;
  sent.completed_ns = 6;
  const std::string bytes = to_bytes(sent);
  EXPECT_EQ(collective_of_bytes(bytes, "store"), sent);
  EXPECT_THROW(collective_of_bytes(bytes.substr(1), "store"), Error);
  EXPECT_THROW(collective_of_bytes(std::string(384, '\x7f'), "store"), Error);
}

TEST_F(CollectiveLogFile, IsAsLongAsItsEntries) {
  { CollectiveLog log(path_, 0); }
  EXPECT_EQ(fs::file_size(path_), 384u);
  EXPECT_TRUE(read_collective_log(path_).empty());
}

TEST_F(CollectiveLogFile, StandsAsDocumented) {
  {
    CollectiveLog log(path_, 7);
    Collective c = all_reduce(3);
    c.root = 5;
    log.leave(log.enter(c), CollectiveState::completed);
  }
  const std::string file = read_text(path_, kLargestFile);
  ASSERT_EQ(file.size(), 768u);
  const auto number = [&]<class T>(std::size_t at, T) {
    T value;
    std::memcpy(&value, file.data() + at, sizeof value);
    return value;
  };
  EXPECT_EQ(file.substr(0, 8), "LSCOLLOG");
  EXPECT_EQ(number(8, std::uint32_t{}), 2u);
  EXPECT_EQ(number(12, std::uint32_t{}), 384u);
  EXPECT_EQ(number(16, std::int32_t{}), 7);
  EXPECT_EQ(number(24, std::uint64_t{}), 1u);
  EXPECT_EQ(number(384 + 0, std::uint64_t{}), 0u);
  EXPECT_EQ(number(384 + 8, std::uint64_t{}), 9u);
  EXPECT_EQ(number(384 + 16, std::int64_t{}), 3);
  EXPECT_EQ(number(384 + 24, std::uint64_t{}), 23u);
  EXPECT_EQ(number(384 + 32, std::uint64_t{}), 92u);
  EXPECT_GT(number(384 + 40, std::int64_t{}), 0);
  EXPECT_GE(number(384 + 48, std::int64_t{}), number(384 + 40, std::int64_t{}));
  EXPECT_EQ(number(384 + 56, std::uint32_t{}), 2u);
  EXPECT_EQ(number(384 + 60, std::int32_t{}), 5);
  EXPECT_EQ(number(384 + 64, std::int32_t{}), 4);
  EXPECT_EQ(number(384 + 68, std::int32_t{}), 77);
  EXPECT_EQ(file[384 + 72], 1);
  EXPECT_STREQ(file.data() + 384 + 80, "allreduce");
  EXPECT_STREQ(file.data() + 384 + 104, "sum");
  EXPECT_STREQ(file.data() + 384 + 120, "float32");
  EXPECT_STREQ(file.data() + 384 + 136, "[2, 10]");
  EXPECT_STREQ(file.data() + 384 + 168, "default_pg");
  EXPECT_STREQ(file.data() + 384 + 232, "file.cc:12");
  EXPECT_STREQ(file.data() + 384 + 296, "gradient of w");
}

TEST_F(CollectiveLogFile, SaysWhoWroteIt) {
  { CollectiveLog log(path_, 7, "rank 7 of a cell"); }
  const RankCollectives read = read_log_of_rank(path_);
  EXPECT_EQ(read.rank, 7);
  EXPECT_EQ(read.identity, "rank 7 of a cell");
  EXPECT_EQ(read_text(path_, kLargestFile).substr(72, 17), std::string("rank 7 of a cell") + '\0');
}

TEST_F(CollectiveLogFile, RefusesANumberThatItHasNoEntriesFor) {
  for (const std::uint64_t number : {std::uint64_t{5000}, std::uint64_t{1} << 40, UINT64_MAX}) {
    const std::string_view bytes(reinterpret_cast<const char*>(&number), sizeof number);
    EXPECT_EQ(refusal(384 * 2 + 8, bytes),
              ": expected a number of at most 1026 in entry 1 of 2, found '" +
                  std::to_string(number) + "'.");
  }
}

TEST_F(CollectiveLogFile, IsBegunWhenItHasAHeader) {
  EXPECT_FALSE(has_collective_log(path_));
  std::ofstream(path_) << std::string(384, '\0');
  EXPECT_FALSE(has_collective_log(path_));
  fs::remove(path_);
  { CollectiveLog log(path_, 0); }
  EXPECT_TRUE(has_collective_log(path_));
  std::ofstream(path_) << "X";
  EXPECT_TRUE(has_collective_log(path_)) << "who reads it is told that it is none";
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
  EXPECT_THROW(has_collective_log(path_), Error);
}

TEST_F(CollectiveLogFile, GrowsWithoutEnd) {
  constexpr std::int64_t kMany = 5000;
  {
    CollectiveLog log(path_, 0);
    for (std::int64_t i = 0; i < kMany; ++i) log.enter(all_reduce(i));
    for (std::int64_t i = 0; i < kMany; i += 2) {
      log.leave(static_cast<std::uint64_t>(i), CollectiveState::completed);
    }
  }
  EXPECT_EQ(fs::file_size(path_), 384u * (1 + kMany));
  const std::vector<Collective> read = read_collective_log(path_);
  ASSERT_EQ(read.size(), static_cast<std::size_t>(kMany));
  for (std::int64_t i = 0; i < kMany; ++i) {
    const Collective& one = read[static_cast<std::size_t>(i)];
    ASSERT_EQ(one.step, i);
    ASSERT_EQ(one.state, i % 2 ? CollectiveState::entered : CollectiveState::completed);
  }
}

TEST_F(CollectiveLogFile, IsCompletedByAnotherThreadWhileItGrows) {
  constexpr std::uint64_t kMany = 20'000;
  {
    CollectiveLog log(path_, 0);
    std::atomic<std::uint64_t> entered{0};
    std::thread other([&] {
      for (std::uint64_t seq = 0; seq < kMany; ++seq) {
        while (entered.load(std::memory_order_acquire) <= seq) std::this_thread::yield();
        log.leave(seq, CollectiveState::completed);
      }
    });
    for (std::uint64_t seq = 0; seq < kMany; ++seq) {
      entered.store(log.enter(all_reduce(1)) + 1, std::memory_order_release);
    }
    other.join();
  }
  for (const Collective& c : read_collective_log(path_)) {
    ASSERT_EQ(c.state, CollectiveState::completed);
    ASSERT_GE(c.completed_ns, c.entered_ns);
  }
}

TEST_F(CollectiveLogFile, CutsNamesThatAreTooLong) {
  {
    CollectiveLog log(path_, 0);
    Collective c = all_reduce(1);
    c.operation = std::string(100, 'o');
    c.reduction = std::string(16, 'r');
    c.dtype = "";
    c.group = std::string(1000, 'g');
    log.enter(c);
  }
  const Collective read = read_collective_log(path_).at(0);
  EXPECT_EQ(read.operation, std::string(24, 'o'));
  EXPECT_EQ(read.reduction, std::string(16, 'r'));
  EXPECT_EQ(read.dtype, "");
  EXPECT_EQ(read.group, std::string(64, 'g'));
}

TEST_F(CollectiveLogFile, SurvivesAKilledRank) {
  const pid_t child = ::fork();
  if (child == 0) {
    CollectiveLog log(path_, 0);
    for (std::int64_t i = 0; i < 300; ++i) log.enter(all_reduce(i));
    log.leave(0, CollectiveState::completed);
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::vector<Collective> read = read_collective_log(path_);
  ASSERT_EQ(read.size(), 300u);
  EXPECT_EQ(read[0].state, CollectiveState::completed);
  EXPECT_EQ(read[299].state, CollectiveState::entered);
  EXPECT_EQ(read[299].step, 299);
}

TEST_F(CollectiveLogFile, RefusesToReplaceAnother) {
  CollectiveLog log(path_, 0);
  EXPECT_THROW(CollectiveLog(path_, 0), Error);
  EXPECT_THROW(CollectiveLog(folder_ / "none" / "log", 0), Error);
}

TEST_F(CollectiveLogFile, SaysThatTheDiskIsFull) {
  CollectiveLog log(path_, 0);
  const std::string said = refusal_of(path_.parent_path(), [&] {
    const FullDisk full(100'000);
    for (std::int64_t i = 0; i < 1000; ++i) log.enter(all_reduce(i));
  });
  EXPECT_NE(said.find("collectives-0.bin: File too large"), std::string::npos) << said;
  EXPECT_EQ(read_collective_log(path_).size(), 259u) << "what fitted is on record";
}

std::string bytes_of(std::uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST_F(CollectiveLogFile, RefusesWhatIsMalformed) {
  EXPECT_EQ(refusal(16, std::string(1, '\1')), "accepted");  // another rank
  EXPECT_EQ(refusal(0, "X"), ": expected a collective log, found 'XSCOLLOG'.");
  for (const std::uint32_t version : {0U, 1U, 3U, UINT32_MAX}) {
    const std::string bytes(reinterpret_cast<const char*>(&version), sizeof version);
    EXPECT_EQ(refusal(8, bytes), " is a collective log of version '" + std::to_string(version) +
                                     "', but this program reads version 2: use the Lockstep that "
                                     "wrote it, or record the run again.");
  }
  EXPECT_EQ(refusal(12, "\1"), ": expected entries of 384 bytes, found '257'.");
  EXPECT_EQ(refusal(24, bytes_of(3)), ": expected at most 2 entries, found '3'.");
  EXPECT_EQ(refusal(24, bytes_of(UINT64_MAX)),
            ": expected at most 2 entries, found '18446744073709551615'.");
  EXPECT_EQ(refusal(24, bytes_of(1)), "accepted");
  EXPECT_EQ(refusal(768, bytes_of(5)),
            ": expected entry 1 with a state of 0 to 2, found 'entry 5, state 0'.");
  EXPECT_EQ(refusal(384 + 72, "\3"),
            ": expected entry 0 with a state of 0 to 2, found 'entry 0, state 3'.");
}

TEST_F(CollectiveLogFile, RefusesWhatIsNoLog) {
  EXPECT_NE(refusal().find("No such file"), std::string::npos);
  std::ofstream(path_) << "short";
  EXPECT_EQ(refusal(), ": expected a collective log, found '5 bytes'.");
  std::ofstream(path_) << std::string(384, '\0');
  EXPECT_EQ(refusal(), ": expected a collective log, found nothing.");
}

}  // namespace
}  // namespace lockstep
