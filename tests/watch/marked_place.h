#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace lockstep {

/// "causes.py:31", of the first line of a training of this folder that has the text.
inline std::string marked_place(const std::string& script, const std::string& mark) {
  std::ifstream file(fmt::format("{}/tests/watch/{}", LOCKSTEP_SOURCE_DIR, script));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find(mark) != std::string::npos) break;
  }
  return fmt::format("{}:{}", script, number);
}

}  // namespace lockstep
