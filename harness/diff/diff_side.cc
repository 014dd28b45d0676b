#include "harness/diff/diff_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "harness/judge/evidence/read_cell.h"
#include "harness/record/journal.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "reports/base/regular_file.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kLargestMap = 1 << 24;

}  // namespace

NameMap NameMap::read(const std::filesystem::path& path) {
  std::istringstream text(read_text(path.string(), kLargestMap));
  NameMap map;
  std::set<std::string> taken;
  std::int64_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string old_name, word;
    std::vector<std::string> new_names;
    if (!(words >> old_name)) continue;
    while (words >> word) new_names.push_back(word);
    if (new_names.empty()) {
      throw malformed(path.string(), number, 0, "an old name and a new one", line);
    }
    for (const std::string& name : new_names) {
      if (taken.insert(name).second) continue;
      throw malformed(path.string(), number, 0, "a new name that no other line has", name);
    }
    if (map.names_.contains(old_name)) {
      throw malformed(path.string(), number, 0, "an old name that no other line has", old_name);
    }
    map.add(std::move(old_name), std::move(new_names));
  }
  if (map.names_.empty()) {
    throw malformed(path.string(), 0, 0, "lines of an old name and a new one", "none");
  }
  return map;
}

std::vector<std::string> NameMap::unknown(
    const std::function<bool(const std::string&)>& is_known) const {
  std::vector<std::string> names;
  for (const auto& [old_name, new_names] : names_) {
    if (!is_known(old_name)) names.push_back(old_name);
  }
  return names;
}

void NameMap::add(std::string old_name, std::vector<std::string> new_names) {
  names_[std::move(old_name)] = std::move(new_names);
}

const std::string& NameMap::new_name(const std::string& old_name) const {
  const auto found = names_.find(old_name);
  return found != names_.end() && found->second.size() == 1 ? found->second[0] : old_name;
}

void NameMap::rename(WholeTensors& tensors) const {
  for (const auto& [old_name, new_names] : names_) {
    if (new_names.size() == 1) tensors.fuse({old_name}, new_names[0]);
  }
}

void NameMap::fuse(WholeTensors& tensors) const {
  for (const auto& [old_name, new_names] : names_) {
    if (new_names.size() > 1) tensors.fuse(new_names, old_name);
  }
}

namespace {

/// Throws unless the files in a folder are those that its ranks wrote.
void require_own_files(const std::filesystem::path& folder, const std::string& identity,
                       const std::optional<ManifestSeal>& seal, int processes) {
  if (!seal) return;
  const auto faults = manifest_faults(folder, processes, identity, *seal);
  if (faults.empty()) return;
  throw unreadable(folder.string(), faults.front(), "Copy the whole folder of the run again");
}

void require_own_files(const JobRecord& job, const std::filesystem::path& root) {
  if (job.parts.empty()) {
    require_own_files(root / job.folder, execution_identity(job), job.manifest, job.processes);
  }
  for (const JobPart& part : job.parts) {
    require_own_files(root / part.folder, execution_identity(part), part.manifest, job.processes);
  }
}

/// The rows of steps that agree are read, too, so no index can hide a difference.
std::shared_ptr<const StepView> rows_in(const StepReader& reader, std::int64_t step) {
  try {
    return reader.at(step);
  } catch (const StaleIndex& stale) {
    throw unreadable(stale.journal().string(), stale.what(),
                     "Copy the whole folder of the run again");
  }
}

}  // namespace

SideFiles::SideFiles(JobRecord job, const std::filesystem::path& root, std::string shown)
    : job_(std::move(job)), shown_(std::move(shown)) {
  require_own_files(job_, root);
  reader_ = open_execution(root, job_, writers_of(job_, root), {.has_all_sketches = true});
}

SideFiles::SideFiles(const CellRecord& cell, const std::filesystem::path& root, std::string shown,
                     int copy)
    : shown_(std::move(shown)) {
  require_own_files(root / cell.folder, execution_identity(cell.cell), cell.manifest,
                    cell.processes);
  static_cast<Execution&>(job_) = cell;
  job_.title = title_of(cell.cell);
  job_.world_size = cell.cell.world_size;
  const bool is_reference = cell.cell.role == Role::reference;
  const std::string& reference = is_reference ? cell.folder : cell.reference_folder;
  if (has_axis(cell.cell, "tiles")) add_size(number_on(cell.cell, "tiles"), "tiles", sizes_);
  if (has_axis(cell.cell, "accumulation")) {
    add_size(number_on(cell.cell, "accumulation"), "micro-batches", sizes_);
  }
  if (!reference.empty()) samples_ = fmt::format("{} with seed {}", reference, cell.cell.seed);
  if (is_reference) {
    process_ = copy;
    job_.world_size = 1;
  }
  reader_ = open_execution(root, cell, writers_of(cell));
}

std::shared_ptr<const StepView> SideFiles::at(std::int64_t step) const {
  auto view = rows_in(*reader_, step);
  return process_ ? std::make_shared<const StepView>(view->only(*process_)) : view;
}

void SideFiles::add_sizes(JobSizes& sizes) const {
  for (const NamedGroup& group : job_.groups) {
    add_size(group.size, fmt::format("ranks of {}", group.name), sizes.groups);
  }
  for (const KnownSize& size : sizes_) add_size(size.count, size.what, sizes.others);
}

bool SideFiles::has_any(Kind kind) const {
  const auto& tensors = reader_->tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& observed) { return observed.tensor.kind == kind; });
}

bool SideFiles::has_named(const std::string& name) const {
  const auto& tensors = reader_->tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& observed) { return observed.tensor.name == name; });
}

ComparedSide side_of(const SideFiles& files) {
  ComparedSide side;
  side.folder = files.shown();
  side.title = files.job().title;
  side.label = files.job().label;
  side.world_size = files.job().world_size;
  if (files.job().host_memory) side.peak_bytes = files.job().host_memory->most;
  if (files.job().device_memory) side.peak_device_bytes = files.job().device_memory->most;
  side.steps = static_cast<std::int64_t>(files.steps().size());
  side.has_modules = files.has_any(Kind::module_output) || files.has_any(Kind::module_gradient);
  return side;
}

bool SideFiles::has(std::int64_t step) const {
  return std::binary_search(reader_->steps().begin(), reader_->steps().end(), step);
}

}  // namespace lockstep
