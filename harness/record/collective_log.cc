#include "harness/record/collective_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "harness/record/environment.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/private_files.h"
#include "reports/base/regular_file.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "LSCOLLOG";
constexpr std::uint32_t kVersion = 2;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t entry_size;
  std::int32_t rank;
  std::uint32_t unused;
  std::uint64_t count;
  char machine[40];
  char identity[kLongestProcessIdentity];
};

struct Entry {
  std::uint64_t seq;
  std::uint64_t number;
  std::int64_t step;
  std::uint64_t elements;
  std::uint64_t bytes;
  std::int64_t entered_ns;
  std::int64_t completed_ns;
  std::uint32_t tensors;
  std::int32_t root;
  std::int32_t group_size;
  std::int32_t tensor_id;
  std::uint8_t state;
  char unused[7];
  char operation[24];
  char reduction[16];
  char dtype[16];
  char shape[32];
  char group[kLongestGroupName];
  char site[64];
  char tensor[88];
};

// A file is a sequence of slots of one size: the header, then the entries.
constexpr std::uint64_t kSlot = 384;
static_assert(sizeof(Header) == kSlot && sizeof(Entry) == kSlot);
static_assert(std::endian::native == std::endian::little, "the file is little-endian");

constexpr std::uint64_t place_of(std::uint64_t seq) { return (1 + seq) * kSlot; }

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

template <std::size_t N>
void put(char (&field)[N], std::string_view text) {
  std::copy_n(text.begin(), std::min(N, text.size()), field);
}

template <std::size_t N>
std::string get(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

const std::string& this_machine() {
  static const std::string id = boot_id();
  return id;
}

void fill(Entry& entry, const Collective& collective) {
  entry.seq = collective.seq;
  entry.number = collective.number;
  entry.step = collective.step;
  entry.elements = collective.elements;
  entry.bytes = collective.bytes;
  entry.entered_ns = collective.entered_ns;
  entry.completed_ns = collective.completed_ns;
  entry.tensors = collective.tensors;
  entry.root = collective.root;
  entry.group_size = collective.group_size;
  entry.tensor_id = collective.tensor_id;
  entry.state = static_cast<std::uint8_t>(collective.state);
  put(entry.operation, collective.operation);
  put(entry.reduction, collective.reduction);
  put(entry.dtype, collective.dtype);
  put(entry.shape, collective.shape);
  put(entry.group, collective.group);
  put(entry.site, collective.site);
  put(entry.tensor, collective.tensor);
}

bool is_known(std::uint8_t state) { return state < Names<CollectiveState>::values.size(); }

Collective collective_of(const Entry& entry) {
  return {.seq = entry.seq,
          .number = entry.number,
          .step = entry.step,
          .operation = get(entry.operation),
          .reduction = get(entry.reduction),
          .dtype = get(entry.dtype),
          .shape = get(entry.shape),
          .tensors = entry.tensors,
          .elements = entry.elements,
          .bytes = entry.bytes,
          .root = entry.root,
          .group_size = entry.group_size,
          .group = get(entry.group),
          .tensor = get(entry.tensor),
          .tensor_id = entry.tensor_id,
          .site = get(entry.site),
          .state = static_cast<CollectiveState>(entry.state),
          .entered_ns = entry.entered_ns,
          .completed_ns = entry.completed_ns};
}

}  // namespace

std::string to_bytes(const Collective& collective) {
  Entry entry{};
  fill(entry, collective);
  std::string bytes(kSlot, '\0');
  std::memcpy(bytes.data(), &entry, kSlot);
  return bytes;
}

Collective collective_of_bytes(const std::string& bytes, const std::string& source) {
  if (bytes.size() != kSlot) {
    throw malformed(source, 0, 0, fmt::format("a collective of {} bytes", kSlot),
                    fmt::format("{} bytes", bytes.size()));
  }
  Entry entry{};
  std::memcpy(&entry, bytes.data(), kSlot);
  if (!is_known(entry.state)) {
    throw malformed(source, 0, 0, "a state of 0 to 2", fmt::format("{}", entry.state));
  }
  return collective_of(entry);
}

std::filesystem::path collective_log_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("collectives-{}.bin", rank);
}

CollectiveLog::CollectiveLog(const std::filesystem::path& path, int rank, std::string_view identity)
    : path_(path.string()),
      file_(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode_of_new_file(path))) {
  if (!file_.valid()) throw unwritable(path_, std::strerror(errno));
  Header header{};
  header.version = kVersion;
  header.entry_size = kSlot;
  header.rank = rank;
  put(header.machine, this_machine());
  put(header.identity, identity);
  // The magic comes last: a process killed earlier has not begun its log.
  write(header, 0);
  put(header.magic, kMagic);
  write(header.magic, offsetof(Header, magic));
}

/// Returns false, with errno set, if not all bytes are written.
template <class Value>
bool CollectiveLog::put_at(std::uint64_t place, const Value& value) const {
  if (!file_.is_own()) return false;
  std::string_view bytes(reinterpret_cast<const char*>(&value), sizeof value);
  while (!bytes.empty()) {  // what does not fit is refused once nothing more does
    const ssize_t size =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(place));
    if (size < 0) return false;
    place += static_cast<std::uint64_t>(size);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

template <class Value>
void CollectiveLog::write(const Value& value, std::uint64_t place) const {
  if (put_at(place, value)) return;
  if (errno == EBADF) throw closed_by_job(path_);
  throw unwritable(path_, std::strerror(errno));
}

std::uint64_t CollectiveLog::enter(const Collective& collective) {
  const std::uint64_t seq = count_;
  Entry entry{};
  fill(entry, collective);
  entry.seq = seq;
  entry.state = static_cast<std::uint8_t>(CollectiveState::entered);
  entry.entered_ns = now_ns();
  entry.completed_ns = 0;
  write(entry, place_of(seq));
  write(seq + 1, offsetof(Header, count));
  count_ = seq + 1;
  return seq;
}

void CollectiveLog::leave(std::uint64_t seq, CollectiveState state) {
  // Without its end the call counts as open; the next one says what is wrong with the file.
  static_cast<void>(
      put_at(place_of(seq) + offsetof(Entry, completed_ns), now_ns()) &&
      put_at(place_of(seq) + offsetof(Entry, state), static_cast<std::uint8_t>(state)));
}

LiveCollectiveLog::LiveCollectiveLog(std::filesystem::path path) : path_(std::move(path)) {}

std::uint64_t LiveCollectiveLog::count() {
  if (!file_.valid()) file_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  Header header{};
  if (!read(header, 0)) return 0;
  if (get(header.magic) != kMagic || header.version != kVersion) return 0;
  if (this_machine().empty() || get(header.machine) != this_machine()) return 0;
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return 0;
  const auto slots = static_cast<std::uint64_t>(status.st_size) / kSlot;
  return header.count < slots ? header.count : 0;
}

template <class Value>
bool LiveCollectiveLog::read(Value& value, std::uint64_t place) const {
  return file_.valid() && ::pread(file_.get(), &value, sizeof value, static_cast<off_t>(place)) ==
                              ssize_t{sizeof value};
}

Collective LiveCollectiveLog::at(std::uint64_t seq) const {
  Entry entry{};
  if (!read(entry, place_of(seq))) entry = {.seq = seq};  // truncated since it was counted
  if (!is_known(entry.state)) entry.state = static_cast<std::uint8_t>(CollectiveState::entered);
  return collective_of(entry);
}

namespace {

/// Reads a log entry by entry; every error names the file.
class LogReader {
 public:
  explicit LogReader(const std::filesystem::path& path)
      : path_(path.string()), file_(path, kLargestCollectiveLog) {
    if (file_.size() < kSlot) refuse("a collective log", fmt::format("{} bytes", file_.size()));
    std::memcpy(&header_, file_.read(0, kSlot).data(), kSlot);
    if (get(header_.magic) != kMagic) refuse("a collective log", get(header_.magic));
    if (header_.version != kVersion) {
      throw other_version(path_, "a collective log", fmt::to_string(header_.version),
                          fmt::to_string(kVersion));
    }
    if (header_.entry_size != kSlot) {
      refuse(fmt::format("entries of {} bytes", kSlot), fmt::to_string(header_.entry_size));
    }
    const std::uint64_t most = file_.size() / kSlot - 1;
    if (header_.count > most) {
      refuse(fmt::format("at most {} entries", most), fmt::format("{}", header_.count));
    }
  }

  RankCollectives read_all() const {
    RankCollectives log{header_.rank, get(header_.identity), {}};
    for (std::uint64_t seq = 0; seq < header_.count; seq += kBlock) {
      const std::uint64_t count = std::min(kBlock, header_.count - seq);
      const std::string bytes = file_.read((1 + seq) * kSlot, count * kSlot);
      for (std::uint64_t i = 0; i < count; ++i) {
        log.calls.push_back(call(seq + i, bytes.data() + i * kSlot));
      }
    }
    return log;
  }

 private:
  static constexpr std::uint64_t kBlock = 4096;  // entries read at a time
  // Calls that other threads had begun but not entered when the rank was killed.
  static constexpr std::uint64_t kMostInFlight = 1024;

  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    throw malformed(path_, 0, 0, expected, found);
  }

  Collective call(std::uint64_t seq, const char* bytes) const {
    Entry entry{};
    std::memcpy(&entry, bytes, kSlot);
    if (entry.seq != seq || !is_known(entry.state)) {
      refuse(fmt::format("entry {} with a state of 0 to 2", seq),
             fmt::format("entry {}, state {}", entry.seq, entry.state));
    }
    // Numbers count the calls of a group, and the judge counts up to the largest.
    const std::uint64_t most = header_.count + kMostInFlight;
    if (entry.number > most) {
      refuse(fmt::format("a number of at most {} in entry {} of {}", most, seq, header_.count),
             fmt::format("{}", entry.number));
    }
    return collective_of(entry);
  }

  std::string path_;
  RegularFile file_;
  Header header_{};
};

}  // namespace

RankCollectives read_log_of_rank(const std::filesystem::path& path) {
  return LogReader(path).read_all();
}

std::vector<Collective> read_collective_log(const std::filesystem::path& path) {
  return read_log_of_rank(path).calls;
}

bool has_collective_log(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return false;
  const RegularFile file(path, kLargestCollectiveLog);
  return file.size() > 0 && file.read(0, 1)[0] != 0;
}

}  // namespace lockstep
