#include "harness/record/tensor_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>

#include "harness/record/tensor_cells.h"
#include "reports/base/csv_text.h"
#include "reports/base/file_limits.h"

namespace lockstep {
namespace {

const std::vector<std::string_view>& columns_of_table() {
  static const std::vector<std::string_view> columns = [] {
    std::vector<std::string_view> all{"tensor"};
    all.insert(all.end(), tensor_columns().begin(), tensor_columns().end());
    return all;
  }();
  return columns;
}

}  // namespace

std::filesystem::path tensor_table_file(const std::filesystem::path& journal) {
  return std::filesystem::path(journal).replace_extension(".tensors.csv");
}

TensorTableWriter::TensorTableWriter(const std::filesystem::path& path, std::string_view identity)
    : file_(path) {
  file_.append(fmt::format("# {}\n{}\n", identity, fmt::join(columns_of_table(), ",")));
}

std::size_t TensorTableWriter::number_of(const ObservedTensor& tensor) {
  if (next_ < tensors_.size() && tensors_[next_]->first == tensor) return next_++;
  const auto known = numbers_.find(tensor);
  if (known != numbers_.end()) {
    next_ = known->second + 1;
    return known->second;
  }
  const std::size_t number = tensors_.size();
  file_.append(fmt::format("{},{}\n", number, tensor_cells(tensor)));
  tensors_.emplace_back(numbers_.emplace(tensor, number).first);
  next_ = number + 1;
  return number;
}

/// Of its names and shapes, which are stored once: their numbers are as good as they.
std::uint64_t KnownTensors::Hash::operator()(const ObservedTensor& tensor) const {
  const auto moment =
      4 * static_cast<std::uint32_t>(tensor.kind) + static_cast<std::uint32_t>(tensor.phase);
  const std::uint64_t hash = mixed(moment, tensor.name.number(), tensor.replica_group.number());
  return mixed(hash, tensor.offset.number(), tensor.local_shape.number());
}

const KnownTensor* KnownTensors::of(const ObservedTensor& tensor) {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = tensors_.add(tensor);
  if (is_new) known->number = static_cast<std::uint32_t>(tensors_.size() - 1);
  return known;
}

TensorTable read_tensor_table(const std::filesystem::path& path) {
  const CsvKind kind{columns_of_table(), TornTail::is_left_out, kLargestTensorTable, true};
  TensorTable table;
  const CsvFrame frame = read_csv(path, kind, [&](const CsvRow& row) {
    const RecordRow reader(row, path, columns_of_table());
    const auto number = static_cast<std::int64_t>(table.tensors.size());
    if (reader.whole(0, 0) != number) {
      throw reader.refusal(0, fmt::format("{} as 'tensor'", number));
    }
    table.tensors.push_back(reader.tensor(1));
  });
  table.identity = frame.remark;
  return table;
}

}  // namespace lockstep
