#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/command.h"

namespace lockstep {

/// The bytes of numbers, as a file holds them.
template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

template <class T>
std::string little(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// A safetensors file with this header.
inline std::string safetensors(const std::string& header, const std::string& data) {
  return little<std::uint64_t>(header.size()) + header + data;
}

/// Pickles of protocol 2 and later, put together from their parts.
namespace pickling {

inline std::string number(std::int64_t value) {
  return std::string("\x8a") + '\x08' + little(value);  // LONG1
}

inline std::string text(const std::string& value) {
  return "X" + little(static_cast<std::uint32_t>(value.size())) + value;
}

inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

inline std::string tuple(const std::vector<std::string>& items) {
  std::string all = "(";
  for (const std::string& item : items) all += item;
  return all + "t";
}

inline std::string list(const std::vector<std::string>& items) {
  std::string all = "](";
  for (const std::string& item : items) all += item;
  return all + "e";
}

inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string all = "}(";
  for (const auto& [key, value] : items) all += key + value;
  return all + "u";
}

inline std::string size(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> items;
  for (const std::int64_t one : numbers) items.push_back(number(one));
  return global("torch", "Size") + tuple({tuple(items)}) + "R";
}

/// An object of a dataclass of the metadata.
inline std::string object(const std::string& type, const std::string& state,
                          const std::string& module = "metadata") {
  return global("torch.distributed.checkpoint." + module, type) + ")\x81" + state + "b";
}

inline std::string whole(const std::string& value) { return "\x80\x02" + value + "."; }

}  // namespace pickling

/// A zip archive of members that are stored as they are.
inline std::string zip(const std::vector<std::pair<std::string, std::string>>& members,
                       std::uint16_t method = 0) {
  std::string file, directory;
  for (const auto& [name, data] : members) {
    const auto size = static_cast<std::uint32_t>(data.size());
    const std::string common =
        little<std::uint16_t>(20) + little<std::uint16_t>(0) + little(method) +
        little<std::uint32_t>(0) + little<std::uint32_t>(0) + little(size) + little(size) +
        little(static_cast<std::uint16_t>(name.size())) + little<std::uint16_t>(0);
    directory += std::string("PK\1\2") + little<std::uint16_t>(20) + common +
                 std::string(10, '\0') + little(static_cast<std::uint32_t>(file.size())) + name;
    file += std::string("PK\3\4") + common + name + data;
  }
  const auto count = static_cast<std::uint16_t>(members.size());
  return file + directory + "PK\5\6" + std::string(4, '\0') + little(count) + little(count) +
         little(static_cast<std::uint32_t>(directory.size())) +
         little(static_cast<std::uint32_t>(file.size())) + std::string(2, '\0');
}

/// The pickle of a float32 tensor of torch.save.
inline std::string pickled_tensor(const std::vector<std::int64_t>& shape,
                                  const std::vector<std::int64_t>& strides, std::int64_t offset = 0,
                                  const std::string& storage = "FloatStorage") {
  using namespace pickling;
  std::vector<std::string> sizes, steps;
  for (const auto one : shape) sizes.push_back(number(one));
  for (const auto one : strides) steps.push_back(number(one));
  const std::string id =
      tuple({text("storage"), global("torch", storage), text("0"), text("cpu"), number(1)});
  return whole(global("torch._utils", "_rebuild_tensor_v2") +
               tuple({id + "Q", number(offset), tuple(sizes), tuple(steps), "\x89",
                      global("collections", "OrderedDict") + ")R"}) +
               "R");
}

/// A tensor as torch.save writes it.
inline std::string saved_tensor(const std::vector<std::int64_t>& shape,
                                const std::vector<std::int64_t>& strides, const std::string& data,
                                std::int64_t offset = 0) {
  return zip({{"archive/data.pkl", pickled_tensor(shape, strides, offset)},
              {"archive/byteorder", "little"},
              {"archive/data/0", data}});
}

/// A part of a tensor of a distributed checkpoint, and its archive.
struct LiteralChunk {
  std::vector<std::int64_t> offsets, sizes;
  std::string archive;
};

/// A distributed checkpoint of float32 tensors in one file.
class LiteralDistributed {
 public:
  LiteralDistributed& add(const std::string& name, const std::vector<std::int64_t>& shape,
                          const std::vector<LiteralChunk>& chunks) {
    using namespace pickling;
    std::vector<std::string> parts;
    for (const LiteralChunk& chunk : chunks) {
      parts.push_back(object("ChunkStorageMetadata", dict({{text("offsets"), size(chunk.offsets)},
                                                           {text("sizes"), size(chunk.sizes)}})));
      place(name, size(chunk.offsets), chunk.archive);
    }
    const std::string properties =
        object("TensorProperties", tuple({global("torch", dtype), "\x89", "\x89", "\x89", "\x89"}));
    entries.emplace_back(text(name),
                         object("TensorStorageMetadata", dict({{text("properties"), properties},
                                                               {text("size"), size(shape)},
                                                               {text("chunks"), list(parts)}})));
    return *this;
  }

  /// A value that is no tensor.
  LiteralDistributed& value(const std::string& name) {
    using namespace pickling;
    entries.emplace_back(text(name), object("BytesStorageMetadata", "}"));
    place(name, "N", "anything");
    return *this;
  }

  std::string metadata() const {
    using namespace pickling;
    return whole(object("Metadata", dict({{text("state_dict_metadata"), dict(entries)},
                                          {text("storage_data"), dict(places)}})));
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    write_text(folder / ".metadata", metadata());
    write_text(folder / "__0_0.distcp", data);
  }

  std::string dtype = "float32";
  std::string file = "__0_0.distcp";
  std::vector<std::pair<std::string, std::string>> entries, places;
  std::string data;

 private:
  void place(const std::string& name, const std::string& offset, const std::string& bytes) {
    using namespace pickling;
    const std::string index =
        object("MetadataIndex", dict({{text("fqn"), text(name)}, {text("offset"), offset}}));
    const std::string info =
        object("_StorageInfo",
               dict({{text("relative_path"), text(file)},
                     {text("offset"), number(static_cast<std::int64_t>(data.size()))},
                     {text("length"), number(static_cast<std::int64_t>(bytes.size()))}}),
               "filesystem");
    places.emplace_back(index, info);
    data += bytes;
  }
};

}  // namespace lockstep
