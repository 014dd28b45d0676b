#include "harness/record/file_header.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/base/error.h"
#include "reports/base/regular_file.h"

namespace lockstep {

std::string file_header(const FileKind& kind, std::string_view identity) {
  std::string header = fmt::format("{}{}\n{}\n", kind.begin, kind.version, identity);
  header.resize(kFileHeaderSize);
  return header;
}

std::string identity_in_header(std::string_view text, const FileKind& kind,
                               const std::filesystem::path& path) {
  const std::string_view header = text.substr(0, kFileHeaderSize);
  const std::size_t end_of_version = std::min(header.find('\n'), header.size());
  const std::size_t end = header.find('\n', end_of_version + 1);
  if (header.size() < kFileHeaderSize || !header.starts_with(kind.begin) || end == header.npos) {
    throw malformed(path.string(), 0, 0, fmt::format("the header of {}", kind.what),
                    header.substr(0, 32));
  }
  const std::size_t begin = kind.begin.size();
  const std::string_view version = header.substr(begin, end_of_version - begin);
  if (version != kind.version) throw other_version(path.string(), kind.what, version, kind.version);
  return std::string(header.substr(end_of_version + 1, end - end_of_version - 1));
}

void require_version(const std::filesystem::path& path, const FileKind& kind,
                     std::uint64_t most_bytes) {
  constexpr std::uint64_t kLongestShown = 128;
  const RegularFile file(path, most_bytes);
  const std::string text = file.read(0, std::min(file.size(), kLongestShown));
  if (!text.starts_with(kind.begin)) {
    throw malformed(path.string(), 1, 0, fmt::format("the header of {}", kind.what),
                    text.substr(0, std::min<std::size_t>(text.find('\n'), 32)));
  }
  std::string_view version = std::string_view(text).substr(kind.begin.size());
  version = version.substr(0, version.find_first_of(",\r\n"));
  if (version != kind.version) throw other_version(path.string(), kind.what, version, kind.version);
}

}  // namespace lockstep
