// A scenario of the catalogue whose backward copies two gradients from the head's device to the
// body's. Each device has a thread. Late copies wait until the other thread has used the copy
// before them.

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "harness/scenario/axes.h"
#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

Scenario loss_gradient_on_head_device();

namespace {

/// Whether a parameter has accumulated a gradient since the last copy began.
std::atomic<bool> is_used = true;

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& node) {
  if (node.name() == std::string("ToCopyBackward0")) {
    is_used.wait(false);
    is_used = false;
  }
  return nullptr;
}

void after(const at::RecordFunction& node, at::ObserverContext* /*context*/) {
  if (node.name() != std::string("torch::autograd::AccumulateGrad")) return;
  is_used = true;
  is_used.notify_all();
}

/// The variants whose only copies are those two.
bool is_wanted(const Variant& variant) {
  return variant.role == Role::reference || variant.name == "hidden-moved-before" ||
         variant.name == "functional-hidden-moved-before";
}

}  // namespace

Scenario late_copies() {
  Scenario scenario = loss_gradient_on_head_device();
  scenario.variants.erase(
      std::remove_if(scenario.variants.begin(), scenario.variants.end(),
                     [](const Variant& variant) { return !is_wanted(variant); }),
      scenario.variants.end());
  scenario.axes.push_back(rank_axis("copies", {"at-once", "late"}, "at-once"));
  scenario.body = [train = scenario.body](Rank& rank) {
    if (!rank.is_reference() && rank.has("copies", "late")) {
      at::addGlobalCallback(
          at::RecordFunctionCallback(before, after).scopes({at::RecordScope::BACKWARD_FUNCTION}));
    }
    train(rank);
  };
  return scenario;
}

}  // namespace lockstep
