#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/command.h"

namespace lockstep {

inline const std::string kLockstep = LOCKSTEP_PROGRAM;

class WatchCommand : public testing::Test {
 protected:
  Outcome watch(const std::string& options, const std::string& job) const {
    return run_shell(
        fmt::format("{} watch --out {} {} -- {}", kLockstep, out().string(), options, job));
  }
  std::filesystem::path out() const { return folder_.path() / "run"; }

 private:
  TemporaryFolder folder_;
};

}  // namespace lockstep
