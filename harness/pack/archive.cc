#include "harness/pack/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include "harness/pack/gzip_reader.h"
#include "harness/record/appended_file.h"
#include "harness/record/run_folder.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/regular_file.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{1} << 16;  // of a file at a time

struct EntryCloser {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

std::string fault_of(archive* handle) {
  const char* const text = archive_error_string(handle);
  return text ? text : "libarchive gives no reason";
}

}  // namespace

void ArchiveWriter::Closer::operator()(archive* handle) const { archive_write_free(handle); }

ArchiveWriter::ArchiveWriter(fs::path path, const ArchiveLimits& limits)
    : path_(std::move(path)),
      unfinished_(temporary_name(path_)),
      limits_(limits),
      archive_(archive_write_new()) {
  std::error_code missing;
  if (fs::exists(fs::symlink_status(path_, missing))) refuse_to_replace();
  archive* const out = archive_.get();
  const bool is_ready =
      archive_write_add_filter_gzip(out) == ARCHIVE_OK &&
      archive_write_set_filter_option(out, "gzip", "timestamp", nullptr) == ARCHIVE_OK &&
      archive_write_set_format_pax_restricted(out) == ARCHIVE_OK &&
      // Names are bytes, as those of files are: libarchive would convert them from the locale's
      // characters, and there are none in "C".
      archive_write_set_format_option(out, nullptr, "hdrcharset", "BINARY") == ARCHIVE_OK;
  if (!is_ready) refuse(fault_of(out));
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
  file_ = UniqueFd(::open(unfinished_.c_str(), kNew, 0600));
  if (!file_.valid()) refuse(std::strerror(errno));
  if (archive_write_open_fd(out, file_.get()) != ARCHIVE_OK) {
    ::unlink(unfinished_.c_str());
    refuse(fault_of(out));
  }
}

ArchiveWriter::~ArchiveWriter() {
  archive_.reset();
  if (!is_finished_) ::unlink(unfinished_.c_str());
}

void ArchiveWriter::refuse_to_replace() const {
  throw unwritable(path_.string(), "it exists, and a pack never replaces a file",
                   "Name another file with --out");
}

void ArchiveWriter::add_text(const std::string& name, std::string_view text) {
  begin(name, text.size());
  write(text);
}

void ArchiveWriter::add_file(const std::string& name, const fs::path& file) {
  const RegularFile source(file, kLargestFile);
  begin(name, source.size());
  for (std::uint64_t at = 0; at < source.size(); at += kChunk) {
    write(source.read(at, std::min<std::uint64_t>(kChunk, source.size() - at)));
  }
}

void ArchiveWriter::finish() {
  if (archive_write_close(archive_.get()) != ARCHIVE_OK) refuse(fault_of(archive_.get()));
  const auto content = static_cast<std::uint64_t>(archive_filter_bytes(archive_.get(), 0));
  if (content > most_content(fs::file_size(unfinished_))) compress_less(unfinished_);
  publish();
  is_finished_ = true;
}

/// Under its own name, which nothing else may have got meanwhile.
void ArchiveWriter::publish() const {
  if (::link(unfinished_.c_str(), path_.c_str()) == 0) {
    ::unlink(unfinished_.c_str());
    return;
  }
  if (errno == EEXIST) refuse_to_replace();
  // Some file systems have no links.
  if (::rename(unfinished_.c_str(), path_.c_str()) != 0) refuse(std::strerror(errno));
}

void ArchiveWriter::begin(const std::string& name, std::uint64_t size) {
  bytes_ += size;
  if (bytes_ > limits_.bytes || ++members_ > limits_.members) {
    throw unwritable(path_.string(),
                     fmt::format("the run is larger than a pack may be, {} MiB in {} files",
                                 limits_.bytes / kMebibyte, limits_.members),
                     "Pack its findings only, with --findings-only");
  }
  const std::unique_ptr<archive_entry, EntryCloser> entry(archive_entry_new());
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0600);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
  if (archive_write_header(archive_.get(), entry.get()) != ARCHIVE_OK) {
    refuse(fault_of(archive_.get()));
  }
}

void ArchiveWriter::write(std::string_view bytes) {
  if (archive_write_data(archive_.get(), bytes.data(), bytes.size()) < 0) {
    refuse(fault_of(archive_.get()));
  }
}

void ArchiveWriter::refuse(const std::string& why) const { throw unwritable(path_.string(), why); }

namespace {

constexpr const char* kPackRemedy =
    "Name the folder of a run, or a file that 'lockstep pack' wrote";

/// Whether a normal path names something below a folder.
bool goes_down(const fs::path& path) {
  const std::string text = path;
  const bool is_plain = std::none_of(text.begin(), text.end(), [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c)) != 0;
  });
  return is_plain && !path.empty() && path.is_relative() && *path.begin() != ".." &&
         *path.begin() != ".";
}

/// One archive being read.
class Unpacking {
 public:
  Unpacking(const fs::path& file, const ArchiveLimits& limits)
      : file_(file), limits_(limits), content_(file), archive_(archive_read_new()) {
    archive_read_support_format_tar(archive_.get());
    if (archive_read_open(archive_.get(), this, nullptr, read_content, nullptr) != ARCHIVE_OK) {
      refuse_damage();
    }
  }

  fs::path unpack_into(const fs::path& folder, const IsWanted& is_wanted) {
    while (const auto member = next()) {
      if (member->is_folder || (is_wanted && !is_wanted(member->below))) continue;
      const fs::path target = folder / member->path;
      make_parent(target.parent_path());
      std::error_code missing;
      if (fs::exists(target, missing)) {
        refuse(fmt::format("its member '{}' is there twice", member->path.string()));
      }
      AppendedFile out(target);
      read_data([&](std::string_view bytes) { out.append(bytes); });
    }
    if (top_.empty()) refuse("it is no pack of Lockstep");
    require_sound_end();
    make_folders(folder / top_);
    return folder / top_;
  }

  std::optional<std::string> text_of(const std::string& name) {
    while (const auto member = next()) {
      if (member->is_folder || member->below != name) continue;
      std::string text;
      read_data([&](std::string_view bytes) { text += bytes; });
      return text;
    }
    return std::nullopt;
  }

 private:
  struct Closer {
    void operator()(archive* handle) const { archive_read_free(handle); }
  };
  struct Found {
    fs::path path;   ///< in the archive
    fs::path below;  ///< in its folder
    bool is_folder = false;
  };

  /// libarchive calls it, through which no exception can pass.
  static la_ssize_t read_content(archive* handle, void* self, const void** bytes) {
    auto& unpacking = *static_cast<Unpacking*>(self);
    try {
      const std::string_view next = unpacking.content_.next();
      *bytes = next.data();
      return static_cast<la_ssize_t>(next.size());
    } catch (...) {
      unpacking.failure_ = std::current_exception();
      archive_set_error(handle, EIO, "its content cannot be read");
      return ARCHIVE_FATAL;
    }
  }

  /// `why` may contain names from the archive.
  [[noreturn]] void refuse(const std::string& why) const {
    throw unreadable(file_.string(), plain(why), kPackRemedy);
  }

  [[noreturn]] void refuse_damage() const {
    if (failure_) std::rethrow_exception(failure_);
    refuse("it is damaged: " + fault_of(archive_.get()));
  }

  /// The next member; empty: that was the last.
  std::optional<Found> next() {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return std::nullopt;
    if (result != ARCHIVE_OK) refuse_damage();
    if (++members_ > limits_.members) {
      refuse(fmt::format("it holds more than {} files", limits_.members));
    }
    const char* const text = archive_entry_pathname(entry);
    Found member{fs::path(text ? text : "").lexically_normal(), {}, false};
    const auto type = archive_entry_filetype(entry);
    member.is_folder = type == AE_IFDIR;
    require_inside(member.path);
    const bool is_link = archive_entry_hardlink(entry) || archive_entry_symlink(entry);
    if (is_link || (type != AE_IFREG && type != AE_IFDIR)) {
      refuse(fmt::format("its member '{}' is neither a file nor a folder", member.path.string()));
    }
    member.below = member.path.lexically_relative(top_);
    return member;
  }

  /// A member must not be written over anything, be it outside the folder or another member.
  void require_inside(const fs::path& path) {
    constexpr std::ptrdiff_t kDeepest = 64;
    if (!goes_down(path)) refuse(fmt::format("its member '{}' leads out of it", path.string()));
    if (top_.empty()) top_ = path.begin()->string();
    if (*path.begin() != top_) refuse("its members lie in several folders");
    if (std::distance(path.begin(), path.end()) > kDeepest) {
      refuse(
          fmt::format("its member '{:.80}' lies in more than {} folders", path.string(), kDeepest));
    }
  }

  void make_parent(const fs::path& folder) {
    if (folder != parent_) make_folders(folder);
    parent_ = folder;
  }

  /// Passes the data of the member on.
  template <class Take>
  void read_data(const Take& take) {
    std::uint64_t size = 0;
    for (;;) {
      const la_ssize_t count = archive_read_data(archive_.get(), chunk_.data(), chunk_.size());
      if (count < 0) refuse_damage();
      if (count == 0) return;
      size += static_cast<std::uint64_t>(count);
      bytes_ += static_cast<std::uint64_t>(count);
      require_limits(size);
      take(std::string_view(chunk_).substr(0, static_cast<std::size_t>(count)));
    }
  }

  /// Files may have holes, which take no room in the archive.
  void require_limits(std::uint64_t size) const {
    const std::uint64_t most = std::min(limits_.bytes, content_.most_bytes());
    if (size <= limits_.bytes_of_member && bytes_ <= most) return;
    refuse(fmt::format("it unpacks to more than {} MiB, or {} MiB in one file", most / kMebibyte,
                       limits_.bytes_of_member / kMebibyte));
  }

  /// The checksum follows the content.
  void require_sound_end() {
    while (!content_.next().empty()) {
    }
  }

  const fs::path& file_;
  ArchiveLimits limits_;
  GzipReader content_;
  std::exception_ptr failure_;
  std::unique_ptr<archive, Closer> archive_;
  std::string chunk_ = std::string(kChunk, '\0');
  std::string top_;
  fs::path parent_;  ///< that was made last
  std::uint64_t members_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

fs::path unpack(const fs::path& file, const fs::path& folder, const ArchiveLimits& limits,
                const IsWanted& is_wanted) {
  return Unpacking(file, limits).unpack_into(folder, is_wanted);
}

std::optional<std::string> read_member(const fs::path& file, const std::string& name,
                                       const ArchiveLimits& limits) {
  return Unpacking(file, limits).text_of(name);
}

}  // namespace lockstep
