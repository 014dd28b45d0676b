#include "harness/job/expected_error.h"

#include <re2/re2.h>

#include <algorithm>

namespace lockstep {

namespace {

re2::RE2::Options quiet() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_dot_nl(true);  // an error has several lines
  return options;
}

}  // namespace

std::string fault_in_pattern(const std::string& pattern) {
  const re2::RE2 compiled(pattern, quiet());
  return compiled.ok() ? "" : compiled.error();
}

bool has_expected_error(const JobRecord& job) {
  if (job.demands.expected != ExpectedOutcome::raises) return false;
  const re2::RE2 pattern(job.demands.error, quiet());
  const auto is_expected = [&](const std::string& error) {
    return !error.empty() && re2::RE2::PartialMatch(error, pattern);
  };
  return is_expected(job.command_error) ||
         std::any_of(job.exits.begin(), job.exits.end(), [&](const RankExit& end) {
           return end.kind == ExitKind::raised && end.cause != ExitCause::lost_peer &&
                  is_expected(end.error);
         });
}

}  // namespace lockstep
