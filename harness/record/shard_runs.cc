#include "harness/record/shard_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "reports/base/error.h"

namespace lockstep {

namespace {

/// First element, in global order, of run `number`; `outer` dimensions number the runs.
std::int64_t global_start(const ObservedTensor& part, std::size_t outer, std::int64_t number) {
  std::int64_t start = 0;
  std::int64_t stride = 1;
  for (std::size_t i = part.local_shape.size(); i-- > 0;) {
    std::int64_t index = part.offset[i];
    if (i < outer) {
      index += number % part.local_shape[i];
      number /= part.local_shape[i];
    }
    start += index * stride;
    stride *= part.global_shape[i];
  }
  return start;
}

}  // namespace

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  // The other sizes of an empty tensor may be any, and their product too large.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

namespace {

bool is_inside(const ObservedTensor& part) {
  const std::size_t dimensions = part.local_shape.size();
  if (dimensions != part.global_shape.size() || dimensions != part.offset.size()) return false;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::int64_t size = part.local_shape[i];
    const std::int64_t offset = part.offset[i];
    if (size < 0 || offset < 0 || offset > part.global_shape[i] - size) return false;
  }
  return true;
}

}  // namespace

void require_inside(const ObservedTensor& part) {
  if (is_inside(part)) return;
  throw internal_error(
      fmt::format("a shard of shape [{}] at offset [{}] does not fit the global shape [{}]",
                  fmt::join(part.local_shape, ", "), fmt::join(part.offset, ", "),
                  fmt::join(part.global_shape, ", ")));
}

std::vector<std::int64_t> index_of(std::int64_t number, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = number % shape[d];
    number /= shape[d];
  }
  return index;
}

namespace {

/// Layout of a part's elements: the dimensions that number its runs, and the length of each run.
struct RunShape {
  std::size_t outer = 0;
  std::int64_t length = 1;
};

RunShape run_shape_of(const ObservedTensor& tensor) {
  const std::vector<std::int64_t>& shape = tensor.local_shape;
  if (element_count(shape) == 0) return {shape.size(), 0};
  RunShape run{shape.size(), 1};
  bool is_whole = true;  // all dimensions after `outer`
  while (run.outer > 0 && is_whole) {
    --run.outer;
    run.length *= shape[run.outer];
    is_whole = shape[run.outer] == tensor.global_shape[run.outer];
  }
  return run;
}

}  // namespace

std::int64_t number_of_runs(const ObservedTensor& tensor) {
  const std::int64_t elements = element_count(tensor.local_shape);
  return elements == 0 ? 0 : elements / run_shape_of(tensor).length;
}

std::vector<Run> runs_of(const Observation& observation) {
  const RunShape run = run_shape_of(observation);
  std::vector<Run> runs;
  const std::int64_t count = number_of_runs(observation);
  for (std::int64_t number = 0; number < count; ++number) {
    runs.push_back({global_start(observation, run.outer, number), run.length});
  }
  return runs;
}

std::optional<RegularRuns> regular_runs_of(const ObservedTensor& part) {
  const RunShape run = run_shape_of(part);
  RegularRuns runs{{0, run.length}, 0, number_of_runs(part)};
  if (runs.count == 0) return runs;
  runs.first.begin = global_start(part, run.outer, 0);
  if (runs.count == 1) return runs;
  runs.stride = global_start(part, run.outer, 1) - runs.first.begin;
  std::int64_t number = 1;  // of the run after the first one along dimension i
  for (std::size_t i = run.outer; i-- > 0; number *= part.local_shape[i]) {
    if (part.local_shape[i] == 1) continue;
    const std::int64_t begin = global_start(part, run.outer, number);
    if (begin != runs.first.begin + number * runs.stride) return std::nullopt;
  }
  return runs;
}

Digest digest_of_part(const Observation& observation, std::span<const std::byte> bytes,
                      std::size_t element_size) {
  Digest sum;
  std::size_t at = 0;
  for (const Run& run : runs_of(observation)) {
    const std::size_t size = static_cast<std::size_t>(run.length) * element_size;
    sum +=
        digest_run(bytes.subspan(at, size), static_cast<std::uint64_t>(run.begin) * element_size);
    at += size;
  }
  return sum;
}

}  // namespace lockstep
