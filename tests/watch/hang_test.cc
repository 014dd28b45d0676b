// Jobs that stop in the middle, watched by `lockstep watch --stall`: hangs and deaths, and pauses
// that are none.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/command.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// A training of hanging_training.py and how it is watched.
struct Hang {
  std::string name;  ///< of the test
  std::string hang;
  std::string engine = "ddp";
  std::string options = "--on-stall kill";
  int status = 1;
  std::vector<std::string> said;  ///< in the report
  std::string launcher = "two_ranks.py";
};

void PrintTo(const Hang& hang, std::ostream* out) { *out << hang.name; }

/// "tests/watch/hanging_training.py:22": the line of the script that has this text.
std::string at(const std::string& text) {
  const fs::path script = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/watch/hanging_training.py";
  int line = 0;
  for (const std::string& each : lines_of(text_of(script))) {
    ++line;
    if (each.find(text) < each.npos) {
      const std::string below = fs::relative(script).string();
      return fmt::format("{}:{}", below.starts_with("..") ? "hanging_training.py" : below, line);
    }
  }
  return "no line has " + text;
}

std::string in_line(const std::string& function, const std::string& text) {
  return fmt::format("in {}, {}", function, at(text));
}

const std::vector<Hang>& hangs() {
  static const std::vector<Hang> all = {
      {"asleep",
       "asleep",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 3: rank 1 is in load_next_batch (",
        "; rank 0 waits for it in an all-reduce (",
        "Rank 1 never entered collective 8 of the group world in step 3, allreduce",
        in_line("load_next_batch", "# asleep")}},
      {"asleep_with_collectives_by_hand",
       "asleep",
       "by_hand",
       "--on-stall kill --expect hangs",
       0,
       {"Rank 1 never entered collective", at("dist.all_reduce(parameter.grad)"),
        in_line("load_next_batch", "# asleep")}},
      {"asleep_when_forked",
       "asleep",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 3: rank 1 is in load_next_batch (", in_line("load_next_batch", "# asleep")},
       "multiprocessing_ranks.py fork"},
      {"a_batch_less",
       "a_batch_less",
       "ddp",
       "--on-stall kill",
       1,
       {"Ranks disagree on the operation of collective 11 of the group world in step 6",
        "rank 1 calls barrier at " + at("# the last")}},
      {"gives_up_in_different_calls",
       "gives_up",
       "ddp",
       "",
       1,
       {"FAILED: ranks disagree on the operation of collective 11 of the group world in step 6: "
        "rank "
        "0 calls allreduce float [",
        "rank 1 calls barrier at " + at("# the last")}},
      {"holds_the_interpreter",
       "busy",
       "ddp",
       "--on-stall kill",
       1,
       {"Rank 1 never entered collective 8 of the group world", "rank 1: no progress for",
        "its hook did not answer, in load_next_batch"}},
      {"stopped",
       "stopped",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 3: the process of rank 1 was stopped by a signal"}},
      {"killed",
       "killed",
       "ddp",
       "--on-stall kill",
       137,
       {"FAILED: rank 1 disappeared after step 2"}},
      {"rendezvous",
       "rendezvous",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 1: rank 1 is in main (", "rank 0 waits for it to join the group world (",
        "Rank 1 never joined the group world; rank 0 waited there", "rank 1: no progress for",
        in_line("main", "# before the rendezvous")}},
      {"order_of_subgroups",
       "order",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 3: rank 0 waits for rank 1 in an all-reduce of group 1 (",
        "Ranks 0,1 wait for each other in several groups", at("group=group")}},
      {"root",
       "root",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 3: ranks 0,1 are all in a broadcast (",
        "broadcast float [4] at " + at("# each rank is the root"), "and none leaves it"}},
      {"message_that_does_not_come",
       "message",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 3: rank 1 is in main (" + at("# before the message"),
        "; rank 0 waits for a message (" + at("# the message")}},
      {"each_waits_for_a_message",
       "messages",
       "ddp",
       "--on-stall kill",
       1,
       {"HANG in step 3: ranks 0,1 wait for messages (" + at("# each rank waits"),
        ", and no rank sends one"}},
      {"shapes",
       "shapes",
       "ddp",
       "",
       1,
       {"FAILED: ranks disagree on the size of collective 9 of the group world in step 3: rank 0 "
        "calls "
        "allreduce float [4] at hanging_training.py:",
        "rank 1 calls allreduce float [400000] at hanging_training.py:",
        "aborted at its all_reduce in main (hanging_training.py:"}},
      {"shapes_before_the_first_step",
       "shapes_at_first",
       "ddp",
       "",
       1,
       {"FAILED: ranks disagree on the size of collective 5 of the group world in step 1: rank 0 "
        "calls "
        "allreduce float [4] at hanging_training.py:",
        "rank 1 calls allreduce float [400000] at hanging_training.py:",
        "aborted at its all_reduce in main (hanging_training.py:"}},
      {"branch_of_one_rank",
       "branch",
       "by_hand",
       "",
       1,
       {"FAILED: ranks disagree on the size of collective 13 of the group world in step 3: rank 0 "
        "calls allreduce float [1] at hanging_training.py:",
        "aborted at its all_reduce in main (" +
            fs::path(at("# in a branch of rank 0")).filename().string()}},
      // Healthy ones.
      {"evaluates_on_one_rank", "evaluates", "ddp", "", 0, {"in lockstep: 4 of 4 parameters"}},
      {"exchanges_messages", "exchanges", "ddp", "--on-stall kill", 0, {"in lockstep: 4 of 4"}},
      {"late_message", "late_message", "ddp", "", 0, {"in lockstep: 4 of 4 parameters"}},
      {"checkpoints", "checkpoints", "ddp", "--on-stall kill", 0, {"in lockstep: 4 of 4"}},
      {"never_pauses", "", "ddp", "--on-stall kill --expect hangs", 1, {"in lockstep: 4 of 4"}},
  };
  return all;
}

/// Those above with collectives by hand and under fully_shard, whose collectives have other
/// numbers.
std::vector<Hang> hangs_under_other_engines() {
  const std::string asleep = in_line("load_next_batch", "# asleep");
  const std::string before = in_line("main", "# before the rendezvous");
  std::vector<Hang> all = {{"branch_under_fully_shard",
                            "branch",
                            "fully_shard",
                            "--on-stall kill",
                            1,
                            {"Ranks disagree on the operation of collective 7 of the group world "
                             "in step 3: rank 0 calls "
                             "allreduce float [1] at " +
                             at("# in a branch of rank 0")}}};
  for (const std::string engine : {"by_hand", "fully_shard"}) {
    const auto add = [&](const std::string& hang, int status, std::vector<std::string> said) {
      all.push_back(
          {hang + "_under_" + engine, hang, engine, "--on-stall kill", status, std::move(said)});
    };
    add("asleep", 1, {"Rank 1 never entered collective", asleep});
    add("a_batch_less", 1,
        {"Ranks disagree on the operation of collective", "of the group world in step 6",
         "rank 1 calls barrier at " + at("# the last")});
    add("busy", 1,
        {"Rank 1 never entered collective", "its hook did not answer, in load_next_bat"});
    add("stopped", 1, {"HANG in step 3: the process of rank 1 was stopped by a signal"});
    add("killed", 137, {"FAILED: rank 1 disappeared after step 2"});
    add("rendezvous", 1, {"Rank 1 never joined the group world; rank 0 waited there", before});
    add("order", 1,
        {"HANG in step 3: rank 0 waits for rank 1 in an all-reduce of group 1 "
         "(",
         "Ranks 0,1 wait for each other in several groups", at("group=group")});
    add("shapes", 1, {"aborted at its all_reduce in main (hanging_training.py:"});
  }
  return all;
}

/// Variations of the first ones.
const std::vector<Hang>& hangs_of_the_soak() {
  static const std::vector<Hang> all = [] {
    std::vector<Hang> some = {
        {"asleep_when_spawned",
         "asleep",
         "ddp",
         "--on-stall kill",
         1,
         {"HANG in step 3: rank 1 is in load_next_batch (", in_line("load_next_batch", "# asleep")},
         "multiprocessing_ranks.py spawn"},
        {"asleep_after_thousands_of_collectives",
         "asleep_late",
         "ddp",
         "--on-stall kill",
         1,
         {"Rank 1 never entered collective 4008 of the group world in step 3, allreduce",
          in_line("load_next_batch", "# asleep")}},
        {"after_a_pause",
         "long_pause",
         "ddp",
         "--on-stall kill",
         1,
         {"Rank 1 never entered collective 8 of the group world in step 3, allreduce",
          in_line("load_next_batch", "# no collective is open at first")}},
        // Healthy ones.
        {"joins_late", "joins_late", "ddp", "--on-stall kill", 0, {"in lockstep: 4 of 4"}},
        {"leaves_early", "leaves_early", "ddp", "--on-stall kill", 0, {"in lockstep: 4 of 4"}},
    };
    std::ranges::move(hangs_under_other_engines(), std::back_inserter(some));
    return some;
  }();
  return all;
}

/// Runs of all trainings, several at a time: they mostly sleep.
class Runs {
 public:
  static const Runs& get() {
    static const Runs runs(hangs());
    return runs;
  }
  static const Runs& of_the_soak() {
    static const Runs runs(hangs_of_the_soak());
    return runs;
  }

  Outcome report(const std::string& name, const std::string& options = "") const {
    return run_shell(fmt::format("{} report {}/run {}", LOCKSTEP_PROGRAM,
                                 (folder_.path() / name).string(), options));
  }

  const Outcome& outcome(const std::string& name) const { return outcomes_.at(name); }

  /// Processes whose environment has the folder of these runs: launchers and ranks.
  std::string processes() const {
    return run_shell(fmt::format("grep -lsa {} /proc/[0-9]*/environ", folder_.path().string())).out;
  }

 private:
  explicit Runs(const std::vector<Hang>& all) {
    std::vector<Outcome> outcomes(all.size());
    std::atomic<std::size_t> next = 0;
    {
      std::vector<std::jthread> some(4);
      for (std::jthread& one : some) {
        one = std::jthread([&] {
          for (std::size_t i = next++; i < all.size(); i = next++) outcomes[i] = run(all[i]);
        });
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) outcomes_[all[i].name] = outcomes[i];
  }

  Outcome run(const Hang& hang) const {
    const fs::path folder = folder_.path() / hang.name;
    return run_shell(fmt::format(
        "HANG={} ENGINE={} PAUSE=14 timeout 90 {} watch --out {}/run --stall 6 {} -- "
        "{} {}/tests/watch/{} {}/tests/watch/hanging_training.py {}",
        hang.hang, hang.engine, LOCKSTEP_PROGRAM, folder.string(), hang.options, LOCKSTEP_PYTHON,
        LOCKSTEP_SOURCE_DIR, hang.launcher, LOCKSTEP_SOURCE_DIR, folder.string()));
  }

  TemporaryFolder folder_;
  std::map<std::string, Outcome> outcomes_;
};

void expect_told(const Hang& hang, const Outcome& outcome) {
  EXPECT_EQ(outcome.status, hang.status) << outcome.err;
  for (const std::string& text : hang.said) {
    EXPECT_THAT(unwrapped(outcome.err), HasSubstr(text));
  }
}

class HangingJob : public testing::TestWithParam<Hang> {};

TEST_P(HangingJob, IsToldByRankCollectiveAndLine) {
  expect_told(GetParam(), Runs::get().outcome(GetParam().name));
}

class HangingJobOfTheSoak : public testing::TestWithParam<Hang> {};

TEST_P(HangingJobOfTheSoak, IsToldByRankCollectiveAndLine) {
  expect_told(GetParam(), Runs::of_the_soak().outcome(GetParam().name));
}

std::string name_of_hang(const testing::TestParamInfo<Hang>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Watched, HangingJob, testing::ValuesIn(hangs()), name_of_hang);
INSTANTIATE_TEST_SUITE_P(Soak, HangingJobOfTheSoak, testing::ValuesIn(hangs_of_the_soak()),
                         name_of_hang);

TEST(PauseOfAJob, IsToldAndTakenBack) {
  const std::string& said = Runs::get().outcome("evaluates_on_one_rank").err;
  EXPECT_THAT(unwrapped(said), HasSubstr("hang in step 3: rank 0 is in evaluate ("));
  EXPECT_THAT(said, HasSubstr("lockstep: the ranks make progress again"));
  EXPECT_THAT(said, Not(HasSubstr("FAILED")));
}

TEST(PauseOfAJob, IsNoHangIfNoCollectiveIsOpen) {
  const std::string& said = Runs::get().outcome("checkpoints").err;
  EXPECT_THAT(said, HasSubstr("lockstep: no rank began a step or called a collective for"));
  EXPECT_THAT(unwrapped(said), HasSubstr("rank 0: no progress for"));
  EXPECT_THAT(said, Not(HasSubstr("never entered")));
}

TEST(HangingJobs, AreReportedAgainAsTheyWere) {
  const Outcome again = Runs::get().report("asleep");
  EXPECT_EQ(again.status, 1) << again.err;
  EXPECT_THAT(unwrapped(again.out), HasSubstr("Rank 1 never entered collective 8 of the group"));
  EXPECT_THAT(unwrapped(again.out), HasSubstr("in load_next_batch"));
}

/// By the hook that answers, or by Python itself.
TEST(HangingJobs, HaveStacksInFull) {
  for (const char* const name : {"asleep", "holds_the_interpreter"}) {
    const Outcome whole = Runs::get().report(name, "-vv");
    EXPECT_THAT(unwrapped(whole.out),
                testing::ContainsRegex("stack of rank 1, innermost first: "
                                       ".*load_next_batch, [^ ]*hanging_training.py:[0-9]+ .*"
                                       "main, [^ ]*hanging_training.py:[0-9]+ "))
        << name;
    EXPECT_THAT(Runs::get().report(name).out, Not(HasSubstr("innermost first")));
  }
}

TEST(HangingJobs, LeaveNoProcessBehind) { EXPECT_EQ(Runs::get().processes(), ""); }

}  // namespace
}  // namespace lockstep
