#include "harness/diff/precision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/record/dtype.h"

namespace lockstep {

namespace {

/// Of tensor cores that read float32: they keep 11 bits of the significand.
constexpr double kRoundoffOfTf32 = 1.0 / (1 << 11);

double roundoff_by(const Precision& one) {
  if (one.dtype == "tf32") return kRoundoffOfTf32;
  const auto dtype = parse<DType>(one.dtype);
  return dtype ? unit_roundoff(component_type(*dtype)) : 0;
}

/// "bfloat16", or "bfloat16 from step 3 on", by operation.
using Types = std::map<std::string, std::set<std::string>>;

Types types_of(const JobRecord& job) {
  Types types;
  for (const Precision& one : job.precisions) {
    types[one.operation].insert(one.first_step <= 1
                                    ? one.dtype
                                    : fmt::format("{} from step {} on", one.dtype, one.first_step));
  }
  return types;
}

std::string in_words(const Types& types, const std::string& operation) {
  const auto found = types.find(operation);
  return found == types.end() ? "absent" : fmt::format("{}", fmt::join(found->second, " and "));
}

}  // namespace

double computed_roundoff(const JobRecord& job, std::int64_t step) {
  double coarsest = 0;
  for (const Precision& one : job.precisions) {
    if (one.first_step <= step) coarsest = std::max(coarsest, roundoff_by(one));
  }
  return coarsest;
}

std::vector<std::string> differing_precisions(const JobRecord& a, const JobRecord& b) {
  const Types of_a = types_of(a), of_b = types_of(b);
  std::set<std::string> operations;
  for (const Types* types : {&of_a, &of_b}) {
    for (const auto& [operation, ignored] : *types) operations.insert(operation);
  }
  std::vector<std::string> differing;
  for (const std::string& operation : operations) {
    const std::string in_a = in_words(of_a, operation), in_b = in_words(of_b, operation);
    if (in_a == in_b) continue;
    differing.push_back(fmt::format("{} is {} in A and {} in B", operation, in_a, in_b));
  }
  return differing;
}

}  // namespace lockstep
