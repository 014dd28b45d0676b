#include "harness/record/snapshots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kIdentity = "process";
constexpr std::size_t kLengthSize = 8;
constexpr int kDeepestHeader = 4;  // lists of numbers in named entries need less

// safetensors' names of the directly stored types, in the order of DType.
constexpr std::array<std::string_view, 10> kStoredNames{"F32", "F64", "F16", "BF16", "I8",
                                                        "I16", "I32", "I64", "U8",   "BOOL"};

std::string_view stored_name(DType component) {
  return kStoredNames.at(static_cast<std::size_t>(component));
}

std::optional<DType> stored_type(std::string_view name) {
  const auto at = std::find(kStoredNames.begin(), kStoredNames.end(), name);
  if (at == kStoredNames.end()) return std::nullopt;
  return static_cast<DType>(at - kStoredNames.begin());
}

bool is_complex(DType dtype) { return components(dtype) == 2; }

// Bytes of a tensor; empty if they exceed 64 bits.
std::optional<std::uint64_t> byte_size(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t size = item_size(dtype);
  for (const std::int64_t length : shape) {
    if (__builtin_mul_overflow(size, length, &size)) return std::nullopt;
  }
  return size;
}

Json header_of(const std::map<std::string, SnapshotTensor>& tensors, std::string_view identity) {
  Json header = Json::object();
  if (!identity.empty()) header[std::string(kMetadata)][std::string(kIdentity)] = identity;
  std::uint64_t begin = 0;
  for (const auto& [key, tensor] : tensors) {
    if (byte_size(tensor.dtype, tensor.shape) != tensor.bytes.size()) {
      throw internal_error(fmt::format("'{}' has other bytes than its shape says", key));
    }
    std::vector<std::int64_t> shape = tensor.shape;
    if (is_complex(tensor.dtype)) {
      shape.push_back(2);
      header[std::string(kMetadata)][key] = name(tensor.dtype);
    }
    const std::uint64_t end = begin + tensor.bytes.size();
    header[key] = {{"dtype", stored_name(component_type(tensor.dtype))},
                   {"shape", shape},
                   {"data_offsets", {begin, end}}};
    begin = end;
  }
  return header;
}

// Reads one file; every error names it.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : path_(path.string()), file_(path, kLargestSnapshot) {}

  Snapshot read() {
    const Json header = parse_header(read_header());
    const std::map<std::string, std::string> metadata = read_metadata(header);
    std::map<std::string, ByteRange> places;
    for (const auto& [key, entry] : header.items()) {
      if (key != kMetadata) places[key] = place(key, entry);
    }
    require_tiling(places);
    Snapshot values;
    for (const auto& [key, where] : places) {
      values.tensors[key] = tensor(key, header.at(key), where);
    }
    for (const auto& [key, dtype] : metadata) restore_complex(key, dtype, values.tensors);
    const auto identity = metadata.find(std::string(kIdentity));
    if (identity != metadata.end()) values.identity = identity->second;
    return values;
  }

 private:
  Error refusal(std::string_view expected, std::string_view found) const {
    return malformed(path_, 0, 0, expected, found);
  }

  /// Position of a tensor in the data section.
  struct ByteRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    auto operator<=>(const ByteRange&) const = default;
  };

  std::string read_header() {
    const std::uint64_t size = file_.size();
    if (size < kLengthSize) {
      throw refusal("a safetensors file of at least 8 bytes", fmt::format("{} bytes", size));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, file_.read(0, kLengthSize).data(), kLengthSize);
    if (length > std::min(size - kLengthSize, kLargestSnapshotHeader)) {
      throw refusal(fmt::format("a header within the {} bytes of the file, of {} at most", size,
                                kLargestSnapshotHeader),
                    fmt::format("a header length of {}", length));
    }
    data_begin_ = kLengthSize + length;
    data_size_ = size - data_begin_;
    return file_.read(kLengthSize, length);
  }

  Json parse_header(const std::string& text) const {
    std::vector<std::set<std::string>> keys;
    const auto unique_keys = [&](int depth, Json::parse_event_t event, Json& parsed) {
      // Nested JSON is copied and printed recursively, on the stack.
      if (depth > kDeepestHeader) throw refusal("a header of tensors", text);
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(parsed).second) {
        throw refusal("every key once in the header", parsed.get<std::string>() + " twice");
      }
      return true;
    };
    Json header;
    try {
      header = Json::parse(text, unique_keys);
    } catch (const Json::exception&) {
      throw refusal("a header in JSON", text);
    }
    if (!header.is_object()) throw refusal("a JSON object as header", text);
    return header;
  }

  std::map<std::string, std::string> read_metadata(const Json& header) const {
    if (!header.contains(kMetadata)) return {};
    try {
      return header.at(std::string(kMetadata)).get<std::map<std::string, std::string>>();
    } catch (const Json::exception&) {
      throw refusal("strings by name as __metadata__", header.at(std::string(kMetadata)).dump());
    }
  }

  template <class T>
  T field(const std::string& key, const Json& entry, const char* name,
          std::string_view expected) const {
    try {
      return entry.at(name).get<T>();
    } catch (const Json::exception&) {
      throw refusal(fmt::format("{} as {} of '{}'", expected, name, key), entry.dump());
    }
  }

  std::vector<std::uint64_t> wholes(const std::string& key, const Json& entry,
                                    const char* name) const {
    const std::string_view expected = "a list of whole numbers";
    const Json list = field<Json>(key, entry, name, expected);
    const bool fit =
        list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& item) {
          return item.is_number_unsigned() && item.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
        });
    if (!fit) throw refusal(fmt::format("{} as {} of '{}'", expected, name, key), list.dump());
    return list.get<std::vector<std::uint64_t>>();
  }

  ByteRange place(const std::string& key, const Json& entry) const {
    const std::vector<std::uint64_t> offsets = wholes(key, entry, "data_offsets");
    const bool fit = offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data_size_;
    if (!fit) {
      throw refusal(fmt::format("begin and end of '{}' within {} bytes", key, data_size_),
                    fmt::format("{}", fmt::join(offsets, ", ")));
    }
    return {offsets[0], offsets[1]};
  }

  SnapshotTensor tensor(const std::string& key, const Json& entry, const ByteRange& where) const {
    const auto dtype_name = field<std::string>(key, entry, "dtype", "a string");
    const std::optional<DType> dtype = stored_type(dtype_name);
    if (!dtype) {
      throw refusal(fmt::format("one of {} as dtype of '{}'", fmt::join(kStoredNames, ", "), key),
                    dtype_name);
    }
    const std::vector<std::uint64_t> shape = wholes(key, entry, "shape");
    SnapshotTensor result{*dtype, {shape.begin(), shape.end()}, {}};
    const std::uint64_t size = where.end - where.begin;
    if (byte_size(*dtype, result.shape) != size) {
      throw refusal(fmt::format("as many bytes of '{}' as {} of shape [{}] take", key, dtype_name,
                                fmt::join(shape, ", ")),
                    fmt::format("{} bytes", size));
    }
    const std::string bytes = file_.read(data_begin_ + where.begin, size);
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    result.bytes.assign(data, data + size);
    return result;
  }

  void require_tiling(const std::map<std::string, ByteRange>& places) const {
    std::vector<std::pair<ByteRange, std::string>> sorted;
    for (const auto& [key, where] : places) {
      if (where.begin < where.end) sorted.emplace_back(where, key);
    }
    std::sort(sorted.begin(), sorted.end());
    std::uint64_t covered = 0;
    for (const auto& [where, key] : sorted) {
      if (where.begin != covered) {
        throw refusal(fmt::format("'{}' to begin at byte {}", key, covered),
                      fmt::format("{}", where.begin));
      }
      covered = where.end;
    }
    if (covered != data_size_) {
      throw refusal(fmt::format("{} bytes of tensors, as many as the file holds", data_size_),
                    fmt::format("{} bytes", covered));
    }
  }

  void restore_complex(const std::string& key, const std::string& word,
                       std::map<std::string, SnapshotTensor>& tensors) const {
    const std::optional<DType> dtype = parse<DType>(word);
    const auto at = tensors.find(key);
    if (!dtype || !is_complex(*dtype) || at == tensors.end()) return;
    SnapshotTensor& tensor = at->second;
    if (tensor.dtype != component_type(*dtype) || tensor.shape.empty() ||
        tensor.shape.back() != 2) {
      throw refusal(
          fmt::format("pairs of {} for {} in '{}'", stored_name(component_type(*dtype)), word, key),
          fmt::format("{} of shape [{}]", stored_name(tensor.dtype),
                      fmt::join(tensor.shape, ", ")));
    }
    tensor.dtype = *dtype;
    tensor.shape.pop_back();
  }

  std::string path_;
  RegularFile file_;
  std::uint64_t data_begin_ = 0;
  std::uint64_t data_size_ = 0;
};

/// A key with the current name of its phase: files of records of 1.x have other names.
std::string with_word_of_today(const std::string& key) {
  const std::size_t begin = key.find('/') + 1;
  const std::size_t end = key.find('/', begin);
  if (begin == 0 || end == key.npos) return key;
  const auto phase = parse<Phase>(key.substr(begin, end - begin));
  return phase ? fmt::format("{}{}{}", key.substr(0, begin), name(*phase), key.substr(end)) : key;
}

}  // namespace

std::string snapshot_key(const Observation& observation) {
  return fmt::format("{}/{}/{}/{}", observation.micro_batch, name(observation.phase),
                     name(observation.kind), observation.name);
}

std::filesystem::path snapshot_file(const std::filesystem::path& folder, int rank,
                                    std::int64_t step) {
  return folder / fmt::format("rank-{}.step-{}.safetensors", rank, step);
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, SnapshotTensor>& tensors,
                       std::string_view identity) {
  std::string header = header_of(tensors, identity).dump();
  header.append((kLengthSize - header.size() % kLengthSize) % kLengthSize, ' ');
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), kLengthSize);
  file += header;
  for (const auto& [key, tensor] : tensors) {
    file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  write_whole_file(path, file);
}

Snapshot read_snapshot(const std::filesystem::path& path) {
  Snapshot read = Reader(path).read();
  std::map<std::string, SnapshotTensor> tensors;
  for (auto& [key, tensor] : read.tensors) {
    if (tensors.try_emplace(with_word_of_today(key), std::move(tensor)).second) continue;
    throw malformed(path.string(), 0, 0, "every key once, in older words or in newer ones", key);
  }
  read.tensors = std::move(tensors);
  return read;
}

std::map<std::string, SnapshotTensor> read_safetensors(const std::filesystem::path& path) {
  return Reader(path).read().tensors;
}

}  // namespace lockstep
