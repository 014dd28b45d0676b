#include "harness/record/measure.h"

#include <cstdint>

#include "harness/record/component_pass.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/record/statistics.h"

namespace lockstep {
namespace {

ComponentPass pass_over(const Observation& observation, std::span<const std::byte> bytes,
                        TensorParts wanted) {
  const DType dtype = *parse<DType>(observation.dtype);
  ComponentPass pass(component_type(dtype), wanted);
  std::size_t at = 0;
  for (const Run& run : runs_of(observation)) {
    const std::size_t size = static_cast<std::size_t>(run.length) * item_size(dtype);
    pass.add(bytes.subspan(at, size), static_cast<std::uint64_t>(run.begin) * components(dtype));
    at += size;
  }
  return pass;
}

ComponentPass pass_filling(Observation& observation, std::span<const std::byte> bytes,
                           bool is_sketched) {
  const ComponentPass pass = pass_over(observation, bytes, {.digest = true, .sketch = is_sketched});
  observation.digest = pass.digest();
  observation.statistics = statistics(*parse<DType>(observation.dtype), bytes, pass.sums());
  return pass;
}

}  // namespace

void measure(Observation& observation, std::span<const std::byte> bytes) {
  pass_filling(observation, bytes, false);
}

Sketch measure_and_sketch(Observation& observation, std::span<const std::byte> bytes) {
  return {pass_filling(observation, bytes, true).sums().lanes};
}

Sketch sketch_of(const Observation& observation, std::span<const std::byte> bytes) {
  return {pass_over(observation, bytes, {.sketch = true}).sums().lanes};
}

}  // namespace lockstep
