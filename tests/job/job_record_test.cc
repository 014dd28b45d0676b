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

}  // namespace
}  // namespace lockstep
