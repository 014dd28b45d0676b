#include "harness/verdict/bystander_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "harness/judge/values/whole_copies.h"
#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// Whether ranks hold a whole parameter of these bits.
bool hold(const std::string& digest, const StepView& step, const RowsOfRanks& rows) {
  Observation whole = *rows.begin()->second;
  whole.local_shape = whole.global_shape;
  return std::ranges::any_of(whole_copies(step, rows, whole),
                             [&](const WholeCopy& copy) { return to_text(copy.digest) == digest; });
}

std::string moment_in_words(std::int64_t after) {
  return after > 0 ? fmt::format("after step {}", after) : "before step 1";
}

/// "its 4 parameters are those of the others after step 5". `after`: at least one.
std::string copies_in_words(const std::map<std::string, std::int64_t>& after, std::int64_t last,
                            const char* whose) {
  const auto oldest =
      std::ranges::min_element(after, {}, [](const auto& copy) { return copy.second; });
  const auto behind =
      std::ranges::count_if(after, [&](const auto& copy) { return copy.second < last; });
  const std::string all = fmt::format("{} {}", whose, counted(after.size(), "parameter"));
  if (behind == 0) {
    return fmt::format("{} {} of the others {}", all, after.size() > 1 ? "are those" : "is that",
                       moment_in_words(last));
  }
  const bool are_all = static_cast<std::size_t>(behind) == after.size();
  return fmt::format("{} {} of the others {}, not {}",
                     are_all ? all : fmt::format("{} of {} ({})", behind, all, oldest->first),
                     behind > 1 ? "are those" : "is that", moment_in_words(oldest->second),
                     moment_in_words(last));
}

}  // namespace

BystanderCopies::BystanderCopies(const JobRecord& job) : job_(job), after_(job.bystanders.size()) {}

bool BystanderCopies::wants(std::int64_t /*step*/) const { return !job_.copies.empty(); }

void BystanderCopies::see(const StepView& step) {
  if (last_ == 0) see(step, Phase::pre_forward, step.number() - 1);
  see(step, Phase::post_step, step.number());
  last_ = step.number();
}

void BystanderCopies::see(const StepView& step, Phase phase, std::int64_t after) {
  const auto parameters = last_rows_of(step, Kind::parameter, phase);
  for (const auto& [name, rows] : parameters) {
    if (phase == Phase::post_step) trained_.insert(name);
  }
  for (const Setting& copy : job_.copies) {
    const auto rows = parameters.find(copy.name);
    if (rows == parameters.end() || !hold(copy.value, step, rows->second)) continue;
    for (std::size_t i = 0; i < after_.size(); ++i) {
      if (std::ranges::binary_search(copy.ranks, job_.bystanders[i])) after_[i][copy.name] = after;
    }
  }
}

BystanderCopies::StepsByName BystanderCopies::trained_of(const StepsByName& after) const {
  StepsByName trained = after;
  std::erase_if(trained, [this](const auto& copy) { return !trained_.contains(copy.first); });
  return trained;
}

std::vector<std::string> BystanderCopies::notes() const {
  if (job_.bystanders.size() == static_cast<std::size_t>(job_.world_size)) return {};
  std::map<StepsByName, std::vector<int>> ranks;
  for (std::size_t i = 0; i < after_.size(); ++i) {
    ranks[trained_of(after_[i])].push_back(job_.bystanders[i]);
  }
  std::vector<std::string> notes;
  const bool are_left_out = training_ranks(job_) < job_.world_size;
  for (const auto& [after, alike] : ranks) {
    const bool is_one = alike.size() == 1;
    std::string note =
        fmt::format("{} {} no optimizer", ranks_in_words(alike), is_one ? "has" : "have");
    if (are_left_out) note += is_one ? ", and is not compared" : ", and are not compared";
    if (!after.empty()) note += ": " + copies_in_words(after, last_, is_one ? "its" : "their");
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace lockstep
