#include "harness/record/tensor_bytes.h"

#include <algorithm>
#include <cstring>

#include "harness/record/shard_runs.h"

namespace lockstep {
namespace {

constexpr std::size_t kLongRun = 4096;  // bytes: shorter ones are faster copied together

template <std::size_t item>
void copy_elements(const std::byte* from, std::int64_t stride, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * item, from + i * stride, item);
}

void copy_elements(const std::byte* from, std::int64_t stride, std::int64_t count, std::size_t item,
                   std::byte* to) {
  if (stride == static_cast<std::int64_t>(item)) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * item);
    return;
  }
  switch (item) {
    case 1:
      return copy_elements<1>(from, stride, count, to);
    case 2:
      return copy_elements<2>(from, stride, count, to);
    case 4:
      return copy_elements<4>(from, stride, count, to);
    case 8:
      return copy_elements<8>(from, stride, count, to);
    default:
      return copy_elements<16>(from, stride, count, to);
  }
}

}  // namespace

TensorBytes::TensorBytes(std::span<const std::byte> bytes)
    : data_(bytes.data()), size_(bytes.size()), item_(1), inner_{std::ssize(bytes), 1} {}

TensorBytes::TensorBytes(const std::byte* data, const std::int64_t* strides,
                         const std::vector<std::int64_t>& shape, std::size_t item)
    : data_(data),
      size_(static_cast<std::size_t>(element_count(shape)) * item),
      item_(item),
      inner_{1, static_cast<std::int64_t>(item)} {
  const auto bytes = static_cast<std::int64_t>(item);
  if (!strides || size_ == 0) {
    inner_.count = static_cast<std::int64_t>(size_ / item);
    return;
  }
  std::vector<Dimension> merged;  // the innermost first
  for (std::size_t i = shape.size(); i-- > 0;) {
    const Dimension next{shape[i], strides[i] * bytes};
    if (next.count == 1) continue;
    if (!merged.empty() && next.stride == merged.back().stride * merged.back().count) {
      merged.back().count *= next.count;
    } else {
      merged.push_back(next);
    }
  }
  if (merged.empty()) return;
  inner_ = merged.front();
  outer_.assign(merged.rbegin(), merged.rend() - 1);
}

bool TensorBytes::is_in_order() const {
  return outer_.empty() && inner_.stride == static_cast<std::int64_t>(item_);
}

const std::byte* TensorBytes::row(std::int64_t number) const {
  const std::byte* at = data_;
  for (std::size_t d = outer_.size(); d-- > 0;) {
    at += number % outer_[d].count * outer_[d].stride;
    number /= outer_[d].count;
  }
  return at;
}

/// Copies `count` elements from element `first` on.
void TensorBytes::copy_rows(std::int64_t first, std::int64_t count, std::byte* to) const {
  while (count > 0) {
    const std::int64_t place = first % inner_.count;
    const std::int64_t here = std::min(count, inner_.count - place);
    copy_elements(row(first / inner_.count) + place * inner_.stride, inner_.stride, here, item_,
                  to);
    first += here;
    count -= here;
    to += static_cast<std::size_t>(here) * item_;
  }
}

void TensorBytes::for_each_piece(const Visit& visit) const {
  if (is_in_order()) return visit({data_, size_});
  const auto elements = static_cast<std::int64_t>(size_ / item_);
  const auto run = static_cast<std::size_t>(inner_.count) * item_;
  if (inner_.stride == static_cast<std::int64_t>(item_) && run >= kLongRun) {
    for (std::int64_t i = 0; i < elements / inner_.count; ++i) visit({row(i), run});
    return;
  }
  std::vector<std::byte> copy(std::min(size_, kCopied));
  const auto most = static_cast<std::int64_t>(copy.size() / item_);
  for (std::int64_t first = 0; first < elements; first += most) {
    const std::int64_t count = std::min(most, elements - first);
    copy_rows(first, count, copy.data());
    visit({copy.data(), static_cast<std::size_t>(count) * item_});
  }
}

std::span<const std::byte> TensorBytes::in_order(std::vector<std::byte>& copy) const {
  if (is_in_order()) return {data_, size_};
  copy.resize(size_);
  copy_rows(0, static_cast<std::int64_t>(size_ / item_), copy.data());
  return copy;
}

}  // namespace lockstep
