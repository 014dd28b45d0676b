#include "harness/record/journal_writer.h"

#include <fmt/format.h>

#include <utility>

#include "harness/record/journal_format.h"
#include "harness/record/journal_segments.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

std::string row_of(const Observation& o, std::size_t tensor) {
  const Statistics& s = o.statistics;
  return fmt::format("{},{},{},{},{},{},{},{}\n", o.step, o.micro_batch, tensor,
                     o.not_comparable.empty() ? to_text(o.digest) : "", exact_decimal(s.norm),
                     to_text(s.minimum), to_text(s.maximum), s.non_finite);
}

}  // namespace

JournalWriter::JournalWriter(std::filesystem::path path, std::string identity)
    : path_(std::move(path)),
      identity_(std::move(identity)),
      file_(path_),
      tensors_(tensor_table_file(path_), identity_),
      index_(index_file(path_), identity_) {
  begin_file();
}

JournalWriter::~JournalWriter() {
  try {
    finish();
  } catch (const Error&) {
    // A reader finds the step by its rows.
  }
}

void JournalWriter::begin_file() {
  const std::string header = journal_header_of(identity_);
  file_->append(header);
  size_ = header.size();
}

void JournalWriter::begin_segment() {
  finish();
  file_.emplace(segment_file(path_, segment_ + 1));
  ++segment_;
  step_ = {};
  begin_file();
}

void JournalWriter::append(std::span<const Observation* const> rows) {
  if (rows.empty()) return;
  begin_if_new(rows.front()->step);
  std::string text;
  std::vector<std::size_t> numbers;
  numbers.reserve(rows.size());
  for (const Observation* row : rows) {
    numbers.push_back(number_of(*row));
    text += row_of(*row, numbers.back());
  }
  file_->append(text);
  step_.checksum += digest_run(std::as_bytes(std::span(text)), step_.bytes);
  step_.bytes += text.size();
  size_ += text.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add(identities_[numbers[i]], rows[i]->micro_batch, rows[i]->digest,
        rows[i]->statistics.non_finite, step_.summary);
  }
  is_finished_ = false;
}

void JournalWriter::begin_if_new(std::int64_t step) {
  if (step == step_.step) return;
  finish();
  step_ = {};
  step_.step = step;
  step_.offset = size_;
}

std::size_t JournalWriter::number_of(const Observation& row) {
  const std::size_t number = tensors_.number_of(row);
  if (number == identities_.size()) identities_.push_back(identity_of(row));
  return number;
}

void JournalWriter::finish() {
  if (is_finished_) return;
  index_.append(step_);
  is_finished_ = true;
}

}  // namespace lockstep
