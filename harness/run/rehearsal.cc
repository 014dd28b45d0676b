#include "harness/run/rehearsal.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "harness/launch/probe.h"
#include "harness/run/run_cell.h"
#include "harness/train/rank/rank.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// A separate folder in the current one, removed with its content.
class HiddenFolder {
 public:
  HiddenFolder() {
    std::string name = ".lockstep-doctor-XXXXXX";
    if (!::mkdtemp(name.data()))
      throw unwritable("the current folder", std::strerror(errno),
                       "Go to a folder that can be written");
    path_ = fs::absolute(name);
  }
  ~HiddenFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  HiddenFolder(const HiddenFolder&) = delete;
  HiddenFolder& operator=(const HiddenFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void reduce_one_tensor(Rank& rank) {
  // The group of NCCL chooses the rank's GPU.
  ProcessGroup& group = rank.group();
  at::Tensor tensor = at::ones({1}, at::Device(std::string(name(rank.cell().device))));
  group.all_reduce(tensor, ReduceOp::sum);
  if (tensor.item<float>() != 2) {
    throw std::runtime_error(fmt::format("1 + 1 over {} is not 2", name(rank.cell().backend)));
  }
}

CellRecord run_two_ranks(const fs::path& folder, std::chrono::milliseconds limit,
                         const RehearsedBackend& backend) {
  Scenario scenario;
  scenario.id = "rehearsal";
  scenario.variants = {{"rehearsal", Role::fixed, ""}};
  scenario.body = reduce_one_tensor;
  PlannedCell planned;
  planned.scenario = &scenario;
  planned.variant = &scenario.variants.front();
  planned.cell.scenario = scenario.id;
  planned.cell.variant = scenario.variants.front().name;
  planned.cell.role = Role::fixed;
  planned.cell.backend = backend.backend;
  planned.cell.device = backend.device;
  planned.cell.world_size = 2;
  planned.cell.steps = 1;
  return run_cell(planned, folder, limit);
}

/// For the rank that ended first: the other one may only have lost its peer.
std::string problem_of(const std::vector<RankExit>& exits) {
  const RankExit* first = nullptr;
  for (const RankExit& end : exits) {
    if (end.kind != ExitKind::finished && (!first || end.order < first->order)) first = &end;
  }
  if (!first) return {};
  // The output of a library that ended the process gives the reason; that of a hanging rank does
  // not.
  const bool has_crashed = first->kind == ExitKind::signalled || first->kind == ExitKind::exited;
  std::string words = first_line(first->error);
  if (words.empty() && has_crashed) words = first_line(first->last_output);
  return fmt::format("of two ranks, rank {} {}{}.", first->rank, exit_in_words(*first),
                     words.empty() ? "" : ": " + words);
}

}  // namespace

std::string rehearse(std::chrono::milliseconds limit, const RehearsedBackend& backend) {
  try {
    const HiddenFolder folder;
    return problem_of(run_two_ranks(folder.path(), limit, backend).exits);
  } catch (const fs::filesystem_error& error) {
    return unreadable(error.path1().string(), error.code().message()).what();
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace lockstep
