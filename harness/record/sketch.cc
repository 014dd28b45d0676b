#include "harness/record/sketch.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <system_error>

#include "harness/record/digest.h"
#include "harness/record/file_header.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

Sketch& Sketch::operator+=(const Sketch& other) {
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] += other.lanes[i];
  return *this;
}

Sketch& Sketch::operator-=(const Sketch& other) {
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] -= other.lanes[i];
  return *this;
}

double norm_of(const Sketch& sketch) { return std::sqrt(product_of(sketch, sketch)); }

double product_of(const Sketch& a, const Sketch& b) {
  return std::inner_product(a.lanes.begin(), a.lanes.end(), b.lanes.begin(), 0.0) /
         ComponentSums::kSketches;
}

std::filesystem::path sketch_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.sketches", rank);
}

namespace {

constexpr FileKind kSketchesKind{"a file of sketches", "lockstep sketches ", "3"};

/// Precedes the sketches of a step. Each sketch follows the number of its row.
struct EntryHeader {
  std::int64_t step = 0;
  std::uint64_t count = 0;
  Digest checksum;  ///< of the bytes that follow
};
constexpr std::size_t kSketchBytes = sizeof(std::int64_t) + sizeof(Sketch);

Digest checksum_of(std::string_view bytes) {
  return digest_run(std::as_bytes(std::span(bytes)), 0);
}

template <class T>
void put(const T& value, std::string& text) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take(std::string_view& text) {
  T value;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

}  // namespace

SketchWriter::SketchWriter(const std::filesystem::path& path, std::string_view identity)
    : file_(path) {
  file_.append(file_header(kSketchesKind, identity));
  bytes_ = kFileHeaderSize;
}

void SketchWriter::append(std::int64_t step, const SketchesOfStep& sketches) {
  std::string body;
  body.reserve(sketches.size() * kSketchBytes);
  for (const auto& [row, sketch] : sketches) {
    put(row, body);
    put(sketch, body);
  }
  std::string entry;
  entry.reserve(sizeof(EntryHeader) + body.size());
  put(EntryHeader{step, sketches.size(), checksum_of(body)}, entry);
  entry += body;
  file_.append(entry);
  bytes_ += entry.size();
}

bool has_sketches(const std::filesystem::path& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  return !missing && size >= kFileHeaderSize;
}

namespace {

struct EntryPlace {
  EntryHeader header;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// The whole entries of a file, in their order.
std::vector<EntryPlace> entries_in(const RegularFile& file) {
  std::vector<EntryPlace> entries;
  for (std::uint64_t at = kFileHeaderSize; at + sizeof(EntryHeader) <= file.size();) {
    const std::string bytes = file.read(at, sizeof(EntryHeader));
    std::string_view rest = bytes;
    const auto header = take<EntryHeader>(rest);
    const std::uint64_t room = (file.size() - at - sizeof(EntryHeader)) / kSketchBytes;
    if (header.count > room) break;  // torn
    entries.push_back({header, at, sizeof(EntryHeader) + header.count * kSketchBytes});
    at += entries.back().bytes;
  }
  return entries;
}

}  // namespace

SketchReader::SketchReader(const std::filesystem::path& path, std::size_t segments) {
  for (std::size_t number = 1; number <= segments; ++number) {
    const auto file = segment_file(path, static_cast<int>(number));
    if (has_sketches(file)) open(file);
  }
}

void SketchReader::open(const std::filesystem::path& path) {
  const RegularFile file(path, kLargestSketches);
  const std::string header = file.read(0, std::min<std::uint64_t>(file.size(), kFileHeaderSize));
  std::string identity = identity_in_header(header, kSketchesKind, path);
  if (!files_.empty() && identity != identity_) {
    throw malformed(path.string(), 0, 0, "sketches of " + identity_, identity);
  }
  identity_ = std::move(identity);
  for (const EntryPlace& entry : entries_in(file)) {
    entries_.emplace(entry.header.step, Entry{files_.size(), entry.offset, entry.header.count});
  }
  files_.push_back(path);
}

std::map<std::int64_t, Sketch> SketchReader::at(std::int64_t step, std::int64_t first_seq) const {
  std::map<std::int64_t, Sketch> sketches;
  const auto [first, last] = entries_.equal_range(step);
  for (auto found = first; found != last; ++found) {
    const Entry& entry = found->second;
    const std::filesystem::path& path = files_[entry.file];
    const RegularFile file(path, kLargestSketches);
    const std::string bytes =
        file.read(entry.offset, sizeof(EntryHeader) + entry.count * kSketchBytes);
    std::string_view rest = bytes;
    const auto header = take<EntryHeader>(rest);
    if (!is_intact(checksum_of(rest), header.checksum)) {
      throw malformed(path.string(), 0, 0,
                      fmt::format("the sketches of step {} as they were written", step),
                      "another checksum");
    }
    while (!rest.empty()) {
      const auto row = take<std::int64_t>(rest);
      sketches[first_seq + row] = take<Sketch>(rest);
    }
  }
  return sketches;
}

void thin_sketches(const std::filesystem::path& path, const KeepsStep& keeps) {
  if (!has_sketches(path)) return;
  const RegularFile file(path, kLargestSketches);
  std::string kept = file.read(0, kFileHeaderSize);
  for (const EntryPlace& entry : entries_in(file)) {
    if (keeps(entry.header.step)) kept += file.read(entry.offset, entry.bytes);
  }
  write_whole_file(path, kept);
}

}  // namespace lockstep
