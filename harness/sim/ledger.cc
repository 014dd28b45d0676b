#include "harness/sim/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "reports/base/error.h"
#include "reports/base/private_files.h"

namespace lockstep::sim {
namespace {

/// Locks belong to the open file, not to the process. They are released at any end of the process,
/// before a parent sees it, and one process may open a ledger more than once.
bool lock_byte(int fd, int byte, short type) {
  struct flock region {};
  region.l_type = type;
  region.l_whence = SEEK_SET;
  region.l_start = byte;
  region.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &region) == 0;
}

}  // namespace

Ledger::Ledger(const std::filesystem::path& path) {
  if (path.empty()) {
    void* memory =
        ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    table_ = static_cast<Table*>(memory);
    return;
  }
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode_of_new_file(path));
  if (fd_ < 0) throw unwritable(path.string(), std::strerror(errno));
  try {
    map(path);
    claim_row(path);
  } catch (...) {
    if (table_) ::munmap(table_, sizeof(Table));
    ::close(fd_);
    throw;
  }
}

Ledger::~Ledger() {
  if (fd_ >= 0) reclaim(table_->of_process[own_row_]);
  ::munmap(table_, sizeof(Table));
  if (fd_ >= 0) ::close(fd_);
}

// The first process extends the file with zeros, which form an empty ledger.
void Ledger::map(const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) throw unwritable(path.string(), std::strerror(errno));
  constexpr auto kSize = static_cast<off_t>(sizeof(Table));
  if (!S_ISREG(status.st_mode) || (status.st_size != 0 && status.st_size != kSize)) {
    throw unwritable(path.string(), "it is no ledger of virtual devices");
  }
  // Allocates blocks, too, so that a full disk is an error here and not a signal at the first
  // write.
  if (const int failure = ::posix_fallocate(fd_, 0, kSize); failure != 0) {
    throw unwritable(path.string(), std::strerror(failure));
  }
  void* memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) throw unwritable(path.string(), std::strerror(errno));
  table_ = static_cast<Table*>(memory);
}

void Ledger::claim_row(const std::filesystem::path& path) {
  for (own_row_ = 0; own_row_ < kMostProcesses; ++own_row_) {
    if (lock_row(own_row_)) {
      reclaim(table_->of_process[own_row_]);
      return;
    }
  }
  throw unwritable(path.string(), "too many processes share its devices");
}

bool Ledger::lock_row(int row) const { return lock_byte(fd_, row, F_WRLCK); }
void Ledger::unlock_row(int row) const { lock_byte(fd_, row, F_UNLCK); }

void Ledger::reclaim(Row& row) {
  for (int device = 0; device < kMostDevices; ++device) {
    table_->used.live[device] -= row.live[device].exchange(0);
  }
}

void Ledger::reclaim_from_ended_processes() {
  if (fd_ < 0) return;
  const std::lock_guard lock(reclaiming_);
  for (int row = 0; row < kMostProcesses; ++row) {
    if (row == own_row_ || !lock_row(row)) continue;
    reclaim(table_->of_process[row]);
    unlock_row(row);
  }
}

std::optional<std::int64_t> Ledger::try_add(int device, std::int64_t bytes, std::int64_t capacity) {
  Bytes& used = table_->used.live[device];
  std::int64_t before = used;
  do {
    if (bytes > capacity - before) return std::nullopt;
  } while (!used.compare_exchange_weak(before, before + bytes));
  return table_->of_process[own_row_].live[device] += bytes;
}

std::optional<std::int64_t> Ledger::add(int device, std::int64_t bytes, std::int64_t capacity) {
  if (const auto live = try_add(device, bytes, capacity)) return live;
  reclaim_from_ended_processes();
  return try_add(device, bytes, capacity);
}

void Ledger::remove(int device, std::int64_t bytes) {
  table_->of_process[own_row_].live[device] -= bytes;
  table_->used.live[device] -= bytes;
}

std::int64_t Ledger::used(int device) const { return table_->used.live[device]; }
std::int64_t Ledger::own(int device) const { return table_->of_process[own_row_].live[device]; }

}  // namespace lockstep::sim
