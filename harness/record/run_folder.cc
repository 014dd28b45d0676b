#include "harness/record/run_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "harness/record/sound_record.h"
#include "harness/record/whole_file.h"
#include "reports/base/file_limits.h"
#include "reports/base/private_files.h"
#include "reports/base/regular_file.h"
#include "reports/base/unique_fd.h"
#include "reports/base/usage_error.h"
#include "reports/record/json.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace fs = std::filesystem;

fs::path repetition_folder(const fs::path& run, int number) {
  return run / fmt::format("repeat-{}", number);
}

void make_folders(const fs::path& folder) {
  std::error_code failure;
  if (folder.empty() || fs::is_directory(folder, failure)) return;
  if (folder.has_parent_path() && folder.parent_path() != folder) {
    make_folders(folder.parent_path());
  }
  if (::mkdir(folder.c_str(), mode_of_new_folder(folder)) == 0) return;
  const int error = errno;
  if (!fs::is_directory(folder, failure)) throw unwritable(folder.string(), std::strerror(error));
}

namespace {

fs::path record_file(const fs::path& folder) { return folder / "record.json"; }

void take_folder(const fs::path& folder, Readers readers) {
  std::error_code failure;
  const fs::file_status status = fs::status(folder, failure);
  if (fs::exists(status) && !fs::is_directory(status)) {
    throw unwritable(folder.string(), "it is a file", "Name a folder that does not exist yet");
  }
  if (fs::exists(status) && !fs::is_empty(folder, failure)) {
    throw not_empty(folder.string());
  }
  make_private_folder(folder, readers);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw unwritable(folder.string(), std::strerror(errno));
  }
}

/// runs/20261120T185246Z, with -2, -3 ... appended if another run has the name.
fs::path make_new_folder(const fs::path& runs, std::string name, Readers readers) {
  std::erase_if(name, [](char c) { return c == '-' || c == ':'; });
  make_folders(runs);
  for (int attempt = 1;; ++attempt) {
    fs::path folder = runs / (attempt == 1 ? name : fmt::format("{}-{}", name, attempt));
    if (::mkdir(folder.c_str(), mode_of_run_folder(readers)) == 0) return folder;
    if (errno != EEXIST) throw unwritable(folder.string(), std::strerror(errno));
  }
}

fs::path latest_of(const fs::path& runs) { return runs / "latest"; }

/// A file that Lockstep did not create is not replaced.
void require_replaceable(const fs::path& latest) {
  std::error_code failure;
  const fs::file_status status = fs::symlink_status(latest, failure);
  if (!fs::exists(status) || fs::is_symlink(status)) return;
  throw unwritable(latest.string(),
                   fmt::format("it is a {}, but must be the link to the last run",
                               fs::is_directory(status) ? "folder" : "file"),
                   "Move it away, or name a folder with --out");
}

/// `latest` is a convenience: if two runs write it at the same moment, the later one wins.
void point_latest_to(const fs::path& folder) {
  const fs::path link = latest_of(folder.parent_path());
  const fs::path fresh = folder.parent_path() / fmt::format(".latest-{}", ::getpid());
  std::error_code failure;
  fs::create_symlink(folder.filename(), fresh, failure);
  if (!failure) fs::rename(fresh, link, failure);
  if (failure) throw unwritable(link.string(), failure.message());
}

}  // namespace

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

fs::path make_run_folder(const std::string& asked, const RunRecord& run, Readers readers) {
  if (!asked.empty()) {
    take_folder(asked, readers);
    save_new_record(asked, run);
    return asked;
  }
  const fs::path runs = "runs";
  require_replaceable(latest_of(runs));
  fs::path folder = make_new_folder(runs, run.environment.started_utc, readers);
  save_new_record(folder, run);
  point_latest_to(folder);
  return folder;
}

bool mend_latest(const fs::path& runs, const fs::path& newest) {
  const fs::path link = latest_of(runs);
  std::error_code failure;
  if (!fs::is_symlink(fs::symlink_status(link, failure)) || fs::exists(link, failure)) return false;
  if (!newest.empty()) {
    point_latest_to(newest);
    return true;
  }
  fs::remove(link, failure);
  if (failure) throw unwritable(link.string(), failure.message());
  return true;
}

void save_new_record(const fs::path& folder, const RunRecord& run) {
  const fs::path file = record_file(folder);
  const UniqueFd fd(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_of_new_file(file)));
  if (!fd.valid() && errno == EEXIST) throw not_empty(folder.string());
  if (!fd.valid()) throw unwritable(file.string(), std::strerror(errno));
  if (write_all(fd.get(), render_json(run))) return;
  const int error = errno;
  ::unlink(file.c_str());
  throw unwritable(file.string(), std::strerror(error));
}

void save_record(const fs::path& folder, const RunRecord& run) {
  write_whole_file(record_file(folder), render_json(run));
}

fs::path run_folder_of(const std::string& named) {
  fs::path path = named;
  std::error_code failure;
  const bool is_record = path.filename() == "record.json" && !fs::is_directory(path, failure);
  if (!is_record) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

RunRecord load_record(const fs::path& folder) {
  constexpr const char* kRemedy = "Name the folder of a run";
  std::error_code failure;
  if (folder.empty()) throw unreadable("", "the path is empty", kRemedy);
  if (!fs::exists(folder, failure)) {
    throw unreadable(folder.string(), failure ? failure.message() : "there is no such folder",
                     kRemedy);
  }
  if (!fs::is_directory(folder, failure)) {
    throw unreadable(folder.string(), "it is a file", kRemedy);
  }
  const fs::path file = record_file(folder);
  if (!fs::exists(file, failure)) {
    throw unreadable(folder.string(), failure ? failure.message() : "it holds no record.json",
                     kRemedy);
  }
  RunRecord run = without_secrets(read_json(read_text(file, kLargestRecord), file.string()));
  require_sound(run, folder);
  return run;
}

}  // namespace lockstep
