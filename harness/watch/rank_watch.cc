#include "harness/watch/rank_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/record/dtype.h"
#include "harness/record/journal.h"
#include "harness/record/measure.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_files.h"
#include "harness/record/samples.h"
#include "harness/record/shard_runs.h"
#include "harness/record/sketch.h"
#include "harness/record/whole_file.h"
#include "harness/watch/joined_job.h"
#include "harness/watch/on_threads.h"
#include "reports/base/error.h"
#include "reports/base/unique_fd.h"

namespace lockstep {

namespace {

constexpr std::int64_t kManyElements = 1 << 20;  // take longer to measure than threads to start

// A collective whose other ranks have failed may keep a GPU busy for ever.
constexpr std::chrono::seconds kMostAtEnd(120);
constexpr std::chrono::seconds kMostAfterError(10);

// How the facts of a rank begin (`_watcher.py` writes them, too), so that the reason of a failure
// replaces as many bytes as it has.
constexpr std::string_view kBeforeFailure = R"({"failure": )";
constexpr std::size_t kRoom = 400;

/// As JSON, filled up with spaces.
std::string in_room(std::string_view why) {
  const auto json = [](std::string_view part) {
    return nlohmann::json(part).dump(-1, ' ', true, nlohmann::json::error_handler_t::ignore);
  };
  std::string_view part = why.substr(0, kRoom);
  while (json(part).size() > kRoom) part.remove_suffix(1);
  return fmt::format("{:<{}}", json(part), kRoom);
}

std::string_view text(const char* characters) { return characters ? characters : ""; }

std::vector<std::int64_t> sizes(const std::int64_t* first, std::int32_t count) {
  return {first, first + count};
}

template <class Enum>
Enum word(const char* characters, const char* meaning) {
  if (const auto known = parse<Enum>(text(characters))) return *known;
  throw internal_error(fmt::format("'{}' is no {}", text(characters), meaning));
}

void require_rank(const lockstep_watch_options& options) {
  if (options.rank >= 0 && options.rank < options.world_size) return;
  throw bad_value("the rank", std::to_string(options.rank),
                  fmt::format("a whole number from 0 to {}", options.world_size - 1));
}

/// The options of a rank that its job has, and that nobody has observed yet.
const lockstep_watch_options& accepted(const lockstep_watch_options& options) {
  require_rank(options);
  if (std::filesystem::exists(journal_file(text(options.folder), options.rank))) {
    throw rank_observed_before(options.rank);
  }
  return options;
}

std::string identity_of(const lockstep_watch_options& options) {
  JobRecord job;
  job.id = text(options.job);
  return process_identity(job, options.rank);
}

}  // namespace

bool is_sketched(const Observation& row) {
  if (row.kind == Kind::data || is_of_gathering(row.kind)) return false;  // compared by bits alone
  return unit_roundoff(component_type(*parse<DType>(row.dtype))) > 0;
}

Digest digest_of_value(std::string_view dtype, const Shape& shape, const void* data,
                       const std::int64_t* strides) {
  const auto type = parse<DType>(dtype);
  if (!type) throw internal_error(fmt::format("'{}' is no type with a digest", dtype));
  const TensorBytes bytes(static_cast<const std::byte*>(data), strides, shape, item_size(*type));
  if (bytes.size() > 0 && !data) throw internal_error("a value has no address");
  std::vector<std::byte> copy;
  return digest_run(bytes.in_order(copy), 0);
}

RankWatch::RankWatch(const lockstep_watch_options& options)
    : folder_(text(accepted(options).folder)),
      rank_(options.rank),
      world_size_(options.world_size),
      is_created_(options.is_created != 0),
      identity_(identity_of(options)),
      control_(folder_),
      writer_(folder_, rank_, identity_, KeepPolicy::at_most(options.keep_bytes),
              options.segment_rows),
      keeps_before_(options.keeps_before != 0),
      store_first_(options.store_first) {
  write_status({});
  write_facts();
}

void RankWatch::write_status(const RankStatus& status) const {
  RankStatus signed_status = status;
  signed_status.process = identity_;
  signed_status.step = writer_.step();
  write_rank_status(rank_status_file(folder_, rank_), signed_status);
}

std::filesystem::path RankWatch::facts_file() const {
  return rank_file(folder_, rank_, kFactsEnding);
}

/// A hook that knows more replaces them, with the same beginning.
void RankWatch::write_facts() const {
  const nlohmann::json facts = {{"rank", rank_}, {"world_size", world_size_}, {"torch", ""}};
  write_whole_file(facts_file(),
                   fmt::format("{}{}, {}", kBeforeFailure, in_room(""), facts.dump().substr(1)));
}

void RankWatch::give_up(const char* why) const {
  const std::string note = in_room(text(why));
  const UniqueFd file(::open(facts_file().c_str(), O_WRONLY | O_CLOEXEC));
  if (::lseek(file.get(), kBeforeFailure.size(), SEEK_SET) < 0 || !write_all(file.get(), note)) {
    throw unwritable(facts_file().string(), std::strerror(errno));
  }
}

void RankWatch::close() {
  finish_work(kMostAtEnd);
  writer_.finish();
  if (is_created_) seal_if_all_ended(folder_, world_size_);
}

void RankWatch::end(const char* error) {
  const auto status = [&] {
    return RankStatus{.ended = true,
                      .raised = error != nullptr,
                      .error = std::string(text(error)),
                      .rows = writer_.rows()};
  };
  try {
    finish_work(error ? kMostAfterError : kMostAtEnd);
    keep_copies();
    writer_.finish();
  } catch (...) {
    if (error) write_status(status());  // why rows are missing
    throw;
  }
  write_status(status());
}

void RankWatch::finish_work(std::optional<std::chrono::seconds> limit) {
  if (work_.finish(limit)) return;
  throw gpu_failed(
      fmt::format("did not do its work within {} s after the end of the rank", limit->count()));
}

std::int64_t RankWatch::describe(const lockstep_watch_tensor& described) {
  Observation tensor;
  tensor.phase = word<Phase>(described.phase, "phase");
  tensor.kind = word<Kind>(described.kind, "kind");
  tensor.name = text(described.name);
  tensor.dtype = text(described.dtype);
  tensor.replica_group = text(described.replica_group);
  tensor.is_summand = described.is_summand != 0;
  tensor.not_comparable = text(described.not_comparable);
  tensor.local_shape = sizes(described.local_shape, described.dimensions);
  const bool is_part = described.global_shape && described.offset;
  tensor.global_shape =
      is_part ? sizes(described.global_shape, described.dimensions) : *tensor.local_shape;
  tensor.offset =
      is_part ? sizes(described.offset, described.dimensions) : Shape(tensor.local_shape.size(), 0);
  require_inside(tensor);
  if (tensor.kind == Kind::data && tensor.local_shape.empty()) {
    throw internal_error(fmt::format("'{}' has no dimension that counts samples", tensor.name));
  }
  if (tensor.not_comparable.empty() && !parse<DType>(tensor.dtype)) {
    tensor.not_comparable = "dtype " + tensor.dtype;
  }
  tensors_.push_back(described_as(tensor));
  return static_cast<std::int64_t>(tensors_.size()) - 1;
}

void RankWatch::begin_step(std::int64_t step) {
  step_ = step;
  static_cast<void>(keeps());
  work_.add([this, step] {
    keep_copies();
    copies_.clear();
    writer_.begin_step(step);
    append(std::exchange(next_, {}));
  });
}

void RankWatch::end_step() {
  work_.add([this] { writer_.finish(); });
}

TensorBytes RankWatch::bytes_of(const lockstep_watch_value& value, const Observation& row) {
  const auto* const data = static_cast<const std::byte*>(value.data);
  TensorBytes bytes(data, value.strides, row.local_shape, item_size(*parse<DType>(row.dtype)));
  if (bytes.size() > 0 && !data) {
    throw internal_error(fmt::format("'{}' has no address", row.name));
  }
  return bytes;
}

const RankWatch::Described& RankWatch::tensor_of(const lockstep_watch_value& value) const {
  if (value.tensor < 0 || value.tensor >= static_cast<std::int64_t>(tensors_.size())) {
    throw internal_error(fmt::format("no tensor has the number {}", value.tensor));
  }
  return tensors_[static_cast<std::size_t>(value.tensor)];
}

RankWatch::Measured RankWatch::unmeasured(const Described& tensor, std::int64_t micro_batch) {
  Measured measured{tensor.row};
  measured.row.micro_batch = micro_batch;
  return measured;
}

void RankWatch::measure(const TensorBytes& bytes, Measured& measured) {
  Observation& row = measured.row;
  if (is_sketched(row)) {
    measured.sketch = measure_and_sketch(row, bytes);
  } else {
    lockstep::measure(row, bytes);
  }
  if (row.kind != Kind::data) return;
  std::vector<std::byte> copy;
  row.digest = digest_of_samples(bytes.in_order(copy), row.local_shape[0]);
  row.statistics.non_finite = 0;  // masks contain infinities
}

bool RankWatch::is_copied(Measured& measured, std::uint64_t bytes) {
  const Observation& row = measured.row;
  // Samples are never stored. No rank is compared with another one by values of modules.
  const bool is_of_one_rank =
      is_of_module(row.kind) || is_of_pass(row.kind) || is_of_gathering(row.kind);
  if (!row.not_comparable.empty() || row.kind == Kind::data || is_of_one_rank) return false;
  measured.is_kept = is_keeping_ && writer_.wants(bytes);
  return measured.is_kept || keeps_before_;
}

void RankWatch::copy_if_wanted(const lockstep_watch_value& value, Measured& measured) {
  if (!measured.row.not_comparable.empty()) return;
  const TensorBytes bytes = bytes_of(value, measured.row);
  if (!is_copied(measured, bytes.size())) return;
  std::vector<std::byte> copy;
  const auto whole = bytes.in_order(copy);
  measured.bytes.emplace(whole.begin(), whole.end());
}

std::vector<RankWatch::Measured> RankWatch::measured(std::span<const lockstep_watch_value> values) {
  std::vector<std::int64_t> sizes;  // in elements
  for (const lockstep_watch_value& value : values) {
    sizes.push_back(element_count(tensor_of(value).row.local_shape));
  }
  std::vector<std::size_t> numbers(values.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  const auto all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::size_t threads = all > kManyElements ? threads_ : 1;
  if (threads > 1) {  // large ones first, so that no thread begins one at the end
    std::ranges::stable_sort(numbers, std::greater(), [&](std::size_t i) { return sizes[i]; });
  }
  std::vector<Measured> rows(values.size());
  on_threads(threads, numbers, [&](std::size_t i) {
    rows[i] = unmeasured(tensor_of(values[i]), values[i].micro_batch);
    if (rows[i].row.not_comparable.empty()) measure(bytes_of(values[i], rows[i].row), rows[i]);
  });
  return rows;
}

void RankWatch::append(std::vector<Measured> rows) {
  SketchesOfStep sketches;
  std::vector<const Observation*> of_journal;
  sketches.reserve(rows.size());
  of_journal.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].row.step = writer_.step();
    writer_.claim(rows[i].row);
    of_journal.push_back(&rows[i].row);
    const auto& sketch = rows[i].sketch;
    if (sketch) sketches.emplace_back(static_cast<std::int64_t>(i), *sketch);
  }
  writer_.write_sketches(std::move(sketches));
  writer_.append(of_journal);
  for (Measured& one : rows) {
    if (!one.bytes) continue;
    if (one.is_kept) {
      writer_.keep(one.row, std::move(*one.bytes));
    } else {
      copies_.push_back(std::move(one));
    }
  }
}

void RankWatch::keep_copies() {
  if (copies_.empty() || !is_keeping_) return;
  for (Measured& copy : std::exchange(copies_, {})) {
    if (writer_.wants(copy.bytes->size())) writer_.keep(copy.row, std::move(*copy.bytes));
  }
}

void RankWatch::use_threads(std::int32_t threads) {
  if (threads < 1) throw bad_value("the number of threads", std::to_string(threads), "at least 1");
  threads_ = static_cast<std::size_t>(threads);
}

void RankWatch::observe(std::span<const lockstep_watch_value> values) {
  write(values, &RankWatch::append);
}

void RankWatch::observe_next(std::span<const lockstep_watch_value> values) {
  write(values, &RankWatch::append_next);
}

void RankWatch::observe_on_gpu(std::span<const lockstep_watch_value> values, void* stream) {
  write_on_gpu(values, stream, &RankWatch::append);
}

void RankWatch::observe_next_on_gpu(std::span<const lockstep_watch_value> values, void* stream) {
  write_on_gpu(values, stream, &RankWatch::append_next);
}

void RankWatch::write(std::span<const lockstep_watch_value> values, Append add) {
  const bool may_store = stores();
  if (may_store) {
    finish_work({});
    keep_copies();
  }
  std::vector<Measured> rows = measured(values);
  for (std::size_t i = 0; may_store && i < rows.size(); ++i) copy_if_wanted(values[i], rows[i]);
  work_.add([this, add, rows = std::move(rows)]() mutable { (this->*add)(std::move(rows)); });
}

void RankWatch::append_next(std::vector<Measured> rows) {
  next_.insert(next_.end(), std::make_move_iterator(rows.begin()),
               std::make_move_iterator(rows.end()));
}

}  // namespace lockstep
