#include "harness/train/autograd/activation_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "reports/base/error.h"

namespace lockstep {

namespace {

/// torch's own allocator has 0.
constexpr std::uint8_t kPriority = 1;

/// Bytes of one kind of memory. Only the counting thread adds; any thread subtracts.
class Gauge {
 public:
  void add(std::int64_t bytes) {
    const std::int64_t now = live_.fetch_add(bytes) + bytes;
    peak_.store(std::max(peak_.load(), now));
  }
  void take(std::int64_t bytes) { live_.fetch_sub(bytes); }

  std::int64_t live() const { return live_.load(); }
  std::int64_t peak() const { return peak_.load(); }

 private:
  std::atomic<std::int64_t> live_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

enum class MemorySide { device, host };

}  // namespace

struct ActivationMemory::Count : std::enable_shared_from_this<Count> {
  Gauge device, host;
  std::shared_ptr<Count> outer;  ///< counts the same allocations

  Gauge& gauge(MemorySide place) { return place == MemorySide::host ? host : device; }
};

namespace {

using Count = ActivationMemory::Count;

thread_local Count* innermost = nullptr;
thread_local int host_scopes = 0;

/// Allocations made while an object counted, by address.
class Ledger {
 public:
  void enter(void* address, std::int64_t bytes, std::shared_ptr<Count> count, MemorySide place) {
    for (Count* each = count.get(); each != nullptr; each = each->outer.get()) {
      each->gauge(place).add(bytes);
    }
    const std::lock_guard lock(mutex_);
    entries_.insert_or_assign(address, Entry{bytes, std::move(count), place});
    size_.store(entries_.size(), std::memory_order_release);
  }

  void strike(void* address) {
    // A thread that frees a counted address also sees that the ledger is not empty.
    if (size_.load(std::memory_order_acquire) == 0) return;
    const Entry entry = take(address);
    for (Count* each = entry.count.get(); each != nullptr; each = each->outer.get()) {
      each->gauge(entry.place).take(entry.bytes);
    }
  }

 private:
  struct Entry {
    std::int64_t bytes = 0;
    std::shared_ptr<Count> count;  ///< null: not counted
    MemorySide place = MemorySide::device;
  };

  Entry take(void* address) {
    const std::lock_guard lock(mutex_);
    auto node = entries_.extract(address);
    size_.store(entries_.size(), std::memory_order_release);
    return node.empty() ? Entry() : std::move(node.mapped());
  }

  std::mutex mutex_;
  std::unordered_map<void*, Entry> entries_;
  std::atomic<std::size_t> size_ = 0;
};

/// Never destroyed, because static tensors are freed later.
Ledger& ledger() {
  static auto* const instance = new Ledger();
  return *instance;
}

c10::Allocator* torch_allocator = nullptr;

void strike_and_free(void* address) {
  ledger().strike(address);
  torch_allocator->raw_deleter()(address);
}

/// torch's allocator with another deleter: memory, addresses and contexts are the same.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr data = torch_allocator->allocate(bytes);
    if (!data.compare_exchange_deleter(torch_allocator->raw_deleter(), strike_and_free)) {
      throw internal_error("torch's CPU allocator does not free with its own deleter");
    }
    if (innermost != nullptr && data.get() != nullptr) {
      ledger().enter(data.get(), static_cast<std::int64_t>(bytes), innermost->shared_from_this(),
                     host_scopes > 0 ? MemorySide::host : MemorySide::device);
    }
    return data;
  }

  c10::DeleterFnPtr raw_deleter() const override { return strike_and_free; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    torch_allocator->copy_data(to, from, bytes);
  }
};

/// False if there is an allocator of higher priority.
bool install_allocator() {
  static CountingAllocator* const allocator = [] {
    torch_allocator = c10::GetCPUAllocator();
    if (torch_allocator->raw_deleter() == nullptr) {
      throw internal_error("torch's CPU allocator has no deleter of its own");
    }
    auto* const counting = new CountingAllocator();
    c10::SetCPUAllocator(counting, kPriority);
    return counting;
  }();
  return c10::GetCPUAllocator() == allocator;
}

}  // namespace

ActivationMemory::ActivationMemory() : count_(std::make_shared<Count>()) {
  if (!install_allocator()) {
    throw internal_error("another CPU allocator was installed, memory cannot be counted");
  }
  if (innermost != nullptr) count_->outer = innermost->shared_from_this();
  innermost = count_.get();
}

ActivationMemory::~ActivationMemory() { innermost = count_->outer.get(); }

std::int64_t ActivationMemory::live() const { return count_->device.live(); }
std::int64_t ActivationMemory::peak() const { return count_->device.peak(); }
std::int64_t ActivationMemory::host_live() const { return count_->host.live(); }
std::int64_t ActivationMemory::host_peak() const { return count_->host.peak(); }

HostMemory::HostMemory() { ++host_scopes; }

HostMemory::~HostMemory() { --host_scopes; }

}  // namespace lockstep
