#pragma once

#include <string>
#include <string_view>

#include "reports/record/execution.h"

namespace lockstep {

/// A frame of `RankExit::stack`: "load_batch, train.py:53".
struct FrameParts {
  std::string_view function;  ///< "load_batch"; empty: unknown
  std::string_view place;     ///< "train.py:53"
};

/// The parts of a frame. A text without a comma is a place.
FrameParts parts_of_frame(std::string_view frame);

/// "load_batch (train.py:53)"; a frame without a function is its place.
std::string frame_in_words(std::string_view frame);

/// The frame of the rank's `place`; empty: its stack has none.
std::string_view frame_of_place(const RankExit& end);

}  // namespace lockstep
