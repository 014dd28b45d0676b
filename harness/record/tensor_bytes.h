#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// The elements of a tensor in memory that is not its own, however they lie there, as bytes in
/// row-major order.
class TensorBytes {
 public:
  using Visit = std::function<void(std::span<const std::byte>)>;

  /// Elements that lie in this order already.
  template <class Bytes>
  requires std::convertible_to<const Bytes&, std::span<const std::byte>> TensorBytes(
      const Bytes& bytes)  // NOLINT(google-explicit-constructor): a span is one, too
      : TensorBytes(std::span<const std::byte>(bytes)) {}
  TensorBytes(std::span<const std::byte> bytes);  // NOLINT(google-explicit-constructor)

  /// Elements of `item` bytes. `strides`: in elements, one per dimension; null: row-major without
  /// gaps.
  TensorBytes(const std::byte* data, const std::int64_t* strides,
              const std::vector<std::int64_t>& shape, std::size_t item);

  std::size_t size() const { return size_; }

  /// Visits all bytes from first to last, in pieces of whole elements that are valid during the
  /// call: where they lie if runs of them are long, else a copy of at most `kCopied` bytes.
  void for_each_piece(const Visit& visit) const;
  static constexpr std::size_t kCopied = 64 << 10;

  /// All bytes, where they lie if they are in order, else copied to `copy`.
  std::span<const std::byte> in_order(std::vector<std::byte>& copy) const;

 private:
  /// Of neighbouring elements: their number and their distance in bytes.
  struct Dimension {
    std::int64_t count = 1;
    std::int64_t stride = 0;
  };

  bool is_in_order() const;
  void copy_rows(std::int64_t first, std::int64_t count, std::byte* to) const;
  const std::byte* row(std::int64_t number) const;

  const std::byte* data_;
  std::size_t size_;
  std::size_t item_;
  std::vector<Dimension> outer_;  ///< that number the rows
  Dimension inner_;               ///< of a row
};

}  // namespace lockstep
