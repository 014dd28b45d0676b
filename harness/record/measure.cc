#include "harness/record/measure.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness/record/component_pass.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/record/statistics.h"

namespace lockstep {
namespace {

/// Adds the bytes of a part where its runs lie in the global tensor.
class PartPass {
 public:
  PartPass(const Observation& part, TensorParts wanted)
      : dtype_(*parse<DType>(part.dtype)),
        runs_(runs_of(part)),
        pass_(component_type(dtype_), wanted) {}

  void add(std::span<const std::byte> bytes) {
    const std::size_t item = item_size(dtype_);
    while (!bytes.empty()) {
      const Run& run = runs_[number_];
      const auto left = static_cast<std::size_t>(run.length - done_) * item;
      const auto here = bytes.first(std::min(bytes.size(), left));
      pass_.add(here, static_cast<std::uint64_t>(run.begin + done_) * components(dtype_));
      done_ += static_cast<std::int64_t>(here.size() / item);
      if (done_ == run.length) {
        ++number_;
        done_ = 0;
      }
      bytes = bytes.subspan(here.size());
    }
  }

  const ComponentPass& pass() const { return pass_; }

 private:
  DType dtype_;
  std::vector<Run> runs_;
  std::size_t number_ = 0;  ///< of the run that is being added
  std::int64_t done_ = 0;   ///< elements of it
  ComponentPass pass_;
};

ComponentPass pass_over(const Observation& observation, const TensorBytes& bytes,
                        TensorParts wanted) {
  PartPass part(observation, wanted);
  bytes.for_each_piece([&](std::span<const std::byte> piece) { part.add(piece); });
  return part.pass();
}

ComponentPass pass_filling(Observation& observation, const TensorBytes& bytes, bool is_sketched) {
  const ComponentPass pass = pass_over(observation, bytes, {.digest = true, .sketch = is_sketched});
  observation.digest = pass.digest();
  observation.statistics = statistics(*parse<DType>(observation.dtype), bytes, pass.sums());
  return pass;
}

}  // namespace

void measure(Observation& observation, const TensorBytes& bytes) {
  pass_filling(observation, bytes, false);
}

Sketch measure_and_sketch(Observation& observation, const TensorBytes& bytes) {
  return {pass_filling(observation, bytes, true).sums().lanes};
}

Sketch sketch_of(const Observation& observation, const TensorBytes& bytes) {
  return {pass_over(observation, bytes, {.sketch = true}).sums().lanes};
}

}  // namespace lockstep
