// A job is judged while its ranks write.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "harness/record/snapshots.h"
#include "harness/record/step_writer.h"
#include "reports/base/error.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Writers kGoingOn{.identities = {}, .may_go_on = true};

/// A tensor of two elements, with its values.
void observe(StepWriter& writer, std::int64_t step, const std::string& name) {
  const std::vector<float> values{static_cast<float>(step), 2};
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  Observation row;
  row.step = step;
  row.name = name;
  row.dtype = "float32";
  row.global_shape = row.local_shape = {2};
  row.offset = {0};
  row.digest = digest_run({bytes, 8}, 0);
  row.statistics = statistics(DType::float32, {bytes, 8});
  writer.claim(row);
  writer.append(std::array{&row});
  writer.keep(row, {bytes, bytes + 8});
}

TEST(GrowingJob, IsReadAtAnyTime) {
  constexpr std::int64_t kSteps = 400;
  const TemporaryFolder folder;
  std::atomic<bool> has_ended = false;
  std::thread rank([&] {
    StepWriter writer(folder.path(), 0, "", KeepPolicy::all(), 50);
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      writer.begin_step(step);
      for (const char* name : {"a", "b"}) observe(writer, step, name);
      writer.finish();
      // A second optimizer of the same step; a tensor that was never observed before.
      observe(writer, step, "c" + std::to_string(step));
      writer.finish();
    }
    has_ended = true;
  });
  std::size_t seen = 0;
  EXPECT_EQ(refusal_of("",
                       [&] {
                         for (bool is_last = false; !is_last;) {
                           is_last = has_ended;
                           const StepReader reader(folder.path(), 1, kGoingOn);
                           EXPECT_THAT(reader.index_faults(), IsEmpty());
                           seen = reader.steps().size();
                           const std::size_t from = seen > 3 ? seen - 3 : 0;
                           for (std::size_t i = from; i < seen; ++i) reader.at(reader.steps()[i]);
                         }
                       }),
            "accepted");
  rank.join();
  EXPECT_EQ(seen, static_cast<std::size_t>(kSteps));
}

/// Its rows were not there yet when the journal was read.
TEST(GrowingJob, MayHaveValuesOfALaterStepOrOfLaterRows) {
  const TemporaryFolder folder;
  {
    StepWriter writer(folder.path(), 0, "", KeepPolicy::all());
    for (const std::int64_t step : {1, 2}) {
      writer.begin_step(step);
      observe(writer, step, "a");
    }
  }
  const auto snapshot = [&](std::int64_t step) { return snapshot_file(folder.path(), 0, step); };
  auto values = read_snapshot(snapshot(2)).tensors;
  write_safetensors(snapshot(3), values);
  EXPECT_THAT(refusal_of("", [&] { StepReader(folder.path(), 1); }),
              HasSubstr("found 'a step without rows'"));
  EXPECT_THAT(StepReader(folder.path(), 1, kGoingOn).steps(), ElementsAre(1, 2));
  fs::remove(snapshot(3));

  const SnapshotTensor other = values.begin()->second;
  values.emplace("0/pre_forward/parameter/b", other);
  write_safetensors(snapshot(2), values);
  EXPECT_THAT(refusal_of("", [&] { StepReader(folder.path(), 1).at(2); }),
              HasSubstr("expected values with a row in the journal"));
  EXPECT_EQ(refusal_of("", [&] { StepReader(folder.path(), 1, kGoingOn).at(2); }), "accepted");
  // Only the last step goes on.
  write_safetensors(snapshot(1), values);
  EXPECT_NE(refusal_of("", [&] { StepReader(folder.path(), 1, kGoingOn).at(1); }), "accepted");
}

}  // namespace
}  // namespace lockstep
