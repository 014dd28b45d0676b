#include "harness/record/tensor_cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>

#include "harness/record/shard_runs.h"

namespace lockstep {
namespace {

struct TensorColumn {
  enum : std::size_t {
    kPhase,
    kKind,
    kName,
    kDType,
    kGlobalShape,
    kOffset,
    kLocalShape,
    kReplicaGroup,
    kIsSummand,
    kNotComparable
  };
};

std::string shape_cell(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

std::optional<std::vector<std::int64_t>> parse_shape(std::string_view cell) {
  std::vector<std::int64_t> shape;
  if (cell == "scalar") return shape;
  const char* at = cell.data();
  const char* const end = at + cell.size();
  for (;;) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0) return std::nullopt;
    shape.push_back(size);
    if (stop == end) return shape;
    if (*stop != 'x') return std::nullopt;
    at = stop + 1;
  }
}

/// Larger than any tensor, and small enough that element counts cannot overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

/// The judge lists the pieces of a shard.
constexpr std::int64_t kMostRuns = std::int64_t{1} << 24;

bool has_countable_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size > 0 && elements > kMostElements / size) return false;
    elements *= size;
  }
  return true;
}

}  // namespace

std::string tensor_cells(const ObservedTensor& tensor) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{}", name(tensor.phase), name(tensor.kind),
                     csv_cell(tensor.name), csv_cell(tensor.dtype), shape_cell(tensor.global_shape),
                     shape_cell(tensor.offset), shape_cell(tensor.local_shape),
                     csv_cell(tensor.replica_group), tensor.is_summand ? 1 : 0,
                     csv_cell(tensor.not_comparable));
}

const std::vector<std::string_view>& tensor_columns() {
  static const std::vector<std::string_view> columns{
      "phase",  "kind",        "name",          "dtype",      "global_shape",
      "offset", "local_shape", "replica_group", "is_summand", "not_comparable"};
  return columns;
}

bool is_of_whole_numbers(const std::string& dtype) {
  const auto known = parse<DType>(dtype);
  return known && unit_roundoff(component_type(*known)) == 0;
}

std::int64_t RecordRow::whole(std::size_t column, std::int64_t least) const {
  const std::int64_t value = to_int(row_, column, path_, columns_);
  if (value >= least) return value;
  throw refusal(column, fmt::format("at least {} as '{}'", least, columns_[column]));
}

double RecordRow::number(std::size_t column) const {
  return to_double(row_, column, path_, columns_);
}

std::string RecordRow::text(std::size_t column) const { return unescape_cell(cell(column)); }

Digest RecordRow::digest(std::size_t column) const {
  const auto digest = digest_from_text(cell(column));
  if (!digest) throw refusal(column, "32 hexadecimal digits");
  return *digest;
}

Extreme RecordRow::extreme(std::size_t column, bool is_whole) const {
  if (cell(column).empty()) return {};
  if (is_whole) return to_int(row_, column, path_, columns_);
  return number(column);
}

template <class Enum>
Enum RecordRow::word(std::size_t column) const {
  const auto value = parse<Enum>(cell(column));
  if (value) return *value;
  throw refusal(column, fmt::format("one of {}", fmt::join(Names<Enum>::values, ", ")));
}

std::vector<std::int64_t> RecordRow::shape(std::size_t column) const {
  auto value = parse_shape(cell(column));
  if (!value) throw refusal(column, "sizes like 2x3, or scalar");
  return std::move(*value);
}

std::vector<std::int64_t> RecordRow::shape_like(const std::vector<std::int64_t>& other,
                                                std::size_t column) const {
  std::vector<std::int64_t> result = shape(column);
  if (result.size() == other.size()) return result;
  throw refusal(column, fmt::format("as many sizes as the global shape, {}", other.size()));
}

ObservedTensor RecordRow::tensor(std::size_t first) const {
  ObservedTensor tensor;
  tensor.phase = word<Phase>(first + TensorColumn::kPhase);
  tensor.kind = word<Kind>(first + TensorColumn::kKind);
  tensor.name = text(first + TensorColumn::kName);
  tensor.dtype = text(first + TensorColumn::kDType);
  tensor.global_shape = shape(first + TensorColumn::kGlobalShape);
  tensor.offset = shape_like(tensor.global_shape, first + TensorColumn::kOffset);
  tensor.local_shape = shape_like(tensor.global_shape, first + TensorColumn::kLocalShape);
  for (std::size_t d = 0; d < tensor.global_shape.size(); ++d) {
    const bool is_inside = tensor.local_shape[d] <= tensor.global_shape[d] &&
                           tensor.offset[d] <= tensor.global_shape[d] - tensor.local_shape[d];
    if (!is_inside)
      throw refusal(first + TensorColumn::kLocalShape, "a part that lies in the global shape");
  }
  if (!has_countable_elements(tensor.global_shape)) {
    throw refusal(first + TensorColumn::kGlobalShape,
                  fmt::format("at most {} elements", kMostElements));
  }
  if (number_of_runs(tensor) > kMostRuns) {
    throw refusal(first + TensorColumn::kLocalShape,
                  fmt::format("a part in at most {} pieces", kMostRuns));
  }
  tensor.replica_group = text(first + TensorColumn::kReplicaGroup);
  const std::int64_t summand = whole(first + TensorColumn::kIsSummand, 0);
  if (summand > 1) throw refusal(first + TensorColumn::kIsSummand, "0 or 1");
  tensor.is_summand = summand == 1;
  tensor.not_comparable = text(first + TensorColumn::kNotComparable);
  return tensor;
}

Error RecordRow::refusal(std::size_t column, std::string_view expected) const {
  return malformed(path_.string(), row_.line, static_cast<std::int64_t>(column) + 1, expected,
                   cell(column));
}

}  // namespace lockstep
