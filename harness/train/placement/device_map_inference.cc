#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "harness/train/placement/device_map.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

/// Bytes of each tensor; 0 at its later positions in the model.
using TensorBytes = std::map<const c10::TensorImpl*, std::int64_t>;

void merge(const TensorBytes& from, TensorBytes& into) {
  for (const auto& [tensor, bytes] : from) {
    std::int64_t& known = into[tensor];
    known = std::max(known, bytes);
  }
}

std::int64_t bytes_of(const TensorBytes& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [tensor, own] : tensors) bytes += own;
  return bytes;
}

bool share_a_tensor(const TensorBytes& one, const TensorBytes& other) {
  return std::any_of(one.begin(), one.end(),
                     [&](const auto& entry) { return other.count(entry.first) > 0; });
}

/// A module or, if `module` is null, one tensor of a divided module.
struct Piece {
  std::string name;
  const Module* module = nullptr;
  TensorBytes tensors;
};

/// A model cut into pieces like in accelerate.
class Pieces {
 public:
  Pieces(const Module& model, const IsIndivisible& is_indivisible)
      : is_indivisible_(is_indivisible) {
    note_first_places(model, "");
    whole_ = piece_of(model, "");
  }

  const Piece& whole() const { return whole_; }

  /// Own tensors, then children; pieces without tensors need no device.
  std::vector<Piece> inside(const Piece& piece) const {
    std::vector<Piece> pieces;
    for (const NamedTensor& own : piece.module->own_tensors()) {
      pieces.push_back({joined(piece.name, own.name), nullptr, {}});
      add(own.tensor, pieces.back().name, pieces.back().tensors);
    }
    for (const Module::Part& part : piece.module->children()) {
      Piece inner = piece_of(*part.module, joined(piece.name, part.name));
      if (!inner.tensors.empty()) pieces.push_back(std::move(inner));
    }
    return pieces;
  }

  bool is_indivisible(const Piece& piece) const {
    return is_indivisible_(piece.name, *piece.module);
  }

  bool is_divisible(const Piece& piece) const {
    return piece.module && !piece.module->children().empty() && !is_indivisible(piece);
  }

  /// Bytes of the largest module in `piece` that is placed as a whole; 0 for a tensor.
  std::int64_t largest_layer(const Piece& piece) const {
    if (!piece.module) return 0;
    if (!is_divisible(piece)) return bytes_of(piece.tensors);
    std::int64_t largest = 0;
    for (const Piece& inner : inside(piece)) largest = std::max(largest, largest_layer(inner));
    return largest;
  }

 private:
  void note_first_places(const Module& module, const std::string& name) {
    for (const NamedTensor& own : module.own_tensors()) {
      first_places_.emplace(own.tensor.unsafeGetTensorImpl(), joined(name, own.name));
    }
    for (const Module::Part& part : module.children()) {
      note_first_places(*part.module, joined(name, part.name));
    }
  }

  void add(const at::Tensor& tensor, const std::string& name, TensorBytes& tensors) const {
    const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    const bool is_first = first_places_.at(impl) == name;
    merge({{impl, is_first ? static_cast<std::int64_t>(tensor.nbytes()) : 0}}, tensors);
  }

  void add(const Module& module, const std::string& name, TensorBytes& tensors) const {
    for (const NamedTensor& own : module.own_tensors()) {
      add(own.tensor, joined(name, own.name), tensors);
    }
    for (const Module::Part& part : module.children()) {
      add(*part.module, joined(name, part.name), tensors);
    }
  }

  Piece piece_of(const Module& module, std::string name) const {
    Piece piece{std::move(name), &module, {}};
    add(module, piece.name, piece.tensors);
    return piece;
  }

  const IsIndivisible& is_indivisible_;
  std::map<const c10::TensorImpl*, std::string> first_places_;
  Piece whole_;
};

struct LayerSizes {
  std::int64_t largest_indivisible = 0;
  std::int64_t leaves = 0;  ///< modules without children, among those with bytes of their own
  std::int64_t leaf_bytes = 0;
};

void measure(const Pieces& pieces, const Piece& piece, LayerSizes& sizes) {
  const std::int64_t bytes = bytes_of(piece.tensors);
  if (!piece.name.empty() && pieces.is_indivisible(piece)) {
    sizes.largest_indivisible = std::max(sizes.largest_indivisible, bytes);
  }
  bool is_leaf = true;
  for (const Piece& part : pieces.inside(piece)) {
    if (!part.module || bytes_of(part.tensors) == 0) continue;
    is_leaf = false;
    measure(pieces, part, sizes);
  }
  if (!is_leaf) return;
  ++sizes.leaves;
  sizes.leaf_bytes += bytes;
}

std::vector<DeviceCapacity> usable(const std::vector<DeviceCapacity>& devices) {
  std::vector<DeviceCapacity> result;
  for (const DeviceCapacity& device : devices) {
    if (device.bytes > 0) result.push_back(device);
  }
  return result;
}

/// Assigns the pieces of a model to devices, one after the other.
class Filling {
 public:
  Filling(const Pieces& pieces, std::vector<DeviceCapacity> devices, bool keeps_room)
      : pieces_(pieces),
        keeps_room_(keeps_room),
        capacities_(std::move(devices)),
        left_(capacities_),
        waiting_{pieces.whole()} {}

  /// The device of each tensor.
  std::map<const c10::TensorImpl*, at::Device> run() {
    while (!waiting_.empty()) {
      Piece piece = std::move(waiting_.front());
      waiting_.pop_front();
      if (put_with_partners(piece)) continue;
      const bool fits_alone = bytes_of(piece.tensors) <= room();
      if (fits_alone ? divide_a_partner(piece) : divide(piece)) continue;
      if (device_ + 1 == left_.size()) throw fits_nowhere(piece);
      ++device_;
      waiting_.push_front(std::move(piece));
    }
    return std::move(placed_);
  }

 private:
  /// accelerate reserves room on the first device for layers brought back from the host, and
  /// accounts for it when balancing.
  std::int64_t room() const {
    if (device_ > 0 || !keeps_room_) return left_[device_].bytes;
    std::int64_t kept = 0;
    for (const Piece& piece : waiting_) kept = std::max(kept, pieces_.largest_layer(piece));
    return left_[0].bytes - kept;
  }

  /// Places `piece` and, transitively, all waiting pieces that share a tensor with it.
  bool put_with_partners(const Piece& piece) {
    TensorBytes together = piece.tensors;
    std::vector<bool> is_partner(waiting_.size());
    for (bool grows = true; std::exchange(grows, false);) {
      for (std::size_t i = 0; i < waiting_.size(); ++i) {
        if (is_partner[i] || !share_a_tensor(waiting_[i].tensors, together)) continue;
        merge(waiting_[i].tensors, together);
        is_partner[i] = grows = true;
      }
    }
    if (bytes_of(together) > room()) return false;
    left_[device_].bytes -= bytes_of(together);
    for (const auto& [tensor, bytes] : together) placed_.emplace(tensor, left_[device_].device);
    std::deque<Piece> others;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (!is_partner[i]) others.push_back(std::move(waiting_[i]));
    }
    waiting_ = std::move(others);
    return true;
  }

  bool divide_a_partner(Piece& piece) {
    for (auto partner = waiting_.begin(); partner != waiting_.end(); ++partner) {
      if (!share_a_tensor(partner->tensors, piece.tensors)) continue;
      if (!pieces_.is_divisible(*partner)) continue;
      const std::vector<Piece> inner = pieces_.inside(*partner);
      waiting_.insert(waiting_.erase(partner), inner.begin(), inner.end());
      waiting_.push_front(std::move(piece));
      return true;
    }
    return false;
  }

  bool divide(const Piece& piece) {
    if (!pieces_.is_divisible(piece)) return false;
    const std::vector<Piece> inner = pieces_.inside(piece);
    waiting_.insert(waiting_.begin(), inner.begin(), inner.end());
    return true;
  }

  Error fits_nowhere(const Piece& piece) const {
    std::vector<std::string> left;
    for (std::size_t i = 0; i < left_.size(); ++i) {
      left.push_back(fmt::format("{} has {} left of {}", left_[i].device.str(), left_[i].bytes,
                                 capacities_[i].bytes));
    }
    const std::string name =
        piece.name.empty() ? "The whole model" : fmt::format("The part '{}'", piece.name);
    return {Error::Kind::usage,
            fmt::format("{} of {} bytes fits on no device: {}. Give more or larger devices: "
                        "Lockstep does not offload to the host or to a disk.",
                        name, bytes_of(piece.tensors), fmt::join(left, ", "))};
  }

  const Pieces& pieces_;
  bool keeps_room_;  ///< on the first device
  std::vector<DeviceCapacity> capacities_;
  std::vector<DeviceCapacity> left_;
  std::size_t device_ = 0;
  std::deque<Piece> waiting_;
  std::map<const c10::TensorImpl*, at::Device> placed_;
};

/// Names the largest parts whose tensors are all on one device.
void list_entries(const Pieces& pieces, const Piece& piece,
                  const std::map<const c10::TensorImpl*, at::Device>& devices, DeviceMap& map) {
  const at::Device device = devices.at(piece.tensors.begin()->first);
  const bool is_common =
      std::all_of(piece.tensors.begin(), piece.tensors.end(),
                  [&](const auto& entry) { return devices.at(entry.first) == device; });
  if (is_common) {
    map.push_back({piece.name, device});
    return;
  }
  for (const Piece& inner : pieces.inside(piece)) list_entries(pieces, inner, devices, map);
}

}  // namespace

std::vector<DeviceCapacity> capacities_of(const Module& model, DevicePolicy policy,
                                          const PlacementOptions& options) {
  std::vector<DeviceCapacity> devices = usable(options.devices);
  const bool is_low_0 = policy == DevicePolicy::balanced_low_0;
  const bool is_balanced =
      is_low_0 || policy == DevicePolicy::balanced || policy == DevicePolicy::automatic;
  if (!is_balanced || devices.size() < 2) return devices;
  const Pieces pieces(model, options.is_indivisible);
  LayerSizes sizes;
  measure(pieces, pieces.whole(), sizes);
  const std::int64_t total = bytes_of(pieces.whole().tensors);
  const std::int64_t mean_leaf = sizes.leaf_bytes / std::max<std::int64_t>(1, sizes.leaves);
  const std::int64_t layer = std::max(sizes.largest_indivisible, mean_leaf);
  const auto count = static_cast<std::int64_t>(devices.size());
  const std::int64_t share = total / (is_low_0 ? count - 1 : count) + layer * 5 / 4;
  std::int64_t others = 0;
  for (std::size_t i = is_low_0 ? 1 : 0; i < devices.size(); ++i) {
    if (i + 1 < devices.size()) devices[i].bytes = std::min(devices[i].bytes, share);
    others += devices[i].bytes;
  }
  if (is_low_0) {
    devices[0].bytes = std::min(devices[0].bytes, std::max<std::int64_t>(0, total - others));
  }
  return devices;
}

DeviceMap infer_device_map(const Module& model, DevicePolicy policy,
                           const PlacementOptions& options) {
  if (policy == DevicePolicy::explicit_map) {
    throw internal_error("an explicit device map cannot be inferred");
  }
  const Pieces pieces(model, options.is_indivisible);
  if (policy == DevicePolicy::none || pieces.whole().tensors.empty()) return {};
  std::vector<DeviceCapacity> devices = capacities_of(model, policy, options);
  if (devices.empty()) {
    throw Error(Error::Kind::usage,
                fmt::format("The device map '{}' has no device with capacity to place {} bytes on. "
                            "Give devices, or the device map 'none'.",
                            to_string(policy), bytes_of(pieces.whole().tensors)));
  }
  DeviceMap map;
  const bool keeps_room = devices.front().device == options.devices.front().device;
  list_entries(pieces, pieces.whole(), Filling(pieces, std::move(devices), keeps_room).run(), map);
  return map;
}

}  // namespace lockstep
