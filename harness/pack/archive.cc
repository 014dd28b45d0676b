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
#include <system_error>
#include <utility>

#include "harness/record/appended_file.h"
#include "harness/record/run_folder.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/regular_file.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = kMebibyte;

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
    : path_(std::move(path)), limits_(limits), archive_(archive_write_new()) {
  archive* const out = archive_.get();
  const bool is_ready =
      archive_write_add_filter_gzip(out) == ARCHIVE_OK &&
      archive_write_set_filter_option(out, "gzip", "timestamp", nullptr) == ARCHIVE_OK &&
      archive_write_set_format_pax_restricted(out) == ARCHIVE_OK &&
      // Names are bytes, as those of files are: libarchive would convert them from the locale's
      // characters, and there are none in "C".
      archive_write_set_format_option(out, nullptr, "hdrcharset", "BINARY") == ARCHIVE_OK;
  if (!is_ready) refuse(fault_of(out));
  file_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file_.valid() && errno == EEXIST) {
    throw unwritable(path_.string(), "it exists, and a pack never replaces a file",
                     "Name another file with --out");
  }
  if (!file_.valid()) refuse(std::strerror(errno));
  if (archive_write_open_fd(out, file_.get()) != ARCHIVE_OK) {
    ::unlink(path_.c_str());
    refuse(fault_of(out));
  }
}

ArchiveWriter::~ArchiveWriter() {
  archive_.reset();
  if (!is_finished_) ::unlink(path_.c_str());
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
  is_finished_ = true;
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

/// One archive being unpacked.
class Unpacking {
 public:
  Unpacking(const fs::path& file, fs::path folder, const ArchiveLimits& limits)
      : file_(file), folder_(std::move(folder)), limits_(limits), archive_(archive_read_new()) {
    require_compressed();
    archive_read_support_filter_gzip(archive_.get());
    archive_read_support_format_tar(archive_.get());
    if (archive_read_open_filename(archive_.get(), file.c_str(), kChunk) != ARCHIVE_OK) {
      refuse(damage());
    }
  }

  fs::path run() {
    archive_entry* entry = nullptr;
    while (has_next(&entry)) take(entry);
    if (top_.empty()) refuse("it is no pack of Lockstep");
    return folder_ / top_;
  }

 private:
  struct Closer {
    void operator()(archive* handle) const { archive_read_free(handle); }
  };

  /// `why` may contain names from the archive.
  [[noreturn]] void refuse(const std::string& why) const {
    throw unreadable(file_.string(), plain(why), kPackRemedy);
  }

  /// Also refuses a named pipe, for which libarchive would wait.
  void require_compressed() const {
    constexpr std::string_view kMark = "\x1f\x8b";
    const RegularFile source(file_, kLargestFile);
    const bool is_compressed =
        source.size() >= kMark.size() && source.read(0, kMark.size()) == kMark;
    if (!is_compressed) refuse("it is no pack of Lockstep");
  }

  bool has_next(archive_entry** entry) {
    const int result = archive_read_next_header(archive_.get(), entry);
    if (result != ARCHIVE_OK && result != ARCHIVE_EOF) refuse(damage());
    return result == ARCHIVE_OK;
  }

  std::string damage() const { return "it is damaged: " + fault_of(archive_.get()); }

  void take(archive_entry* entry) {
    if (++members_ > limits_.members) {
      refuse(fmt::format("it holds more than {} files", limits_.members));
    }
    const char* const text = archive_entry_pathname(entry);
    const std::string name = fs::path(text ? text : "").lexically_normal();
    require_inside(name);
    const auto type = archive_entry_filetype(entry);
    const bool is_link = archive_entry_hardlink(entry) || archive_entry_symlink(entry);
    if (is_link || (type != AE_IFREG && type != AE_IFDIR)) {
      refuse(fmt::format("its member '{}' is neither a file nor a folder", name));
    }
    if (type == AE_IFDIR) return make_folders(folder_ / name);
    make_folders((folder_ / name).parent_path());
    copy(name);
  }

  /// A member must not be written over anything, be it outside the folder or another member.
  void require_inside(const std::string& name) {
    const fs::path path(name);
    if (!goes_down(path)) refuse(fmt::format("its member '{}' leads out of it", name));
    if (top_.empty()) top_ = path.begin()->string();
    if (*path.begin() != top_) refuse("its members lie in several folders");
  }

  void copy(const std::string& name) {
    const fs::path target = folder_ / name;
    std::error_code missing;
    if (fs::exists(target, missing)) {
      refuse(fmt::format("its member '{}' is there twice", name));
    }
    AppendedFile out(target);
    std::string chunk(kChunk, '\0');
    std::uint64_t size = 0;
    for (;;) {
      const la_ssize_t count = archive_read_data(archive_.get(), chunk.data(), chunk.size());
      if (count < 0) refuse(damage());
      if (count == 0) return;
      size += static_cast<std::uint64_t>(count);
      bytes_ += static_cast<std::uint64_t>(count);
      if (size > limits_.bytes_of_member || bytes_ > limits_.bytes) {
        refuse(fmt::format("it unpacks to more than {} MiB, or {} MiB in one file",
                           limits_.bytes / kMebibyte, limits_.bytes_of_member / kMebibyte));
      }
      out.append(std::string_view(chunk).substr(0, static_cast<std::size_t>(count)));
    }
  }

  const fs::path& file_;
  fs::path folder_;
  ArchiveLimits limits_;
  std::unique_ptr<archive, Closer> archive_;
  std::string top_;
  std::uint64_t members_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

fs::path unpack(const fs::path& file, const fs::path& folder, const ArchiveLimits& limits) {
  return Unpacking(file, folder, limits).run();
}

}  // namespace lockstep
