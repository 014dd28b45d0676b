#include "harness/record/safetensors_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/record/flat_json.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"

namespace lockstep {
namespace {

using HeaderJson = nlohmann::json;

constexpr std::size_t kHeaderLengthSize = 8;

/// safetensors' names of the types, in the order of DType. Complex types are not stored directly.
constexpr std::array<std::string_view, Names<DType>::values.size()> kNamesOfTypes{
    "F32",  "F64", "F16", "BF16",    "I8",      "I16",         "I32",         "I64",    "U8",
    "BOOL", "",    "",    "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"};

std::vector<std::string_view> stored_names() {
  std::vector<std::string_view> names(kNamesOfTypes.begin(), kNamesOfTypes.end());
  std::erase(names, "");
  return names;
}

std::optional<DType> stored_type(std::string_view name) {
  const auto at = std::find(kNamesOfTypes.begin(), kNamesOfTypes.end(), name);
  if (name.empty() || at == kNamesOfTypes.end()) return std::nullopt;
  return static_cast<DType>(at - kNamesOfTypes.begin());
}

/// Reads the header of one file; every error names it.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, const RegularFile& file)
      : path_(path.string()), file_(file) {}

  void read(std::map<std::string, StoredTensor>& tensors,
            std::map<std::string, std::string>& metadata) {
    const HeaderJson header = parse_header(read_header());
    metadata = read_metadata(header);
    std::map<std::string, ByteRange> places;
    for (const auto& [key, entry] : header.items()) {
      if (key != kSafetensorsMetadata) places[key] = place(key, entry);
    }
    require_tiling(places);
    for (const auto& [key, where] : places) tensors[key] = tensor(key, header.at(key), where);
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
    if (size < kHeaderLengthSize) {
      throw refusal("a safetensors file of at least 8 bytes", fmt::format("{} bytes", size));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, file_.read(0, kHeaderLengthSize).data(), kHeaderLengthSize);
    if (length > std::min(size - kHeaderLengthSize, kLargestSnapshotHeader)) {
      throw refusal(fmt::format("a header within the {} bytes of the file, of {} at most", size,
                                kLargestSnapshotHeader),
                    fmt::format("a header length of {}", length));
    }
    data_begin_ = kHeaderLengthSize + length;
    data_size_ = size - data_begin_;
    return file_.read(kHeaderLengthSize, length);
  }

  HeaderJson parse_header(const std::string& text) const {
    HeaderJson header = parse_flat_json(text, path_, "the header");
    if (!header.is_object()) throw refusal("a JSON object as header", text);
    return header;
  }

  std::map<std::string, std::string> read_metadata(const HeaderJson& header) const {
    if (!header.contains(kSafetensorsMetadata)) return {};
    try {
      return header.at(std::string(kSafetensorsMetadata)).get<std::map<std::string, std::string>>();
    } catch (const HeaderJson::exception&) {
      throw refusal("strings by name as __metadata__",
                    header.at(std::string(kSafetensorsMetadata)).dump());
    }
  }

  template <class T>
  T field(const std::string& key, const HeaderJson& entry, const char* name,
          std::string_view expected) const {
    try {
      return entry.at(name).get<T>();
    } catch (const HeaderJson::exception&) {
      throw refusal(fmt::format("{} as {} of '{}'", expected, name, key), entry.dump());
    }
  }

  std::vector<std::uint64_t> wholes(const std::string& key, const HeaderJson& entry,
                                    const char* name) const {
    const std::string_view expected = "a list of whole numbers";
    const auto list = field<HeaderJson>(key, entry, name, expected);
    const bool fit =
        list.is_array() && std::all_of(list.begin(), list.end(), [](const HeaderJson& item) {
          return item.is_number_unsigned() && item.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
        });
    if (!fit) throw refusal(fmt::format("{} as {} of '{}'", expected, name, key), list.dump());
    return list.get<std::vector<std::uint64_t>>();
  }

  ByteRange place(const std::string& key, const HeaderJson& entry) const {
    const std::vector<std::uint64_t> offsets = wholes(key, entry, "data_offsets");
    const bool fit = offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data_size_;
    if (!fit) {
      throw refusal(fmt::format("begin and end of '{}' within {} bytes", key, data_size_),
                    fmt::format("{}", fmt::join(offsets, ", ")));
    }
    return {offsets[0], offsets[1]};
  }

  StoredTensor tensor(const std::string& key, const HeaderJson& entry,
                      const ByteRange& where) const {
    const auto dtype_name = field<std::string>(key, entry, "dtype", "a string");
    const std::optional<DType> dtype = stored_type(dtype_name);
    if (!dtype) {
      throw refusal(fmt::format("one of {} as dtype of '{}'", fmt::join(stored_names(), ", "), key),
                    dtype_name);
    }
    const std::vector<std::uint64_t> shape = wholes(key, entry, "shape");
    const std::uint64_t size = where.end - where.begin;
    StoredTensor result{*dtype, {shape.begin(), shape.end()}, data_begin_ + where.begin, size};
    if (stored_size(*dtype, result.shape) != size) {
      throw refusal(fmt::format("as many bytes of '{}' as {} of shape [{}] take", key, dtype_name,
                                fmt::join(shape, ", ")),
                    fmt::format("{} bytes", size));
    }
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

  std::string path_;
  const RegularFile& file_;
  std::uint64_t data_begin_ = 0;
  std::uint64_t data_size_ = 0;
};

}  // namespace

std::string_view stored_name(DType component) {
  return kNamesOfTypes.at(static_cast<std::size_t>(component));
}

std::optional<std::uint64_t> stored_size(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t size = item_size(dtype);
  for (const std::int64_t length : shape) {
    if (__builtin_mul_overflow(size, length, &size)) return std::nullopt;
  }
  return size;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, std::uint64_t most_bytes)
    : file_(path, most_bytes) {
  HeaderReader(path, file_).read(tensors_, metadata_);
}

}  // namespace lockstep
