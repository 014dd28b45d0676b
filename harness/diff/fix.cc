#include "harness/diff/fix.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/diff/diff_words.h"

namespace lockstep {

FixOutcome outcome_of_fix(const DiffRecord& before, const DiffRecord& after) {
  const bool was_there = verdict_of(before) == Verdict::violated;
  const Verdict now = verdict_of(after);
  if (now == Verdict::violated) {
    return was_there ? FixOutcome::still_there : FixOutcome::new_fault;
  }
  if (!was_there) return FixOutcome::not_shown;
  return now == Verdict::holds ? FixOutcome::fixed : FixOutcome::not_decided;
}

std::string fix_in_words(const DiffRecord& before, const DiffRecord& after) {
  const FixOutcome outcome = outcome_of_fix(before, after);
  if (outcome == FixOutcome::not_decided) return verdict_in_words(after);
  if (outcome == FixOutcome::not_shown) {
    return "NOT SHOWN BEFORE THE FIX: " + verdict_in_words(before);
  }
  return fmt::format("{}: {}", name(outcome), verdict_in_words(after));
}

std::string fix_in_json(const DiffRecord& before, const DiffRecord& after) {
  using Json = nlohmann::ordered_json;
  const Json json = {{"schema", "lockstep.fix"},
                     {"version", "1.0"},
                     {"outcome", name(outcome_of_fix(before, after))},
                     {"sentence", fix_in_words(before, after)},
                     {"before", Json::parse(diff_in_json(before))},
                     {"after", Json::parse(diff_in_json(after))}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
