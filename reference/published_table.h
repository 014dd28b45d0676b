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

/// What a published table shows in one row.
///   element      one element of a tensor on one rank
///   synced       "True" where the published definition says that the ranks agree
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
  std::int64_t step_base = 1;  ///< what the publication calls its first step
  int rank = 0;                ///< -1 where the value is about all ranks
  std::string printed;         ///< to be met to the last character, or in shape
  std::string definition;      ///< of the column, as published: "abs(g_r0 - g_r1) < 1e-9"
  std::string source;

  /// Whether the definition begins with "in shape: ": another program than the published one is
  /// measured, and only what the value shows is to be met. Of `synced` its truth; of a drift
  /// whether it is 0 and whether it grows from the step before; of a norm whether it is the one of
  /// rank 0; of an element, a loss say, whether it is 0, whether it is above or below that of the
  /// first step, and whether its mean over five steps is above or below that of the five before,
  /// where the table has them.
  bool is_met_in_shape() const { return definition.starts_with("in shape: "); }

  /// Whether the definition begins with "beside: ": another program than the published one is
  /// measured, and the value says nothing of it. It has to be measured, and that is all.
  bool is_beside() const { return definition.starts_with("beside: "); }
};

/// A published table: facts from a pull request or issue, kept as CSV in reference/published.
struct PublishedTable {
  std::string id;  ///< file name without extension: "opentslm-49-gradients"
  std::filesystem::path path;
  std::vector<PublishedValue> values;
};

/// Reads a table. Throws Error (usage) with file, line, column and what was expected.
PublishedTable read_published_table(const std::filesystem::path& path);

/// The file of the table called `id`: in share/lockstep/published of the prefix that this program
/// is installed in, else in the folder that it was built from. Throws Error (usage) when
/// there is none.
std::filesystem::path published_table_file(const std::string& id);

/// What was measured for a published value: the values of the ranks that it is about.
struct Measured {
  std::vector<double> values;   ///< element, norm, synced: one per rank; drift: the drift alone
  bool bitwise_synced = false;  ///< all ranks hold the same bits of the whole tensor
};

/// Where measured values come from: nothing when the run has none for it, which is not met.
using MeasuredSource = std::function<std::optional<Measured>(const PublishedValue&)>;

inline constexpr const char* kNotMeasured = "not measured";

/// One value that was not met.
struct Unmet {
  PublishedValue published;
  std::string measured;  ///< printed as the publication prints it, or kNotMeasured
};

/// A comparison to the printed digit, or in shape where the table says so.
struct TableComparison {
  std::int64_t values = 0;  ///< without those beside
  std::int64_t beside = 0;
  std::int64_t met = 0;
  std::int64_t in_shape = 0;            ///< of those met
  std::int64_t definitions_differ = 0;  ///< `synced` rows where our bitwise answer is another
  std::vector<Unmet> unmet;
};
TableComparison compare(const PublishedTable& table, const MeasuredSource& measured);

}  // namespace lockstep
