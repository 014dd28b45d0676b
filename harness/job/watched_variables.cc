#include "harness/job/watched_variables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "reports/base/error.h"
#include "reports/base/installed_path.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Of an installation or a build, which has both in the same places.
fs::path installed(const char* relative) {
  fs::path path = installed_path(relative, {});
  if (path.empty()) throw missing_part(relative, "watch");
  return path;
}

/// "buffers,micro-batches".
std::string in_words(const std::vector<Also>& also) {
  std::string text;
  for (const Also one : also) text += fmt::format("{}{}", text.empty() ? "" : ",", name(one));
  return text;
}

constexpr std::string_view kPythonPath = "PYTHONPATH";

/// The path of Python with the folder of the hook in front.
std::string with_others(std::string hook, const WatchRequest& request) {
  const auto own = std::ranges::find_if(request.variables,
                                        [](const auto& one) { return one.first == kPythonPath; });
  const char* const inherited = std::getenv(kPythonPath.data());
  const std::string others = own != request.variables.end() ? own->second
                             : inherited                    ? inherited
                                                            : "";
  if (!others.empty()) hook += ":" + others;
  return hook;
}

/// Records of torch's flight recorder, in which collectives are counted.
constexpr const char* kRecorder = "TORCH_FR_BUFFER_SIZE";
constexpr const char* kRecords = "2000";

}  // namespace

HookFiles find_hook() {
  return {installed("share/lockstep/python/start"), installed("lib/lockstep/liblockstep_watch.so")};
}

std::vector<std::pair<std::string, std::string>> watched_variables(const WatchRequest& request,
                                                                   const HookFiles& hook,
                                                                   const fs::path& folder,
                                                                   const std::string& job) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"PYTHONPATH", with_others(hook.python.string(), request)},
      {"LOCKSTEP_WATCH_LIBRARY", hook.library.string()},
      {"LOCKSTEP_WATCH_FOLDER", folder.string()},
      {"LOCKSTEP_WATCH_JOB", job},
      {"LOCKSTEP_WATCH_EVERY", std::to_string(request.every)},
      {"LOCKSTEP_WATCH_START", std::to_string(request.start)},
      {"LOCKSTEP_WATCH_UNTIL", std::to_string(request.until)},
      {"LOCKSTEP_WATCH_TENSORS", request.tensors},
      {"LOCKSTEP_WATCH_IGNORE", request.ignore},
      {"LOCKSTEP_WATCH_REPLICAS", request.replicas},
      {"LOCKSTEP_WATCH_DATA", request.has_data ? "1" : ""},
      {"LOCKSTEP_WATCH_MODULES", request.has_modules ? "1" : ""},
      {"LOCKSTEP_WATCH_ALSO", in_words(request.also)},
      {"LOCKSTEP_WATCH_AGREE_EVERY", std::to_string(request.agree_every)},
      {"LOCKSTEP_WATCH_KEEP_BEFORE", request.keeps_before ? "1" : ""},
      {"LOCKSTEP_WATCH_STORE_FIRST", std::to_string(request.store_first)},
      {"LOCKSTEP_WATCH_HISTORY_BYTES", std::to_string(request.history_bytes)},
      {"LOCKSTEP_WATCH_KEEP_BYTES", std::to_string(request.keep_bytes)}};
  if (!request.sources.empty()) {
    variables.emplace_back("LOCKSTEP_WATCH_SOURCES",
                           fmt::format("{}", fmt::join(request.sources, "\n")));
  }
  if (!request.lines.empty()) {
    variables.emplace_back("LOCKSTEP_WATCH_LINES", fs::absolute(request.lines).string());
  }
  if (request.perturbation != 0) {
    variables.emplace_back("LOCKSTEP_WATCH_PERTURB", std::to_string(request.perturbation));
  }
  if (request.seed) variables.emplace_back("LOCKSTEP_WATCH_SEED", std::to_string(*request.seed));
  for (const auto& variable : request.variables) {
    if (variable.first != kPythonPath) variables.push_back(variable);
  }
  if (!std::getenv(kRecorder)) variables.emplace_back(kRecorder, kRecords);
  return variables;
}

}  // namespace lockstep
