#include "reports/record/stack_frame.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

FrameParts parts_of_frame(std::string_view frame) {
  constexpr std::string_view kBetween = ", ";
  const std::size_t comma = frame.rfind(kBetween);
  if (comma == frame.npos) return {"", frame};
  return {frame.substr(0, comma), frame.substr(comma + kBetween.size())};
}

std::string frame_in_words(std::string_view frame) {
  const auto [function, place] = parts_of_frame(frame);
  return function.empty() ? std::string(place) : fmt::format("{} ({})", function, place);
}

std::string_view frame_of_place(const RankExit& end) {
  const auto frame = std::ranges::find_if(end.stack, [&](const std::string& one) {
    return !end.place.empty() && parts_of_frame(one).place == end.place;
  });
  return frame == end.stack.end() ? std::string_view() : std::string_view(*frame);
}

}  // namespace lockstep
