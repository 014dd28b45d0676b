#include "harness/observe/observer.h"

#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <span>
#include <utility>

#include "harness/record/shard_runs.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

using Shape = std::vector<std::int64_t>;

std::string dtype_name(const at::Tensor& tensor) {
  return c10::getDtypeNames(tensor.scalar_type()).first;
}

bool is_freed(const at::Tensor& tensor) {
  return tensor.numel() > 0 && tensor.storage().nbytes() == 0;
}

/// Why the shape of `tensor` cannot be told; empty when it can.
std::string reason_without_shape(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) return "a tensor subclass in Python";
  if (tensor.is_nested()) return "nested";
  return "";
}

/// Why the bytes of `tensor` cannot be compared; empty when they can.
std::string reason_without_bytes(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return c10::str(tensor.layout(), " layout");
  if (tensor.is_meta()) return "a meta tensor";
  if (tensor.is_quantized()) return "quantized dtype " + dtype_name(tensor);
  if (!parse<DType>(dtype_name(tensor))) return "dtype " + dtype_name(tensor);
  if (!tensor.has_storage()) return "no storage";
  if (is_freed(tensor)) return "its storage is freed";
  return "";
}

bool fits(const Shape& local, const Shard& shard) {
  if (local.size() != shard.global_shape.size() || local.size() != shard.offset.size()) {
    return false;
  }
  for (std::size_t i = 0; i < local.size(); ++i) {
    if (shard.offset[i] < 0 || shard.offset[i] > shard.global_shape[i] - local[i]) return false;
  }
  return true;
}

void place(Observation& observation, const at::Tensor& tensor, const std::optional<Shard>& shard) {
  observation.local_shape = tensor.sizes().vec();
  const Shard where = shard.value_or(
      Shard{observation.local_shape, Shape(observation.local_shape.size(), std::int64_t{0})});
  if (!fits(observation.local_shape, where)) {
    throw internal_error(
        fmt::format("a shard of shape [{}] at offset [{}] does not fit the global shape [{}]",
                    fmt::join(observation.local_shape, ", "), fmt::join(where.offset, ", "),
                    fmt::join(where.global_shape, ", ")));
  }
  observation.global_shape = where.global_shape;
  observation.offset = where.offset;
}

/// Row-major and on the CPU; the tensor itself where it is so already.
at::Tensor plain(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

/// Adds the time of its life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(std::chrono::nanoseconds& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += std::chrono::steady_clock::now() - start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::chrono::nanoseconds& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Observation look_at(const at::Tensor& tensor, const std::optional<Shard>& shard,
                    std::vector<std::byte>* bytes) {
  Observation observation;
  observation.not_comparable = reason_without_shape(tensor);
  if (tensor.defined()) observation.dtype = dtype_name(tensor);
  if (!observation.not_comparable.empty()) return observation;
  place(observation, tensor, shard);
  observation.not_comparable = reason_without_bytes(tensor);
  if (!observation.not_comparable.empty()) return observation;

  const at::Tensor copy = plain(tensor);
  const std::span<const std::byte> seen = bytes_of(copy);
  observation.digest = digest_of_part(observation, seen, copy.element_size());
  observation.statistics = statistics(*parse<DType>(observation.dtype), seen);
  if (bytes) bytes->assign(seen.begin(), seen.end());
  return observation;
}

Observer::Observer(fs::path folder, int rank, std::string identity)
    : folder_(std::move(folder)),
      rank_(rank),
      identity_(std::move(identity)),
      journal_(journal_file(folder_, rank), identity_) {}

Observer::~Observer() {
  try {
    finish();
  } catch (const std::exception&) {
  }
}

void Observer::begin_step(std::int64_t step) {
  if (step <= step_) {
    throw internal_error(fmt::format("step {} begun after step {}: steps count up", step, step_));
  }
  finish();
  step_ = step;
  micro_batch_ = 0;
  keys_.clear();
  kept_.clear();
}

void Observer::begin_micro_batch(std::int64_t micro_batch) { micro_batch_ = micro_batch; }

void Observer::note_key(const std::string& key) {
  if (step_ == 0) throw internal_error(fmt::format("'{}' observed before the first step", key));
  if (!keys_.insert(key).second) {
    throw internal_error(fmt::format("'{}' observed twice in step {}", key, step_));
  }
}

void Observer::observe(Phase phase, Kind kind, std::string_view name, const at::Tensor& tensor,
                       const std::optional<Shard>& shard, std::string_view replica_group) {
  const Stopwatch stopwatch(time_spent_);
  SnapshotTensor kept;
  Observation observation = look_at(tensor, shard, &kept.bytes);
  observation.seq = seq_;
  observation.step = step_;
  observation.micro_batch = micro_batch_;
  observation.phase = phase;
  observation.kind = kind;
  observation.name = name;
  observation.replica_group = replica_group;
  if (!tensor.defined() && kind == Kind::gradient) observation.not_comparable += ": no gradient";

  const std::string key = snapshot_key(observation);
  note_key(key);
  journal_.append(observation);
  ++seq_;
  if (!observation.not_comparable.empty()) return;
  kept.dtype = *parse<DType>(observation.dtype);
  kept.shape = observation.local_shape;
  kept_.emplace(key, std::move(kept));
  all_written_ = false;
}

void Observer::finish() {
  journal_.finish();
  if (all_written_) return;
  write_safetensors(snapshot_file(folder_, rank_, step_), kept_, identity_);
  all_written_ = true;
}

}  // namespace lockstep
