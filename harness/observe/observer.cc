#include "harness/observe/observer.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "harness/observe/look_at.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

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
