#include "reports/formats/forge_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace lockstep {

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr std::string_view kOfAddress =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:/";

/// Empty: it is not set, or has other characters, which could be Markdown.
std::string variable_of(const RunEnvironment& environment, std::string_view name,
                        std::string_view allowed) {
  const auto found = std::find_if(environment.variables.begin(), environment.variables.end(),
                                  [&](const auto& one) { return one.first == name; });
  if (found == environment.variables.end()) return "";
  return found->second.find_first_not_of(allowed) == std::string::npos ? found->second : "";
}

}  // namespace

std::string forge_links(const RunEnvironment& environment) {
  constexpr std::size_t kShortCommit = 8;
  const std::string server = variable_of(environment, "GITHUB_SERVER_URL", kOfAddress);
  const std::string repository = variable_of(environment, "GITHUB_REPOSITORY", kOfAddress);
  if (!server.starts_with("https://") || repository.empty()) return "";
  std::string links;
  if (const auto commit = variable_of(environment, "GITHUB_SHA", kHexadecimal); !commit.empty()) {
    links = fmt::format("[commit {}]({}/{}/commit/{})", commit.substr(0, kShortCommit), server,
                        repository, commit);
  }
  if (const auto run = variable_of(environment, "GITHUB_RUN_ID", kDigits); !run.empty()) {
    links += fmt::format("{}[artifacts]({}/{}/actions/runs/{}#artifacts)",
                         links.empty() ? "" : " · ", server, repository, run);
  }
  return links;
}

}  // namespace lockstep
