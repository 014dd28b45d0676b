#include "reports/formats/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct Span {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
};

/// The range of the finite magnitudes that are not zero.
Span span_of(const std::vector<double>& values) {
  Span span;
  for (const double value : values) {
    const double size = std::abs(value);
    if (!std::isfinite(size) || size == 0) continue;
    span.low = std::min(span.low, size);
    span.high = std::max(span.high, size);
  }
  return span;
}

const char* block_of(double value, const Span& span, Baseline baseline) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return "!";
  if (value == 0) return "·";
  const double low = baseline == Baseline::zero ? 0 : span.low;
  const double part = span.high > low ? (std::abs(value) - low) / (span.high - low) : 1;
  const auto top = static_cast<double>(kBlocks.size() - 1);
  return kBlocks.at(static_cast<std::size_t>(std::lround(part * top)));
}

}  // namespace

std::vector<std::size_t> thinned(std::size_t count, std::size_t most) {
  const std::size_t kept = std::min(count, most);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < kept; ++i) {
    indices.push_back(kept == count ? i : i * (count - 1) / (kept - 1));
  }
  return indices;
}

std::string sparkline(const std::vector<double>& values, std::size_t most, Baseline baseline) {
  const Span span = span_of(values);
  std::string text;
  for (const std::size_t i : thinned(values.size(), most)) {
    text += block_of(values[i], span, baseline);
  }
  return text;
}

}  // namespace lockstep
