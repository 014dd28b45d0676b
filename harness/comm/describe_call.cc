#include "harness/comm/describe_call.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/comm/tensor_names.h"

namespace lockstep {

using c10d::OpType;

namespace {

/// "_ALLGATHER_BASE" is "allgather_base".
std::string lower_case_name(OpType operation) {
  std::string text = c10d::opTypeToString(operation);
  text.erase(0, text.find_first_not_of('_'));
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Caches, per thread and number, strings that torch creates anew each time.
template <class Make>
const std::string& made_once(std::vector<std::string>& made, std::size_t number, const Make& make) {
  if (number >= made.size()) made.resize(number + 1);
  if (made[number].empty()) made[number] = make();
  return made[number];
}

const std::string& operation_name(OpType operation) {
  thread_local std::vector<std::string> names;
  return made_once(names, static_cast<std::size_t>(operation),
                   [&] { return lower_case_name(operation); });
}

const std::string& dtype_name(at::ScalarType type) {
  thread_local std::vector<std::string> names;
  return made_once(names, static_cast<std::size_t>(type),
                   [&] { return c10::getDtypeNames(type).first; });
}

std::string reduction_name(const c10d::ReduceOp& reduction) {
  constexpr std::array<std::string_view, 9> kNames{"sum",  "avg", "product", "min",       "max",
                                                   "band", "bor", "bxor",    "premul_sum"};
  return std::string(kNames.at(reduction.op_));
}

/// Calls that every rank of a group makes, so that equal numbers match. The end of a coalesced
/// block does not count: it may contain point-to-point calls, and its collectives have their own
/// numbers.
bool is_collective(OpType operation) {
  return operation != OpType::SEND && operation != OpType::RECV &&
         operation != OpType::RECVANYSOURCE && operation != OpType::COALESCED;
}

/// "[4, 4]"; a shape that does not fit into a log is omitted.
std::string shape_of(const at::Tensor& tensor) {
  std::array<char, 64> text{'['};
  char* at = text.data() + 1;
  for (const std::int64_t size : tensor.sizes()) {
    if (text.data() + text.size() - at < 24) break;
    if (at != text.data() + 1) at = std::copy_n(", ", 2, at);
    at = std::to_chars(at, text.data() + text.size(), size).ptr;
  }
  *at++ = ']';
  return {text.data(), at};
}

void describe_first(const at::Tensor& tensor, Collective& collective) {
  collective.dtype = dtype_name(tensor.scalar_type());
  collective.shape = shape_of(tensor);
  TensorName name = current_tag().empty() ? name_of(tensor) : tag_name(current_tag());
  collective.tensor = std::move(name.text);
  collective.tensor_id = name.id;
}

}  // namespace

Collective describe_call(OpType operation, at::TensorList tensors, RecordedGroup& group) {
  Collective collective;
  collective.operation = operation_name(operation);
  collective.group = group.name;
  collective.group_size = group.size;
  if (is_collective(operation)) collective.number = ++group.calls;
  collective.tensors = static_cast<std::uint32_t>(tensors.size());
  if (!tensors.empty()) describe_first(tensors[0], collective);
  for (const at::Tensor& tensor : tensors) {
    const auto elements = static_cast<std::uint64_t>(tensor.numel());
    collective.elements += elements;
    collective.bytes += elements * tensor.element_size();
  }
  return collective;
}

Collective with_reduction(Collective collective, const c10d::ReduceOp& reduction) {
  collective.reduction = reduction_name(reduction);
  return collective;
}

Collective with_root(Collective collective, std::int64_t root) {
  collective.root = static_cast<int>(root);
  return collective;
}

}  // namespace lockstep
