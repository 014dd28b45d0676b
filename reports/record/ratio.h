#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"

namespace lockstep {

/// Why values are a multiple of the right ones. `count` and `size` are those of RatioCause.
///   summed_over_ranks       count: summed over that many ranks, never averaged
///   averaged_twice          1 / count: averaged twice over that many ranks
///   averaged_three_times    1 / count^2
///   counted_twice           (count + 1) / count: of so many that are alike, one counted twice
///   counted_by_number       (count + 1) / 2: of so many that are alike, the k-th counted k times
///   one_too_few             count / (count - 1): divided by one less than there are
///   norm_of_copies          1 / sqrt(count): divided by a norm that counts so many copies
///   norm_of_part            sqrt(count): the same of a norm over one of so many parts
///   divided_by              1 / count: divided by the `size`
///   summed_over             count: summed over the `size`
///   divided                 1 / count, for which the job has no size
///   counted                 count, for which the job has no size
///   scaled_up, scaled_down  2^count and 2^-count, as by a loss scale
///   learning_rate           of an update whose gradients agree: its learning rate is so
///   sign_flipped            -1
///   nothing_arrived         0
enum class CauseOfRatio {
  summed_over_ranks,
  averaged_twice,
  averaged_three_times,
  counted_twice,
  counted_by_number,
  one_too_few,
  norm_of_copies,
  norm_of_part,
  divided_by,
  summed_over,
  divided,
  counted,
  scaled_up,
  scaled_down,
  learning_rate,
  sign_flipped,
  nothing_arrived
};

template <>
struct Names<CauseOfRatio> {
  static constexpr std::array<std::string_view, 17> values{
      "summed over ranks", "averaged twice",    "averaged three times",
      "counted twice",     "counted by number", "one too few",
      "norm of copies",    "norm of part",      "divided by",
      "summed over",       "divided",           "counted",
      "scaled up",         "scaled down",       "learning rate",
      "sign flipped",      "nothing arrived"};
};

struct RatioCause {
  CauseOfRatio kind = CauseOfRatio::counted;
  std::int64_t count = 0;  ///< 0 where the kind has none
  std::string size = {};   ///< "micro-batches", "ranks"; empty: the job has none

  bool operator==(const RatioCause&) const = default;
};

/// A simple ratio of values to the right ones.
struct Ratio {
  double factor = 1;  ///< of the right value; where it is no simple fraction, to 4 digits
  double error = 0;   ///< to which the values show it, relative
  std::vector<RatioCause> causes = {};  ///< most likely first; empty: nothing known is of that size

  bool operator==(const Ratio&) const = default;
};

/// Whether two ratios are the same to a reader: they may be known to different errors.
bool is_same(const Ratio& one, const Ratio& other);

/// "1/4", "5/4", "1/sqrt(2)", "0.3679".
std::string factor_in_words(const Ratio& ratio);

/// "1/4: averaged twice over 4 ranks, or divided by 4", "5/8 of the right value".
std::string in_words(const Ratio& ratio);

}  // namespace lockstep
