#include "harness/record/sketch.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <system_error>

#include "harness/record/digest.h"
#include "harness/record/file_header.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

Sketch& Sketch::operator+=(const Sketch& other) {
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] += other.lanes[i];
  return *this;
}

Sketch& Sketch::operator-=(const Sketch& other) {
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] -= other.lanes[i];
  return *this;
}

double norm_of(const Sketch& sketch) { return std::sqrt(product_of(sketch, sketch)); }

double product_of(const Sketch& a, const Sketch& b) {
  return std::inner_product(a.lanes.begin(), a.lanes.end(), b.lanes.begin(), 0.0);
}

std::filesystem::path sketch_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.sketches", rank);
}

namespace {

constexpr std::string_view kMagic = "lockstep sketches 1\n";

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
  file_.append(file_header(kMagic, identity));
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

SketchReader::SketchReader(std::filesystem::path path) : path_(std::move(path)) {
  const RegularFile file(path_, kLargestSketches);
  const std::string header = file.read(0, std::min<std::uint64_t>(file.size(), kFileHeaderSize));
  identity_ = identity_in_header(header, kMagic, path_, "sketches");
  for (std::uint64_t at = kFileHeaderSize; at + sizeof(EntryHeader) <= file.size();) {
    const std::string bytes = file.read(at, sizeof(EntryHeader));
    std::string_view rest = bytes;
    const auto entry = take<EntryHeader>(rest);
    const std::uint64_t room = (file.size() - at - sizeof(EntryHeader)) / kSketchBytes;
    if (entry.count > room) break;  // torn
    entries_.emplace(entry.step, std::pair{at, entry.count});
    at += sizeof(EntryHeader) + entry.count * kSketchBytes;
  }
}

std::map<std::int64_t, Sketch> SketchReader::at(std::int64_t step) const {
  std::map<std::int64_t, Sketch> sketches;
  const auto [first, last] = entries_.equal_range(step);
  if (first == last) return sketches;
  const RegularFile file(path_, kLargestSketches);
  for (auto entry = first; entry != last; ++entry) {
    const auto [offset, count] = entry->second;
    const std::string bytes = file.read(offset, sizeof(EntryHeader) + count * kSketchBytes);
    std::string_view rest = bytes;
    const auto header = take<EntryHeader>(rest);
    if (checksum_of(rest) != header.checksum) {
      throw malformed(path_.string(), 0, 0,
                      fmt::format("the sketches of step {} as they were written", step),
                      "another checksum");
    }
    while (!rest.empty()) {
      const auto row = take<std::int64_t>(rest);
      sketches[row] = take<Sketch>(rest);
    }
  }
  return sketches;
}

}  // namespace lockstep
