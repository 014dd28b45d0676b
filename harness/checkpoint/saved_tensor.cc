#include "harness/checkpoint/saved_tensor.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>

#include "harness/checkpoint/pickle.h"
#include "harness/checkpoint/pickled_torch.h"
#include "harness/record/shard_runs.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kLargestPickledTensor = 1 << 20;

bool is_of_saved_tensor(std::string_view global) {
  return global == "torch._utils._rebuild_tensor_v2" ||
         global == "torch._utils._rebuild_parameter" || global == "collections.OrderedDict" ||
         dtype_of_storage(global);
}

/// The arguments of torch._utils._rebuild_tensor_v2, in or without a parameter.
const PickleList* arguments_of(PickleRef tensor) {
  const auto* const object = pickled<PickleObject>(tensor);
  const auto* const arguments = object ? pickled<PickleList>(object->arguments) : nullptr;
  if (!arguments || arguments->items.empty()) return nullptr;
  if (type_of(tensor) == "torch._utils._rebuild_tensor_v2") return arguments;
  const PickleRef inner = arguments->items[0];
  const bool is_parameter = type_of(tensor) == "torch._utils._rebuild_parameter" &&
                            type_of(inner) == "torch._utils._rebuild_tensor_v2";
  return is_parameter ? pickled<PickleList>(pickled<PickleObject>(inner)->arguments) : nullptr;
}

/// ("storage", torch.FloatStorage, "0", "cpu", 12): its type and its member.
struct SavedStorage {
  DType dtype;
  std::string member;
};

std::optional<SavedStorage> storage_of(PickleRef value) {
  const auto* const persistent = pickled<PicklePersistent>(value);
  const auto* const id = persistent ? pickled<PickleList>(persistent->id) : nullptr;
  if (!id || id->items.size() != 5) return std::nullopt;
  const auto* const type = pickled<PickleGlobal>(id->items[1]);
  const auto* const key = pickled<std::string>(id->items[2]);
  const auto dtype = type ? dtype_of_storage(type->name) : std::nullopt;
  if (!dtype || !key) return std::nullopt;
  return SavedStorage{*dtype, "data/" + *key};
}

/// Whether all elements lie in the storage, and no number overflows.
bool is_within(const SavedTensor& tensor) {
  const auto room = static_cast<std::int64_t>(tensor.storage.size / item_size(tensor.dtype));
  std::int64_t last = tensor.offset;
  if (tensor.offset < 0 || tensor.shape.size() != tensor.strides.size()) return false;
  if (!stored_count(tensor.shape)) return false;
  if (element_count(tensor.shape) == 0) return true;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::int64_t step = 0;
    const bool is_too_far = __builtin_mul_overflow(tensor.shape[d] - 1, tensor.strides[d], &step) ||
                            __builtin_add_overflow(last, step, &last);
    if (tensor.strides[d] < 0 || is_too_far) return false;
  }
  return last < room;
}

}  // namespace

SavedTensor read_saved_tensor(const RegularFile& file, const std::string& path,
                              const ByteRange& range) {
  const auto refusal = [&](std::string_view found) {
    return malformed(path, 0, 0,
                     fmt::format("one dense tensor of torch.save at byte {}", range.begin), found);
  };
  const ZipArchive archive(file, path, range);
  if (archive.has("byteorder")) {
    const ByteRange order = archive.member("byteorder");
    if (order.size != 6 || file.read(order.begin, order.size) != "little") {
      throw refusal("one of a big-endian machine");
    }
  }
  const ByteRange data = archive.member("data.pkl");
  if (data.size > kLargestPickledTensor) throw refusal(fmt::format("{} bytes", data.size));
  const std::string bytes = file.read(data.begin, data.size);
  const Pickle pickle(bytes, path, is_of_saved_tensor);
  const PickleList* const arguments = arguments_of(&pickle.root());
  if (!arguments || arguments->items.size() < 4) throw refusal("another value");
  const auto storage = storage_of(arguments->items[0]);
  const auto* const offset = pickled<std::int64_t>(arguments->items[1]);
  const auto shape = whole_numbers(arguments->items[2]);
  const auto strides = whole_numbers(arguments->items[3]);
  if (!storage || !offset || !shape || !strides) throw refusal("a tensor of another kind");
  SavedTensor tensor{storage->dtype, *shape, *strides, *offset, archive.member(storage->member)};
  if (!is_within(tensor)) throw refusal("elements outside its storage");
  return tensor;
}

bool is_row_major(const SavedTensor& tensor) {
  if (element_count(tensor.shape) == 0) return true;
  std::int64_t stride = 1;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] > 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return true;
}

}  // namespace lockstep
