#include "harness/train/autograd/saved_tensor_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <utility>

namespace lockstep {

namespace {

namespace autograd = torch::autograd;

thread_local const Pack* innermost = nullptr;

/// Autograd's replacement for one saved tensor.
class PackedTensor : public autograd::SavedVariableHooks {
 public:
  explicit PackedTensor(const Pack& pack) : pack_(pack) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    const WithoutSavedTensorHooks no_hooks;
    unpack_ = pack_(tensor);
  }

  at::Tensor call_unpack_hook() override {
    const WithoutSavedTensorHooks no_hooks;
    return unpack_();
  }

 private:
  const Pack& pack_;  ///< destroyed with its scope: called only while autograd constructs this
  Unpack unpack_;
};

class HookedEngine : public autograd::Engine {
 public:
  /// torch starts the threads of one engine per process. If a backward has already run with another
  /// engine, this one would have none.
  HookedEngine() {
    initialize_device_threads_pool();
    if (!thread_pool_shared_) start_device_threads();
  }

  std::unique_ptr<autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return innermost == nullptr ? nullptr : std::make_unique<PackedTensor>(*innermost);
  }
};

/// Never destroyed, because threads that it started may outlive `main`.
autograd::Engine& hooked_engine() {
  static auto* const engine = new HookedEngine();
  return *engine;
}

void install_engine() {
  static const bool is_installed = [] {
    autograd::set_default_engine_stub(hooked_engine);
    return true;
  }();
  static_cast<void>(is_installed);
}

}  // namespace

SavedTensorHooks::SavedTensorHooks(Pack pack)
    : pack_(std::move(pack)), outer_(std::exchange(innermost, &pack_)) {
  install_engine();
}

SavedTensorHooks::~SavedTensorHooks() { innermost = outer_; }

WithoutSavedTensorHooks::WithoutSavedTensorHooks() : outer_(std::exchange(innermost, nullptr)) {}

WithoutSavedTensorHooks::~WithoutSavedTensorHooks() { innermost = outer_; }

}  // namespace lockstep
