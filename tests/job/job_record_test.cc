#include "harness/job/job_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

std::string title_of_job(const std::vector<std::string>& words, const std::string& label = "") {
  WatchRequest request;
  request.job = words;
  request.label = label;
  return record_of_job(request).jobs[0].title;
}

TEST(TitleOfAJob, IsItsScriptAndTheArgumentsOfThat) {
  EXPECT_EQ(title_of_job({"/opt/venv/bin/torchrun", "/home/train.py"}), "train.py");
  EXPECT_EQ(title_of_job({"torchrun", "--nproc-per-node", "2", "src/train.py", "--lr", "1"}),
            "src/train.py --lr 1");
  EXPECT_EQ(title_of_job({"/opt/venv/bin/python", "-m", "torch.distributed.run", "train.py"}),
            "train.py");
  EXPECT_EQ(title_of_job({"./train.sh", "a"}), "./train.sh a");
  EXPECT_EQ(title_of_job({"/opt/venv/bin/python", "-m", "train"}), "python -m train");
  EXPECT_LT(title_of_job({"train.py", std::string(50'000, 'x')}).size(), 90);
  EXPECT_EQ(title_of_job({"/opt/venv/bin/torchrun"}, "mine"), "mine");
  EXPECT_EQ(title_of_job({}), "");
}

TEST(RecordOfAJob, HasTheWholeCommand) {
  WatchRequest request;
  request.job = {"/bin/true"};
  request.command = {"lockstep", "watch", "--", "/bin/true"};
  EXPECT_THAT(record_of_job(request).command,
              testing::ElementsAre("lockstep", "watch", "--", "/bin/true"));
}

TEST(ExitOfAJob, IsUndecidedOfPartsOnlyIfItIsStrict) {
  JobRecord job;
  job.world_size = 2;
  job.exits.resize(2);
  job.symptom.kind = SymptomKind::right;
  ClaimResult& result = job.results.emplace_back();
  result.claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  result.verdict = Verdict::holds;
  result.comparisons = 4;
  job.coverage.parameters = job.coverage.compared = 2;
  WatchRequest strict;
  strict.is_strict = true;
  EXPECT_EQ(exit_of(job, JobEnd{}, strict), 0);
  job.coverage.until = {{Kind::gradient, 4, 1, "0.bias"}};
  EXPECT_EQ(exit_of(job, JobEnd{}, {}), 0);
  EXPECT_EQ(exit_of(job, JobEnd{}, strict), 2);
}

}  // namespace
}  // namespace lockstep
