#include "harness/job/process_notes.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/record/rank_stack.h"
#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"
#include "reports/base/secrets.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kLargestNote = 1 << 20;

/// Passes what processes of a job noted before they ended to `take`. Of a process that was killed
/// meanwhile a part is there, which says nothing.
void for_each_note(const std::filesystem::path& folder, std::string_view ending,
                   const std::function<void(const nlohmann::json&)>& take) {
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("process-") || !name.ends_with(ending)) continue;
    try {
      take(nlohmann::json::parse(read_text(entry.path().string(), kLargestNote)));
    } catch (const std::exception&) {
      continue;
    }
  }
}

}  // namespace

std::map<std::int64_t, ErrorWithoutStep> errors_without_step(const std::filesystem::path& folder) {
  std::map<std::int64_t, ErrorWithoutStep> errors;
  for_each_note(folder, ".error.json", [&](const nlohmann::json& note) {
    errors[whole_number<std::int64_t>(note, "process")] = {
        note.at("rank"), mask_secrets(note.at("error").get<std::string>()),
        mask_secrets(note.at("place").get<std::string>()), stack_in(note.at("stack"))};
  });
  return errors;
}

std::string first_error(const std::map<std::int64_t, ErrorWithoutStep>& errors) {
  const auto first = std::ranges::min_element(errors, {}, [](const auto& one) {
    return std::pair(one.second.rank.empty(), std::string_view(one.second.rank));
  });
  return first == errors.end() ? "" : first->second.error;
}

Reach reach_of_processes(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "watch.loaded";
  std::error_code failure;
  if (!std::filesystem::exists(file, failure)) return Reach::no_python;
  try {
    const std::string lines = read_text(file, kLargestNote);
    return lines.find("torch\n") < lines.npos ? Reach::no_step : Reach::no_torch;
  } catch (const Error&) {
    return Reach::unknown;
  }
}

std::map<std::int64_t, int> signals_of_processes(const std::filesystem::path& folder) {
  std::map<std::int64_t, int> signals;
  for_each_note(folder, ".signal.json", [&](const nlohmann::json& note) {
    const int signal = whole_number<int>(note, "signal");
    signals[whole_number<std::int64_t>(note, "process")] = signal;
  });
  return signals;
}

}  // namespace lockstep
