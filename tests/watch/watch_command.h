#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/command.h"

namespace lockstep {

inline const std::string kLockstep = LOCKSTEP_PROGRAM;

/// All formats that other programs read.
inline const std::string kReports = "--format summary,junit,markdown,github,json";

class WatchCommand : public testing::Test {
 protected:
  /// Requires: the job was watched with `kReports`. All of them say what the exit status says, and
  /// so does `lockstep report`. `heading`: a part of the job's result; of ranks that agree as they
  /// should, it begins with "in lockstep".
  void expect_reports_with(int status, const std::string& heading = "") const {
    const auto report = [&](const std::string& format) {
      return run_shell(fmt::format("{} report --format {} {}", kLockstep, format, out().string()));
    };
    EXPECT_EQ(report("console").status, status);
    const std::pair<const char*, const char*> files[] = {
        {"summary", "summary.json"}, {"junit", "report.xml"}, {"markdown", "report.md"}};
    for (const auto& [format, file] : files) {
      EXPECT_EQ(text_of(out() / file), report(format).out) << format;
    }
    EXPECT_THAT(report("summary").out,
                testing::HasSubstr(fmt::format("\"exit_status\": {},", status)));
    const auto count_of = [&](const char* element) {
      return report("junit").out.find(fmt::format("<{} ", element)) != std::string::npos;
    };
    EXPECT_EQ(count_of("failure"), status == 1);
    EXPECT_EQ(count_of("error"), status == 2 || status == 3);
    const bool do_agree = heading.empty() ? status == 0 : heading.starts_with("in lockstep");
    for (const char* format : {"markdown", "github"}) {
      EXPECT_EQ(report(format).out.find("all ranks agree") != std::string::npos, do_agree);
    }
    EXPECT_THAT(report("summary").out, testing::HasSubstr(heading));
  }

  Outcome watch(const std::string& options, const std::string& job) const {
    return run_shell(
        fmt::format("{} watch --out {} {} -- {}", kLockstep, out().string(), options, job));
  }
  std::filesystem::path out() const { return folder_.path() / "run"; }

 private:
  TemporaryFolder folder_;
};

}  // namespace lockstep
