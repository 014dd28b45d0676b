#include "harness/verdict/chart_fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "harness/verdict/collective_lanes.h"
#include "harness/verdict/job_tables.h"
#include "harness/verdict/table.h"

namespace lockstep {

namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostLines = 64;

/// Steps to keep: 2000, and fewer with many ranks.
std::size_t most_steps(int ranks) {
  constexpr std::size_t kMostValues = 4'000'000;
  return std::clamp<std::size_t>(kMostValues / std::max<std::size_t>(1, std::size_t(ranks)), 300,
                                 2000);
}

TableSpec spec_about(Quantity quantity, Kind kind, Phase phase) {
  TableSpec spec;
  spec.quantity = quantity;
  spec.kind = kind;
  spec.phase = phase;
  return spec;
}

const TableSpec& norm_spec() {
  static const TableSpec kSpec = spec_about(Quantity::norm, Kind::gradient, Phase::pre_step);
  return kSpec;
}

const TableSpec& drift_spec() {
  static const TableSpec kSpec = spec_about(Quantity::drift, Kind::parameter, Phase::post_step);
  return kSpec;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kNoValue;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// By their values; NaN equals NaN.
std::vector<RankSeries> alike(std::vector<RankSeries> all) {
  std::map<std::vector<std::uint64_t>, std::size_t> known;
  std::vector<RankSeries> groups;
  for (RankSeries& one : all) {
    std::vector<std::uint64_t> bits;
    for (const double value : one.values) bits.push_back(std::bit_cast<std::uint64_t>(value));
    const auto [place, is_new] = known.try_emplace(std::move(bits), groups.size());
    if (is_new) {
      groups.push_back(std::move(one));
    } else {
      groups[place->second].ranks.push_back(one.ranks[0]);
    }
  }
  return groups;
}

/// The first series and those furthest from the middle of all ranks in some step.
void leave_out(const std::vector<double>& middles, StepSeries& series) {
  std::vector<RankSeries>& norms = series.norms;
  if (norms.size() <= kMostLines) return;
  std::vector<std::pair<double, std::size_t>> distances;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    double furthest = i == 0 ? std::numeric_limits<double>::infinity() : 0;
    for (std::size_t k = 0; k < middles.size(); ++k) {
      const double apart = std::abs(norms[i].values[k] - middles[k]) / std::abs(middles[k]);
      if (!std::isnan(apart)) furthest = std::max(furthest, apart);
    }
    distances.emplace_back(-furthest, i);
  }
  std::sort(distances.begin(), distances.end());
  std::set<std::size_t> kept;
  for (std::size_t i = 0; i < kMostLines; ++i) kept.insert(distances[i].second);
  std::vector<RankSeries> shown;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (kept.contains(i)) {
      shown.push_back(std::move(norms[i]));
    } else {
      series.ranks_left_out += static_cast<std::int64_t>(norms[i].ranks.size());
    }
  }
  norms = std::move(shown);
}

}  // namespace

ChartFold::ChartFold(const CellEvidence& cell, std::vector<Claim> claims)
    : cell_(cell),
      names_(cell.is_job ? names_of_copies(cell) : std::set<std::string>{}),
      agreement_(cell, std::move(claims)),
      rows_(most_steps(cell.evidence->processes())) {}

/// Without a tensor that all ranks hold, the ranks of a job have norms of their own.
bool ChartFold::is_agreed(std::int64_t step) const {
  return cell_.is_job && !names_.empty() && cell_.evidence->agreed_set(step).has_value();
}

void ChartFold::see(const StepView& step) {
  see_agreed_before(step.number());
  ++next_;
  add(row_of(step, agreement_.see(step)));
}

void ChartFold::see_agreed_before(std::int64_t step) {
  const std::vector<std::int64_t>& steps = cell_.evidence->steps();
  for (; next_ < steps.size() && steps[next_] < step; ++next_) {
    agreement_.see_agreed();
    add(row_of_agreed(steps[next_]));
  }
}

ChartFold::Row ChartFold::row_of_agreed(std::int64_t number) const {
  const AgreedStep step(*cell_.evidence, number);
  return {number, 0, step.measured(norm_spec(), names_).values,
          step.measured(drift_spec(), names_).values.at(0), kNoValue};
}

ChartFold::Row ChartFold::row_of(const StepView& step, std::int64_t differing) const {
  const std::set<std::string>* const names = cell_.is_job ? &names_ : nullptr;
  const bool has_copies = step.processes() > 1 && (!cell_.is_job || !names_.empty());
  Row row{step.number(), differing, {}, kNoValue, kNoValue};
  row.norms = measured_entry(norm_spec(), step, names_.empty() ? nullptr : names).values;
  if (!has_copies) return row;
  const Table::Entry drift = measured_entry(drift_spec(), step, names);
  row.drift = drift.values.at(0);
  // Of ranks that differ it is not zero: then nothing was observed.
  if (drift.estimate.value_or(0) > 0) row.estimate = *drift.estimate;
  return row;
}

/// Agreement and gaps make the state: a change of either stays.
void ChartFold::add(Row row) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  std::int64_t gaps = 0;
  for (const double norm : row.norms) {
    if (std::isnan(norm)) ++gaps;
    low = std::fmin(low, norm);
    high = std::fmax(high, norm);
  }
  const double drift = std::isnan(row.drift) ? row.estimate : row.drift;
  const std::int64_t state = 2 * gaps + (row.differing > 0 ? 1 : 0);
  rows_.add(state, low, high, drift, std::move(row));
}

StepSeries ChartFold::series() {
  StepSeries series;
  series.observed = rows_.seen();
  series.merged_changes = rows_.merged_changes();
  const std::vector<Row> rows = rows_.take();
  std::vector<double> middles;
  std::vector<RankSeries> ranks(static_cast<std::size_t>(cell_.evidence->processes()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].ranks = {int(rank)};
  for (const Row& row : rows) {
    series.steps.push_back(row.step);
    series.differing.push_back(row.differing);
    series.drift.push_back(row.drift);
    series.estimated_drift.push_back(row.estimate);
    double low = kNoValue, high = kNoValue;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].values.push_back(row.norms[rank]);
      low = std::fmin(low, row.norms[rank]);
      high = std::fmax(high, row.norms[rank]);
    }
    series.smallest_norms.push_back(low);
    series.largest_norms.push_back(high);
    middles.push_back(median(row.norms));
  }
  std::erase_if(ranks, [this](const RankSeries& one) {
    return std::ranges::binary_search(cell_.bystanders, one.ranks.front());
  });
  series.norms = alike(std::move(ranks));
  leave_out(middles, series);
  return series;
}

Charts ChartFold::take(const std::optional<CollectiveMismatch>& mismatch) {
  see_agreed_before(std::numeric_limits<std::int64_t>::max());
  Charts charts;
  charts.series = series();
  charts.agreement = agreement_.take();
  charts.lanes = collective_lanes_of(*cell_.evidence, mismatch);
  return charts;
}

}  // namespace lockstep
