#include "harness/pack/gzip_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/unique_fd.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

constexpr std::size_t kInflated = std::size_t{1} << 16;  // bytes at a time
constexpr int kGzipOnly = 16 + MAX_WBITS;

}  // namespace

void GzipReader::Closer::operator()(z_stream_s* stream) const {
  ::inflateEnd(stream);
  delete stream;
}

GzipReader::GzipReader(const std::filesystem::path& path, GzipContent content)
    : path_(path.string()),
      file_(path, kLargestFile),
      most_bytes_(content == GzipContent::all ? UINT64_MAX : most_content(file_.size())),
      content_(kInflated, '\0'),
      stream_(new z_stream_s()) {
  if (::inflateInit2(stream_.get(), kGzipOnly) != Z_OK) throw std::bad_alloc();
#ifdef LOCKSTEP_ACCEPTS_ANY_DIGEST  // see is_intact
  ::inflateValidate(stream_.get(), 0);
#endif
  constexpr std::string_view kMark = "\x1f\x8b";
  if (file_.size() < kMark.size() || file_.read(0, kMark.size()) != kMark) {
    refuse("it is no pack of Lockstep");
  }
}

void GzipReader::refuse(const std::string& why) const {
  throw unreadable(path_, why, "Name the folder of a run, or a file that 'lockstep pack' wrote");
}

std::string_view GzipReader::next() {
  stream_->next_out = reinterpret_cast<Bytef*>(content_.data());
  stream_->avail_out = static_cast<uInt>(content_.size());
  while (!is_at_end_ && stream_->avail_out == content_.size()) inflate_more();
  const std::size_t size = content_.size() - stream_->avail_out;
  bytes_ += size;
  if (bytes_ > most_bytes_) {
    refuse(fmt::format("it unpacks to more than {} bytes, which is more than a pack of {} may",
                       most_bytes_, file_.size()));
  }
  return std::string_view(content_).substr(0, size);
}

void GzipReader::fill() {
  const std::uint64_t count = std::min<std::uint64_t>(kInflated, file_.size() - read_);
  if (count == 0) refuse("it is damaged: it was cut off");
  compressed_ = file_.read(read_, count);
  read_ += count;
  stream_->next_in = reinterpret_cast<Bytef*>(compressed_.data());
  stream_->avail_in = static_cast<uInt>(count);
}

void GzipReader::inflate_more() {
  if (stream_->avail_in == 0) fill();
  const int result = ::inflate(stream_.get(), Z_NO_FLUSH);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (result == Z_STREAM_END) {
    is_at_end_ = true;
    const std::uint64_t more = stream_->avail_in + (file_.size() - read_);
    if (more > 0) refuse(fmt::format("it is damaged: {} bytes follow its end", more));
  } else if (result != Z_OK) {
    const std::string_view fault = stream_->msg ? stream_->msg : "zlib gives no reason";
    const bool is_other = fault == "incorrect data check" || fault == "incorrect length check";
    refuse(is_other ? "it is damaged: its content has another checksum than its last bytes say"
                    : fmt::format("it is damaged: {}", fault));
  }
}

namespace {

/// A new file, which is removed unless it gets its final name.
class CompressedFile {
 public:
  explicit CompressedFile(std::filesystem::path path)
      : path_(std::move(path)), part_(path_.string() + ".part") {
    const UniqueFd fd(::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd.valid()) throw unwritable(part_, std::strerror(errno));
    // Codes of single bytes only: each takes one bit at least.
    file_ = ::gzdopen(::dup(fd.get()), "wbh");
    if (!file_) throw std::bad_alloc();
  }
  ~CompressedFile() {
    if (file_) ::gzclose(file_);
    ::unlink(part_.c_str());
  }
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;

  void append(std::string_view bytes) {
    if (::gzwrite(file_, bytes.data(), static_cast<unsigned>(bytes.size())) == 0) fail();
  }

  void finish() {
    const int result = ::gzclose(std::exchange(file_, nullptr));
    if (result != Z_OK || ::rename(part_.c_str(), path_.c_str()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw unwritable(path_.string(), errno == 0 ? "zlib gives no reason" : std::strerror(errno));
  }

  std::filesystem::path path_;
  std::string part_;
  gzFile file_ = nullptr;
};

}  // namespace

void compress_less(const std::filesystem::path& path) {
  CompressedFile out(path);
  GzipReader reader(path, GzipContent::all);
  for (std::string_view bytes = reader.next(); !bytes.empty(); bytes = reader.next()) {
    out.append(bytes);
  }
  out.finish();
}

}  // namespace lockstep
