#include "harness/sim/pinned_memory.h"

#include <c10/core/CPUAllocator.h>

#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace lockstep::sim {
namespace {

struct Pinned {
  std::mutex mutex;
  std::unordered_set<const void*> all;
};

// Never destroyed, because tensors of static objects are freed last.
Pinned& pinned() {
  static auto* const instance = new Pinned;
  return *instance;
}

class Allocation {
 public:
  explicit Allocation(c10::DataPtr host) : host_(std::move(host)) {
    const std::lock_guard lock(pinned().mutex);
    pinned().all.insert(host_.get());
  }
  ~Allocation() {
    const std::lock_guard lock(pinned().mutex);
    pinned().all.erase(host_.get());
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  void* data() const { return host_.get(); }

 private:
  c10::DataPtr host_;
};

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, cpu};
    auto allocation = std::make_unique<Allocation>(c10::GetCPUAllocator()->allocate(bytes));
    void* data = allocation->data();
    return {data, allocation.release(),
            [](void* context) { delete static_cast<Allocation*>(context); }, cpu};
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static auto* const instance = new PinnedAllocator;
  return instance;
}

bool is_pinned(const void* data) {
  const std::lock_guard lock(pinned().mutex);
  return pinned().all.contains(data);
}

}  // namespace lockstep::sim
