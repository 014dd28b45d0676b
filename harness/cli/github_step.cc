#include "harness/cli/github_step.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "harness/cli/standard_output.h"
#include "harness/record/whole_file.h"
#include "reports/base/plain_text.h"
#include "reports/formats/annotations.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// GitHub drops a summary of more bytes as a whole.
constexpr std::uint64_t kMostOfASummary = 1024UL * 1024;

std::string github_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

void complain_about(const std::string& file, std::string_view why) {
  std::fputs(
      fmt::format("lockstep: the summary of the job was not written to {}: {}\n", plain(file), why)
          .c_str(),
      stderr);
}

/// The page that fits in `room` bytes; empty: none does.
std::string page_for(const RunRecord& run, std::uint64_t room) {
  std::string page = render_github(run);
  if (page.size() > room) page = render_markdown(run);
  return page.size() > room ? "" : page;
}

/// Earlier commands of the step may have written to the file.
void append_summary(const RunRecord& run, const std::string& file) {
  std::error_code missing;
  const std::uint64_t size = fs::file_size(file, missing);
  const std::uint64_t used = (missing ? 0 : size) + 1;
  const std::string page =
      page_for(run, used < kMostOfASummary ? kMostOfASummary - used : std::uint64_t{0});
  if (page.empty()) return complain_about(file, "it is full (GitHub shows at most 1 MiB)");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "ae"),
                                                               std::fclose);
  if (!stream) return complain_about(file, std::strerror(errno));
  const std::string text = (missing || size == 0 ? "" : "\n") + page;
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stream.get()) == text.size();
  if (!is_written || std::fflush(stream.get()) != 0) complain_about(file, std::strerror(errno));
}

}  // namespace

bool show_in_github_step(const RunRecord& run, const std::optional<KnownFindings>& known,
                         std::FILE* log) {
  if (github_variable("GITHUB_ACTIONS") == "true") {
    std::fputs(annotations(without_known(run, known)).c_str(), log);
    std::fflush(log);
  }
  const std::string file = github_variable("GITHUB_STEP_SUMMARY");
  if (!file.empty()) append_summary(run, file);
  return !file.empty();
}

void print_in_format(const Renderer& renderer, const RunRecord& run,
                     const std::optional<KnownFindings>& known) {
  if (renderer.format == "github" && show_in_github_step(run, known, stdout)) return;
  write_standard_output(renderer.render(run));
}

std::optional<Error> write_reports(const std::vector<const Renderer*>& renderers,
                                   const RunRecord& run, const std::string& folder,
                                   const std::optional<KnownFindings>& known, std::FILE* log) {
  std::optional<Error> first;
  for (const Renderer* renderer : renderers) {
    try {
      write_whole_file(fs::path(folder) / renderer->file, renderer->render(run));
    } catch (const Error& error) {
      if (!first) first = error;
    }
    if (renderer->format == "github") show_in_github_step(run, known, log);
  }
  return first;
}

}  // namespace lockstep
