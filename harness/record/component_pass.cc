#include "harness/record/component_pass.h"

#include <algorithm>

#include "harness/record/scalar_target.h"
#include "harness/record/vector_target.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kPiece = kDigestBlock * 4;  // bytes
constexpr std::size_t kComponents = ComponentSums::kLanes;
static_assert(kPiece % (kComponents * sizeof(double)) == 0, "pieces begin with a block");

bool is_floating(DType component) { return unit_roundoff(component) > 0; }

/// Null for types that have no vector code.
VectorTarget::AddBlocks adder_of(DType component) {
  switch (component) {
    case DType::float32:
      return vector_target().float32;
    case DType::bfloat16:
      return vector_target().bfloat16;
    case DType::float16:
      return vector_target().float16;
    case DType::float64:
      return vector_target().float64;
    default:
      return is_float8(component) ? vector_target().float32 : nullptr;
  }
}

}  // namespace

void ComponentPass::add(std::span<const std::byte> bytes, std::uint64_t begin) {
  const std::size_t size = item_size(component_);
  while (!bytes.empty()) {
    const std::uint64_t offset = begin * size;
    const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), kPiece - offset % kPiece));
    add_piece(piece, begin);
    begin += piece.size() / size;
    bytes = bytes.subspan(piece.size());
  }
}

/// A piece lies in one block of the digest.
void ComponentPass::add_piece(std::span<const std::byte> bytes, std::uint64_t begin) {
  const std::size_t size = item_size(component_);
  if (!adder_of(component_)) return add_single(bytes, begin);
  const std::size_t count = bytes.size() / size;
  const std::size_t head = std::min<std::size_t>(count, -begin % kComponents);
  const std::size_t whole = (count - head) / kComponents * kComponents;
  const std::size_t tail = count - head - whole;
  if (head > 0) add_single(bytes.first(head * size), begin);
  if (whole > 0) add_blocks(bytes.subspan(head * size, whole * size), begin + head);
  if (tail > 0) add_single(bytes.last(tail * size), begin + head + whole);
}

/// Component by component.
void ComponentPass::add_single(std::span<const std::byte> bytes, std::uint64_t begin) {
  const std::size_t size = item_size(component_);
  const std::size_t count = bytes.size() / size;
  if (wanted_.digest) digest_ += digest_run(bytes, begin * size);
  if (!is_floating(component_)) {
    vector_target().add_whole(component_, bytes.data(), count, sums_);
  }
  if (is_floating(component_) || wanted_.sketch) {
    add_components(component_, bytes.data(), count, begin, number_, wanted_.sketch, sums_);
  }
  number_ += count;
}

/// The blocks may begin at any component of the part, which counts as component 0 for the target.
void ComponentPass::add_blocks(std::span<const std::byte> bytes, std::uint64_t begin) {
  const std::size_t size = item_size(component_);
  const std::size_t count = bytes.size() / size;
  auto& squares = sums_.squares;
  const auto turn = static_cast<std::ptrdiff_t>(number_ % squares.size());
  std::rotate(squares.begin(), squares.begin() + turn, squares.end());
  const Digest inner = is_float8(component_)
                           ? add_decoded(bytes, begin)
                           : adder_of(component_)(bytes.data(), count / kComponents,
                                                  begin / kComponents, wanted_, sums_);
  std::rotate(squares.begin(), squares.end() - turn, squares.end());
  const Digest keys = block_keys(begin * size / kPiece);
  digest_ += {inner.low * keys.low, inner.high * keys.high};
  number_ += count;
}

/// Blocks of a type of 8 bits, whose numbers float32 has, too.
Digest ComponentPass::add_decoded(std::span<const std::byte> bytes, std::uint64_t begin) {
  const auto& values = float8_values(component_);
  alignas(64) float decoded[kPiece];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    decoded[i] = static_cast<float>(values[std::to_integer<std::size_t>(bytes[i])]);
  }
  vector_target().float32(reinterpret_cast<const std::byte*>(decoded), bytes.size() / kComponents,
                          begin / kComponents, {.sketch = wanted_.sketch}, sums_);
  if (!wanted_.digest) return {};
  return vector_target().add_words(bytes.data(), bytes.size() / 4, begin / 4 % kDigestBlock);
}

}  // namespace lockstep
