#include "harness/record/sound_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/record/limits.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Whether the text of `path` names an entry below the folder it is relative to.
bool goes_down(const std::string& text) {
  const bool is_plain = std::none_of(text.begin(), text.end(), [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c)) != 0;
  });
  const fs::path path(text);
  return is_plain && !text.empty() && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) {
           return part.empty() || part == "." || part == "..";
         });
}

/// Whether all links of `path` lead to targets below `folder`. Missing parts of `path` contain no
/// links.
bool stays_below(const fs::path& path, const fs::path& folder) {
  std::error_code failure;
  const fs::path root = fs::canonical(folder, failure);
  if (failure) return false;
  const fs::path place = fs::weakly_canonical(path, failure);
  if (failure) return false;
  return std::mismatch(root.begin(), root.end(), place.begin(), place.end()).first == root.end();
}

/// A reference has only axes of the cell that it belongs to.
bool is_reference_of(const Cell& reference, const Cell& cell) {
  const auto conditions = [](const Cell& c) {
    return std::tie(c.scenario, c.world_size, c.device, c.steps, c.seed, c.repetition);
  };
  return reference.role == Role::reference && conditions(reference) == conditions(cell) &&
         std::all_of(reference.axes.begin(), reference.axes.end(), [&](const AxisValue& axis) {
           const auto own = std::find_if(cell.axes.begin(), cell.axes.end(),
                                         [&](const auto& one) { return one.axis == axis.axis; });
           return own == cell.axes.end() || *own == axis;  // its variant may fix the value
         });
}

/// Compares the cells of one record with each other.
class Soundness {
 public:
  Soundness(const RunRecord& run, const fs::path& folder)
      : run_(run), folder_(folder), file_((folder / "record.json").string()) {}

  void require() {
    require_all_planned();
    require_own_folders();
    for (const CellRecord& cell : run_.cells) by_folder_[cell.folder] = &cell;
    for (const CellRecord& cell : run_.cells) require(cell);
    for_each_attempt(run_.jobs, [&](const JobRecord& job) {
      require(job);
      for (const Table& table : job.tables) require(table.spec);
    });
    for (const Table& table : run_.tables) require(table.spec);
  }

 private:
  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    throw malformed(file_, 0, 0, expected, found);
  }

  void require_all_planned() const {
    const PlannedCounts found = counts_of(run_);
    if (run_.planned == found) return;
    const auto counts_in_words = [](const PlannedCounts& counts) {
      const std::string jobs = counts.jobs == 0 ? "" : " and " + counted(counts.jobs, "job");
      return fmt::format("{}{} with {}", counted(counts.cells, "cell"), jobs,
                         counted(counts.claims, "claim"));
    };
    refuse(fmt::format("the {} that were planned", counts_in_words(run_.planned)),
           counts_in_words(found));
  }

  void require_own_folders() const {
    std::set<std::string> folders;
    const auto require_new = [&](const Execution& execution) {
      if (folders.insert(execution.folder).second) return;
      refuse("a folder for each cell and each job", execution.folder);
    };
    for (const CellRecord& cell : run_.cells) require_new(cell);
    for_each_attempt(run_.jobs, require_new);
  }

  void require(const CellRecord& cell) const {
    require_inside(cell.folder);
    // A launcher may have started more ranks than Lockstep can run; then none ran.
    const int most = cell.processes > 0 ? kMostRanksOfRecord : std::numeric_limits<int>::max();
    require_world(cell, cell.cell.world_size, most);
    if (cell.cell.steps < 1) {
      refuse(cell.folder + " with at least 1 step", std::to_string(cell.cell.steps));
    }
    require_processes(cell);
    // A cell that cannot be run has no reference.
    if (cell.processes > 0 && !cell.reference_folder.empty()) require_reference(cell);
  }

  void require_inside(const std::string& folder) const {
    if (!goes_down(folder)) refuse("a folder that lies inside that of the run", folder);
    if (!stays_below(folder_ / folder, folder_)) {
      refuse(folder + " inside the folder of the run", "a link that leads out of it");
    }
  }

  /// A cell that was not run has none. A reference is run with all its perturbed copies.
  void require_processes(const CellRecord& cell) const {
    const bool is_reference = cell.cell.role == Role::reference;
    const int all = is_reference ? 1 + kPerturbedReferences : cell.cell.world_size;
    if (cell.processes != 0 && cell.processes != all) {
      refuse(fmt::format("{} with {} processes", cell.folder, all), std::to_string(cell.processes));
    }
    require_exits(cell);
  }

  void require_world(const Execution& execution, int size, int most) const {
    if (size >= 1 && size <= most) return;
    refuse(fmt::format("{} with a world size from 1 to {}", execution.folder, most),
           std::to_string(size));
  }

  void require_exits(const Execution& execution) const {
    std::set<int> ranks;
    for (const RankExit& end : execution.exits) ranks.insert(end.rank);
    const int processes = execution.processes;
    const bool is_each_once =
        static_cast<int>(execution.exits.size()) == processes &&
        static_cast<int>(ranks.size()) == processes &&
        (ranks.empty() || (*ranks.begin() == 0 && *ranks.rbegin() == processes - 1));
    if (is_each_once) return;
    refuse(fmt::format("{} with one end for each of its {} processes", execution.folder, processes),
           fmt::format("{} ends of {} ranks", execution.exits.size(), ranks.size()));
  }

  void require(const JobRecord& job) const {
    require_inside(job.folder);
    if (job.id.empty()) refuse(job.folder + " with the id of its job", "none");
    // No rank of a job may have been observed.
    const bool is_unseen = job.world_size == 0 && job.processes == 0;
    if (!is_unseen) require_world(job, job.world_size, kMostRanksOfRecord);
    if (job.planned_steps.value_or(1) < 1) {
      refuse(job.folder + " with at least 1 planned step", std::to_string(*job.planned_steps));
    }
    if (job.processes != 0 && job.processes != job.world_size) {
      refuse(fmt::format("{} with {} processes", job.folder, job.world_size),
             std::to_string(job.processes));
    }
    require_exits(job);
  }

  void require(const TableSpec& table) const {
    constexpr int kMostDigits = 17;
    if (table.element < 0) refuse("a table of an element from 0 on", std::to_string(table.element));
    if (table.digits < 0 || table.digits > kMostDigits) {
      refuse(fmt::format("a table with 0 to {} digits", kMostDigits), std::to_string(table.digits));
    }
  }

  void require_reference(const CellRecord& cell) const {
    const auto reference = by_folder_.find(cell.reference_folder);
    const bool fits =
        reference != by_folder_.end() && is_reference_of(reference->second->cell, cell.cell);
    if (fits) return;
    refuse(
        fmt::format("the folder of a reference of {}, run under the same conditions", cell.folder),
        cell.reference_folder);
  }

  const RunRecord& run_;
  const fs::path& folder_;
  std::string file_;
  std::map<std::string_view, const CellRecord*> by_folder_;
};

}  // namespace

void require_sound(const RunRecord& run, const fs::path& folder) {
  Soundness(run, folder).require();
}

}  // namespace lockstep
