#include "harness/job/observing_switch.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace lockstep {

ObservingSwitch::ObservingSwitch(std::filesystem::path folder, bool is_on, WatchControl& control)
    : folder_(std::move(folder)), is_on_(is_on), control_(control) {
  control_.switch_from(0, is_on);
}

std::string ObservingSwitch::look(std::int64_t step, std::int64_t ahead) {
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

/// Whether the file was there.
bool ObservingSwitch::take(const char* name) const {
  std::error_code missing;
  return std::filesystem::remove(folder_ / name, missing);
}

}  // namespace lockstep
