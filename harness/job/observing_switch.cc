#include "harness/job/observing_switch.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace lockstep {

ObservingSwitch::ObservingSwitch(std::filesystem::path folder, bool is_on, WatchControl& control)
    : folder_(std::move(folder)), is_on_(is_on), control_(control) {
  control_.switch_from(0, is_on);
}

std::string ObservingSwitch::look(std::int64_t step) {
  const std::int64_t ahead = steps_ahead(step);
  if (step < switched_at_) return "";  // the ranks would forget the switch before
  // Both files: the user changed their mind, and nothing else tells the order.
  const bool has_off = take("off"), has_on = take("on");
  if (has_off == has_on || has_on == is_on_) return "";
  is_on_ = has_on;
  switched_at_ = step + ahead;
  control_.switch_from(switched_at_, is_on_);
  return fmt::format("{} from step {} on", is_on_ ? "steps are observed" : "no step is observed",
                     switched_at_);
}

/// A rank that is told too late would observe other steps than the others.
std::int64_t ObservingSwitch::steps_ahead(std::int64_t step) {
  constexpr std::chrono::seconds kSecond(1);
  const auto now = Clock::now();
  if (now - since_ >= kSecond) {
    per_second_ = step - last_step_;
    last_step_ = step;
    since_ = now;
  }
  return 2 + std::max(per_second_, step - last_step_) / 2;
}

/// Whether the file was there.
bool ObservingSwitch::take(const char* name) const {
  std::error_code missing;
  return std::filesystem::remove(folder_ / name, missing);
}

}  // namespace lockstep
