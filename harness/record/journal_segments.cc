#include "harness/record/journal_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "harness/record/journal_format.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kChunk = 4 * kMebibyte;

std::int64_t step_of(std::string_view line, const std::filesystem::path& path) {
  std::int64_t step = 0;
  const char* const end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, step);
  if (error == std::errc() && stop != end && *stop == ',') return step;
  throw malformed(path.string(), 0, 1, "a row that begins with its step", line.substr(0, 32));
}

}  // namespace

std::filesystem::path segment_file(const std::filesystem::path& first, int number) {
  if (number == 1) return first;
  std::filesystem::path name = first;
  const std::string ending = first.extension().string();
  return name.replace_extension(fmt::format("segment-{}{}", number, ending));
}

int count_segments(const std::filesystem::path& first) {
  int count = 0;
  std::error_code missing;
  while (std::filesystem::exists(segment_file(first, count + 1), missing)) ++count;
  return count;
}

void thin_journal(const std::filesystem::path& segment, const KeepsStep& keeps) {
  const JournalHeader header = read_journal_header(segment);
  if (header.is_thinned) return;
  const RegularFile file(segment, kLargestJournal);
  std::string kept = thinned_journal_header(file.read(0, header.bytes));
  std::string open;  // the begin of a line
  for (std::uint64_t at = header.bytes; at < file.size(); at += kChunk) {
    open += file.read(at, std::min(kChunk, file.size() - at));
    std::string_view rest = open;
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      const std::string_view line = rest.substr(0, end + 1);
      if (keeps(step_of(line, segment))) kept += line;
      rest.remove_prefix(line.size());
    }
    open = rest;
  }
  if (!open.empty()) {
    throw malformed(segment.string(), 0, 0, "whole rows in a segment that has ended",
                    open.substr(0, 32));
  }
  write_whole_file(segment, kept);
}

}  // namespace lockstep
