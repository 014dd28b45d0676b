#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/cli/start_variables.h"
#include "tests/command.h"

namespace lockstep {

/// A run of the test scenarios and its record.
class TestbedRun {
 public:
  explicit TestbedRun(const std::string& arguments)
      : outcome_(run_shell(fmt::format("{}{} run {} --out {}", variables(), LOCKSTEP_TESTBED,
                                       arguments, path().string()))),
        record_(nlohmann::json::parse(text_if_there(path() / "record.json"), nullptr, false)) {}

  const Outcome& outcome() const { return outcome_; }
  const nlohmann::json& record() const { return record_; }
  std::filesystem::path path() const { return folder_.path() / "run"; }

  nlohmann::json cell(const std::string& variant) const {
    for (const nlohmann::json& cell : record_.at("cells")) {
      if (cell.at("cell").at("variant") == variant) return cell;
    }
    ADD_FAILURE() << "no cell " << variant;
    return {};
  }

  nlohmann::json findings(const std::string& variant, const std::string& predicate) const {
    const nlohmann::json found = cell(variant);
    for (const nlohmann::json& result : found.at("results")) {
      if (result.at("claim").at("predicate") == predicate) return result.at("findings");
    }
    return nlohmann::json::array();
  }

 private:
  /// With which `lockstep` starts a catalogue.
  static std::string variables() {
    std::string words;
    for (const auto& [name, value] : kStartVariables) words += fmt::format("{}={} ", name, value);
    return words;
  }

  TemporaryFolder folder_;
  Outcome outcome_;
  nlohmann::json record_;
};

}  // namespace lockstep
