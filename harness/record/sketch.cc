#include "harness/record/sketch.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <system_error>

#include "harness/record/digest.h"
#include "harness/record/dtype.h"
#include "harness/record/file_header.h"
#include "harness/record/shard_runs.h"
#include "harness/record/splitmix64.h"
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

namespace {

/// How the components of a block of 64 are added: their signs, and the lane of the first one.
struct Block {
  std::uint64_t signs;
  std::size_t lane;
};

Block block_of(std::uint64_t number) {
  const std::uint64_t signs = splitmix64(number * kSplitmixStep);
  return {signs, static_cast<std::size_t>(splitmix64(signs) >> 58)};
}

/// Adds consecutive components, the first of which is component `begin` of the global tensor.
/// `value(i)` is the i-th of them.
template <class Value>
void add_components(std::uint64_t begin, std::size_t count, const Value& value, Sketch& sketch) {
  for (std::size_t i = 0; i < count;) {
    const std::uint64_t at = begin + i;
    const std::size_t first = at % Sketch::kLanes;
    const std::size_t length = std::min(Sketch::kLanes - first, count - i);
    const Block block = block_of(at / Sketch::kLanes);
    for (std::size_t j = first; j < first + length; ++j, ++i) {
      const std::uint64_t sign = (block.signs >> j & 1) << 63;
      const double one = value(i);
      const std::uint64_t bits = std::bit_cast<std::uint64_t>(one);
      constexpr std::uint64_t kExponent = std::uint64_t{0x7ff} << 52;
      const double added = (bits & kExponent) == kExponent ? 0.0 : one;
      sketch.lanes[j ^ block.lane] +=
          std::bit_cast<double>(std::bit_cast<std::uint64_t>(added) ^ sign);
    }
  }
}

void add_bytes(DType component, std::uint64_t begin, std::span<const std::byte> bytes,
               Sketch& sketch) {
  const std::size_t size = item_size(component);
  const std::size_t count = bytes.size() / size;
  if (component == DType::float32) {  // the usual one, without a branch per component
    const auto value = [&](std::size_t i) {
      float one;
      std::memcpy(&one, bytes.data() + i * sizeof one, sizeof one);
      return static_cast<double>(one);
    };
    add_components(begin, count, value, sketch);
    return;
  }
  const auto value = [&](std::size_t i) {
    return component_value(component, bytes.data() + i * size);
  };
  add_components(begin, count, value, sketch);
}

}  // namespace

Sketch sketch_of(const Observation& observation, std::span<const std::byte> bytes) {
  const DType dtype = *parse<DType>(observation.dtype);
  const std::size_t item = item_size(dtype);
  Sketch sketch;
  std::size_t at = 0;
  for (const Run& run : runs_of(observation)) {
    const std::size_t size = static_cast<std::size_t>(run.length) * item;
    add_bytes(component_type(dtype), static_cast<std::uint64_t>(run.begin) * components(dtype),
              bytes.subspan(at, size), sketch);
    at += size;
  }
  return sketch;
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
