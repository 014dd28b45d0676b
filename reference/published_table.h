#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"

namespace lockstep {

/// Quantity in one row of a published table.
///   element      one element of a tensor on one rank
///   synced       "True" if the ranks agree by the published definition
///   drift        max |value on rank i - value on rank j| over all pairs, whole tensor
///   norm         L2 norm on one rank
enum class PublishedQuantity { element, synced, drift, norm };

template <>
struct Names<PublishedQuantity> {
  static constexpr std::array<std::string_view, 4> values{"element", "synced", "drift", "norm"};
};

/// One printed value of a published table.
struct PublishedValue {
  std::int64_t line = 0;  ///< in the CSV file
  std::string scenario;
  std::string variant;
  int world_size = 0;
  PublishedQuantity quantity = PublishedQuantity::element;
  std::string kind;            ///< "gradient", "parameter"
  std::string phase;           ///< "pre_step", "post_step"
  std::string tensor;          ///< "*": all tensors of the kind together
  std::int64_t element = 0;    ///< row-major
  std::int64_t step = 0;       ///< as published
  std::int64_t step_base = 1;  ///< number of the first step in the publication
  int rank = 0;                ///< -1 if the value is about all ranks
  std::string printed;         ///< to be matched to the last character, or in shape
  std::string definition;      ///< of the column, as published: "abs(g_r0 - g_r1) < 1e-9"
  std::string source;

  /// Whether the definition begins with "in shape: ": the published program differs from the
  /// measured one, so only the meaning of a value must match. For `synced` that is its truth. For a
  /// drift, whether it is 0 and whether it grows from the step before. For a norm, whether it
  /// equals that of rank 0. For an element, such as a loss, whether it is 0 and whether it is above
  /// or below that of the first step. If the table has them, its mean over five steps is also
  /// compared with that of the five before.
  bool is_met_in_shape() const { return definition.starts_with("in shape: "); }

  /// Whether the definition begins with "beside: ": the published program differs from the measured
  /// one, and the value makes no statement about it. It only has to be measured.
  bool is_beside() const { return definition.starts_with("beside: "); }
};

/// A published table: facts from a pull request or issue, stored as CSV in reference/published.
struct PublishedTable {
  std::string id;  ///< file name without extension: "opentslm-49-gradients"
  std::filesystem::path path;
  std::vector<PublishedValue> values;
};

/// Reads a table. Throws Error (usage) with file, line, column and the expected content.
PublishedTable read_published_table(const std::filesystem::path& path);

/// The ids of all tables, sorted. Throws Error (usage) if their folder cannot be read.
std::vector<std::string> published_table_names();

/// The file of the table `id`: in share/lockstep/published of this program's installation prefix,
/// otherwise in the source folder of the build. Throws Error (usage) when it is missing.
std::filesystem::path published_table_file(const std::string& id);

/// Measurement for a published value: the values of its ranks.
struct Measured {
  std::vector<double> values;   ///< element, norm, synced: one per rank; drift: only the drift
  bool bitwise_synced = false;  ///< all ranks hold the same bits of the whole tensor
};

/// Source of measured values: empty if the run has none, which counts as unmatched.
using MeasuredSource = std::function<std::optional<Measured>(const PublishedValue&)>;

inline constexpr const char* kNotMeasured = "not measured";

/// One value that does not match.
struct Unmet {
  PublishedValue published;
  std::string measured;  ///< in the publication's format, or kNotMeasured
};

/// A comparison to the printed digit, or in shape if the table says so.
struct TableComparison {
  std::int64_t values = 0;  ///< without those marked "beside: "
  std::int64_t beside = 0;
  std::int64_t met = 0;
  std::int64_t in_shape = 0;            ///< matched values that were compared in shape
  std::int64_t definitions_differ = 0;  ///< `synced` rows whose bitwise answer differs
  std::vector<Unmet> unmet;
};
TableComparison compare(const PublishedTable& table, const MeasuredSource& measured);

}  // namespace lockstep
