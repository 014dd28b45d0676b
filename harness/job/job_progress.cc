#include "harness/job/job_progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "reports/base/terminal.h"

namespace lockstep {

namespace {

constexpr std::chrono::minutes kBetweenLines(1);

/// The console of Linux has no title, and older ones would print it.
bool has_titles() {
  const char* const kind = std::getenv("TERM");
  return !kind || std::string_view(kind) != "linux";
}

void write(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

JobProgress::JobProgress(Clock::time_point now)
    : is_terminal_(terminal_of(STDERR_FILENO).obeys_escapes),
      has_titles_(is_terminal_ && lockstep::has_titles()),
      printed_(now) {}

JobProgress::~JobProgress() {
  if (!title_.empty()) write("\033[23;2t");
}

void JobProgress::show(const std::string& text, Clock::time_point now) {
  if (has_titles_ && text != title_) show_in_title(text);
  if (text == line_ || now - printed_ < kBetweenLines) return;
  line_ = text;
  printed_ = now;
  // The job may be in the middle of a line, such as a bar.
  write(fmt::format("{}{}\n", is_terminal_ ? "\n" : "", text));
}

void JobProgress::show_in_title(const std::string& text) {
  write(fmt::format("{}\033]2;{}\033\\", title_.empty() ? "\033[22;2t" : "", text));
  title_ = text;
}

}  // namespace lockstep
