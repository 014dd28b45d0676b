#include "harness/checkpoint/zip_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "reports/base/error.h"

namespace lockstep {

namespace {

// Sizes and signatures of the format's records: APPNOTE.TXT of PKWARE, 4.3.
constexpr std::uint64_t kEndSize = 22;
constexpr std::uint64_t kLongestComment = 65535;
constexpr std::uint64_t kLocatorSize = 20;
constexpr std::uint64_t kEnd64Size = 56;
constexpr std::uint64_t kEntrySize = 46;
constexpr std::uint64_t kLocalSize = 30;
constexpr std::string_view kEndMark = "PK\5\6";
constexpr std::string_view kLocatorMark = "PK\6\7";
constexpr std::string_view kEnd64Mark = "PK\6\6";
constexpr std::string_view kEntryMark = "PK\1\2";
constexpr std::string_view kLocalMark = "PK\3\4";
constexpr std::uint64_t kLargestDirectory = std::uint64_t{1} << 26;
/// In place of a number that does not fit, and is in a field of 64 bits.
constexpr std::uint32_t kIn64Bits = 0xffffffff;

template <class T>
T number_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// The directory of an archive, read once.
class ZipDirectory {
 public:
  ZipDirectory(const RegularFile& file, const std::string& path, const ByteRange& range)
      : file_(file), path_(path), range_(range) {}

  void read(std::map<std::string, ByteRange>& members) {
    const ByteRange directory = place();
    if (directory.size > kLargestDirectory) {
      throw refusal(fmt::format("a directory of at most {} bytes", kLargestDirectory),
                    fmt::format("{}", directory.size));
    }
    const std::string entries = bytes(directory.begin, directory.size);
    std::string_view rest = entries;
    while (rest.size() >= kEntrySize && rest.starts_with(kEntryMark)) add_entry(rest, members);
    if (!rest.empty()) throw refusal("a directory of members", "other bytes");
  }

 private:
  Error refusal(std::string_view expected, std::string_view found) const {
    return malformed(
        path_, 0, 0,
        fmt::format("{} in the zip archive at byte {} of torch.save", expected, range_.begin),
        found);
  }

  /// `offset`: in the archive.
  std::string bytes(std::uint64_t offset, std::uint64_t count) const {
    if (offset > range_.size || count > range_.size - offset) {
      throw refusal(fmt::format("records within its {} bytes", range_.size),
                    fmt::format("{} bytes at byte {}", count, offset));
    }
    return file_.read(range_.begin + offset, count);
  }

  ByteRange place() const {
    const std::uint64_t tail_size = std::min(range_.size, kEndSize + kLongestComment);
    const std::string tail = bytes(range_.size - tail_size, tail_size);
    const std::size_t end = tail.rfind(kEndMark);
    if (end == tail.npos || tail.size() - end < kEndSize) {
      throw refusal("the end of an archive", "none");
    }
    const std::uint64_t end_offset = range_.size - tail_size + end;
    if (end_offset >= kLocatorSize) {
      const std::string locator = bytes(end_offset - kLocatorSize, kLocatorSize);
      if (locator.starts_with(kLocatorMark)) return place64(number_at<std::uint64_t>(locator, 8));
    }
    return {number_at<std::uint32_t>(tail, end + 16), number_at<std::uint32_t>(tail, end + 12)};
  }

  ByteRange place64(std::uint64_t offset) const {
    const std::string end = bytes(offset, kEnd64Size);
    if (!end.starts_with(kEnd64Mark)) throw refusal("an end of 64 bits", "other bytes");
    return {number_at<std::uint64_t>(end, 48), number_at<std::uint64_t>(end, 40)};
  }

  void add_entry(std::string_view& rest, std::map<std::string, ByteRange>& members) const {
    const auto flags = number_at<std::uint16_t>(rest, 8);
    const auto method = number_at<std::uint16_t>(rest, 10);
    const std::uint64_t name_size = number_at<std::uint16_t>(rest, 28);
    const std::uint64_t extra_size = number_at<std::uint16_t>(rest, 30);
    const std::uint64_t whole =
        kEntrySize + name_size + extra_size + number_at<std::uint16_t>(rest, 32);
    if (whole > rest.size()) throw refusal("a whole directory", "a part of one");
    const std::string_view name = rest.substr(kEntrySize, name_size);
    if (method != 0 || (flags & 1) != 0) {
      throw refusal("members that are neither compressed nor encrypted", name);
    }
    const std::string_view extra = rest.substr(kEntrySize + name_size, extra_size);
    const std::string_view in_folder = name.substr(name.find('/') + 1);
    if (!members.emplace(in_folder, data_of(rest, extra)).second) {
      throw refusal("every member once", name);
    }
    rest.remove_prefix(whole);
  }

  ByteRange data_of(std::string_view entry, std::string_view extra) const {
    std::uint64_t stored = number_at<std::uint32_t>(entry, 20);
    std::uint64_t size = number_at<std::uint32_t>(entry, 24);
    std::uint64_t offset = number_at<std::uint32_t>(entry, 42);
    std::string_view fields = fields_of_64_bits(extra);
    for (std::uint64_t* const value : {&size, &stored, &offset}) {
      if (*value != kIn64Bits) continue;
      if (fields.size() < sizeof *value) throw refusal("a size of 64 bits", "none");
      *value = number_at<std::uint64_t>(fields, 0);
      fields.remove_prefix(sizeof *value);
    }
    if (stored != size) throw refusal("members of their own size", fmt::format("{}", stored));
    const std::string local = bytes(offset, kLocalSize);
    if (!local.starts_with(kLocalMark)) throw refusal("the header of a member", "other bytes");
    const std::uint64_t begin = offset + kLocalSize + number_at<std::uint16_t>(local, 26) +
                                number_at<std::uint16_t>(local, 28);
    if (begin > range_.size || size > range_.size - begin) {
      throw refusal(fmt::format("members within its {} bytes", range_.size),
                    fmt::format("{} bytes at byte {}", size, begin));
    }
    return {range_.begin + begin, size};
  }

  /// The extra field 1; empty: there is none.
  static std::string_view fields_of_64_bits(std::string_view extra) {
    while (extra.size() >= 4) {
      const auto id = number_at<std::uint16_t>(extra, 0);
      const auto size = number_at<std::uint16_t>(extra, 2);
      extra.remove_prefix(4);
      if (id == 1) return extra.substr(0, size);
      extra.remove_prefix(std::min<std::size_t>(size, extra.size()));
    }
    return {};
  }

  const RegularFile& file_;
  const std::string& path_;
  ByteRange range_;
};

}  // namespace

ZipArchive::ZipArchive(const RegularFile& file, std::string path, const ByteRange& range)
    : path_(std::move(path)) {
  ZipDirectory(file, path_, range).read(members_);
}

ByteRange ZipArchive::member(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) {
    throw malformed(path_, 0, 0, fmt::format("the member {} of an archive of torch.save", name),
                    "none");
  }
  return found->second;
}

}  // namespace lockstep
