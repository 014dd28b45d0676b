#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/launch/launch.h"

namespace c10d {
class Backend;
}

namespace lockstep::mpi_test {

/// Context of a test case: this rank's placement and the list of failures.
class Checks {
 public:
  Checks(RankPlacement placement, std::filesystem::path folder)
      : placement_(std::move(placement)), folder_(std::move(folder)) {}

  const RankPlacement& placement() const { return placement_; }
  const std::filesystem::path& folder() const { return folder_; }
  const std::string& failures() const { return failures_; }

  void expect(bool holds, const std::string& what) {
    if (!holds) failures_ += what + "\n";
  }
  /// Expects that `call` throws and its text contains all of `fragments`.
  void expect_error(const std::string& what, const std::function<void()>& call,
                    const std::vector<std::string>& fragments);

  /// A new backend of this world. All ranks call it.
  c10::intrusive_ptr<c10d::Backend> backend(
      std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;

 private:
  RankPlacement placement_;
  std::filesystem::path folder_;
  std::string failures_;
};

/// Every collective, dtype and reduction against values computed serially.
void check_collectives(Checks& checks);
void check_messages(Checks& checks);
/// Ranks that call different collectives all get an error that says so.
void check_mismatches(Checks& checks);
/// Time limits, with ranks that never come.
void check_absent(Checks& checks);
/// The module of an MPI other than the one that started the ranks.
void check_wrong_flavour(Checks& checks);
/// A training step of the real reducer gives the same bits as over Gloo.
void check_ddp(Checks& checks);

}  // namespace lockstep::mpi_test
