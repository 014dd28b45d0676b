#include "harness/record/new_job.h"

#include <fmt/format.h>

#include <random>

#include "harness/record/environment.h"
#include "harness/record/run_folder.h"
#include "reports/base/secrets.h"

namespace lockstep {

namespace {

/// Not reproducible on purpose: it distinguishes jobs whose files may be mixed up.
std::string drawn_id() {
  std::random_device device;
  return fmt::format("{:06x}", device() & 0xffffff);
}

}  // namespace

std::vector<Claim> claims_of_jobs(std::int64_t agree_every) {
  if (agree_every > 0) {
    return {agree_periodically(Kind::parameter, Phase::pre_forward),
            stay_finite(Kind::parameter, Phase::post_step), ranks_finish()};
  }
  return {agree_across_ranks(Kind::parameter, Phase::pre_forward),
          agree_across_ranks(Kind::gradient, Phase::pre_step),
          agree_across_ranks(Kind::parameter, Phase::post_step),
          stay_finite(Kind::parameter, Phase::post_step), ranks_finish()};
}

RunRecord record_of_new_job(const std::string& title, std::int64_t agree_every) {
  RunRecord run;
  run.environment = describe_environment(utc_now());
  JobRecord& job = run.jobs.emplace_back();
  job.id = drawn_id();
  job.title = mask_secrets(title);
  job.folder = kJobFolder;
  job.agree_every = agree_every;
  job.claims = claims_of_jobs(agree_every);
  run.planned = counts_of(run);
  return run;
}

std::string folder_of_attempt(const std::string& first, int number) {
  return number == 1 ? first : fmt::format("{}-{}", first, number);
}

JobRecord attempt_of(const JobRecord& first, int number) {
  JobRecord attempt = first;
  if (number == 1) return attempt;
  attempt.manifest.reset();
  attempt.id = fmt::format("{}-{}", first.id, number);
  attempt.folder = folder_of_attempt(first.folder, number);
  return attempt;
}

JobRecord with_attempts(const JobRecord& first, int count) {
  JobRecord last = attempt_of(first, count);
  for (int number = 1; number < count; ++number) {
    last.earlier_attempts.push_back(attempt_of(first, number));
  }
  return last;
}

}  // namespace lockstep
