#include "reports/formats/forge_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace lockstep {

namespace {

/// Characters of an address that begins with https and is no markup.
bool is_address(std::string_view text) {
  return text.starts_with("https://") && std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) ||
                  std::string_view("-._~:/").find(c) != std::string_view::npos;
         });
}

std::string variable_of(const RunEnvironment& environment, std::string_view wanted) {
  for (const auto& [variable, value] : environment.variables) {
    if (variable == wanted) return value;
  }
  return "";
}

}  // namespace

std::string forge_commit(const RunEnvironment& environment) {
  return variable_of(environment, "GITHUB_SHA");
}

std::string forge_address(const RunEnvironment& environment, const std::string& page) {
  const std::string server = variable_of(environment, "GITHUB_SERVER_URL");
  const std::string repository = variable_of(environment, "GITHUB_REPOSITORY");
  std::string address = fmt::format("{}/{}/{}", server, repository, page);
  return repository.empty() || !is_address(address) ? "" : address;
}

std::string forge_links(const RunEnvironment& environment) {
  constexpr std::size_t kShortCommit = 8;
  const std::string commit = forge_commit(environment);
  const std::string run = variable_of(environment, "GITHUB_RUN_ID");
  const std::string of_commit = forge_address(environment, "commit/" + commit);
  const std::string of_run = forge_address(environment, "actions/runs/" + run);
  std::string links;
  if (!commit.empty() && !of_commit.empty()) {
    links = fmt::format("[commit {}]({})", commit.substr(0, kShortCommit), of_commit);
  }
  if (!run.empty() && !of_run.empty()) {
    links += fmt::format("{}[artifacts]({}#artifacts)", links.empty() ? "" : " · ", of_run);
  }
  return links;
}

}  // namespace lockstep
