#include "harness/record/fingerprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "harness/record/dtype.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::byte>;

Fingerprint of(const Bytes& bytes) { return fingerprint_run(bytes, 0); }

Bytes random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; hex != "-" && i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

void flip(Bytes& bytes, std::size_t bit) { bytes[bit / 8] ^= std::byte{1} << (bit % 8); }

/// Lines of the fenced block `name` of the format document.
std::vector<std::string> documented(const std::string& name) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/formats.md");
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(file, line) && line != "```" + name) continue;
  while (std::getline(file, line) && line != "```") lines.push_back(line);
  return lines;
}

TEST(FingerprintDefinition, MeetsTheDocumentedExamples) {
  Fingerprint sum;
  int runs = 0;
  int sums = 0;
  for (const std::string& line : documented("lockstep-1")) {
    std::istringstream words(line);
    std::string kind, bytes, expected;
    std::uint64_t offset = 0;
    words >> kind;
    if (kind == "run") {
      words >> offset >> bytes >> expected;
      const Fingerprint run = fingerprint_run(from_hex(bytes), offset);
      EXPECT_EQ(to_text(run), expected) << line;
      sum += run;
      ++runs;
    } else if (kind == "sum") {
      words >> expected;
      EXPECT_EQ(to_text(sum), expected) << line;
      ++sums;
    } else {
      sum = {};
    }
  }
  EXPECT_EQ(runs, 23);
  EXPECT_EQ(sums, 5);
}

std::uint64_t splitmix64(std::uint64_t x) {
  std::uint64_t z = x + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

TEST(WordKeys, AreNeverBothZero) {
  for (std::uint64_t hi = 0; hi < 65536; ++hi) {
    // The one word of its 2^32 whose low key is 0.
    const std::uint64_t j = hi << 32 | (splitmix64(hi) & 0xffffffff);
    ASSERT_EQ(word_keys(j).low, 0u);
    ASSERT_NE(word_keys(j).high, 0u);
    ASSERT_NE(splitmix64(hi) >> 32, 0u);
  }
}

TEST(WordKeys, AreDistinctWithinALane) {
  for (const std::uint64_t start :
       {std::uint64_t{0}, (std::uint64_t{1} << 32) - 65536, std::uint64_t{5} << 32}) {
    std::set<std::uint32_t> low, high;
    for (std::uint64_t j = start; j < start + 65536; ++j) {
      low.insert(word_keys(j).low);
      high.insert(word_keys(j).high);
    }
    EXPECT_EQ(low.size(), 65536u);
    EXPECT_EQ(high.size(), 65536u);
  }
}

TEST(WordKeys, ChangeWithTheHighHalfOfTheIndex) {
  const WordKeys first = word_keys(7);
  const WordKeys later = word_keys(7 + (std::uint64_t{1} << 32));
  EXPECT_NE(first.low, later.low);
  EXPECT_NE(first.high, later.high);
}

TEST(FingerprintRun, WeighsEveryByteByItsPlace) {
  const Bytes bytes = random_bytes(23, 1);
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2},
                                     std::uint64_t{3}, (std::uint64_t{1} << 34) - 10}) {
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
      Fingerprint expected;
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint64_t place = offset + i;
        const std::uint64_t word = std::to_integer<std::uint64_t>(bytes[i]) << 8 * (place % 4);
        const WordKeys keys = word_keys(place / 4);
        expected += {word * keys.low, word * keys.high};
      }
      EXPECT_EQ(fingerprint_run(std::span(bytes).first(size), offset), expected)
          << size << " bytes at " << offset;
    }
  }
}

/// Every way to cut a tensor's bytes into shards of consecutive indices of one dimension.
void expect_shards_sum_up(const std::vector<std::size_t>& shape, std::size_t item) {
  const std::size_t elements =
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  const Bytes bytes = random_bytes(elements * item, 2);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    std::size_t inner = item;
    for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
    for (std::size_t cut = 0; cut <= shape[dim]; ++cut) {
      Fingerprint first, second;
      for (std::size_t at = 0; at < bytes.size(); at += shape[dim] * inner) {
        const auto whole = std::span(bytes).subspan(at, shape[dim] * inner);
        first += fingerprint_run(whole.first(cut * inner), at);
        second += fingerprint_run(whole.subspan(cut * inner), at + cut * inner);
      }
      first += second;
      EXPECT_EQ(first, of(bytes)) << "dimension " << dim << " cut at " << cut << ", item " << item;
    }
  }
}

TEST(FingerprintOf, ShardsAddsUpToTheWhole) {
  for (std::size_t dtype = 0; dtype < Names<DType>::values.size(); ++dtype) {
    const std::size_t item = item_size(static_cast<DType>(dtype));
    expect_shards_sum_up({13}, item);
    expect_shards_sum_up({5, 7}, item);
    expect_shards_sum_up({3, 5, 7}, item);
  }
}

TEST(FingerprintOf, ShardsThatOverlapIsNotTheWhole) {
  const Bytes bytes = random_bytes(64, 3);
  Fingerprint sum = fingerprint_run(std::span(bytes).first(33), 0);
  sum += fingerprint_run(std::span(bytes).subspan(32), 32);
  EXPECT_NE(sum, of(bytes));
}

TEST(FingerprintOf, NothingIsZero) { EXPECT_EQ(of({}), Fingerprint{}); }

TEST(FingerprintOf, AnAppendedZeroIsTheSame) {
  Bytes bytes = random_bytes(16, 4);
  const Fingerprint before = of(bytes);
  bytes.resize(20);
  EXPECT_EQ(of(bytes), before) << "shapes are compared beside the fingerprint";
}

TEST(FingerprintText, ReadsBack) {
  const Fingerprint fingerprint{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(to_text(fingerprint), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(fingerprint_from_text(to_text(fingerprint)), fingerprint);
  EXPECT_EQ(to_text({0, 1}), "00000000000000000000000000000001");
}

TEST(FingerprintText, IsNothingElse) {
  const std::string digits(32, 'a');
  EXPECT_TRUE(fingerprint_from_text(digits));
  for (const std::string& text :
       {std::string(), digits.substr(1), digits + "a", "A" + digits, "A" + digits.substr(1),
        " " + digits.substr(1), "-" + digits.substr(1), "0x" + digits.substr(2)}) {
    EXPECT_EQ(fingerprint_from_text(text), std::nullopt) << text;
  }
}

/// The test of changes: every change of a tensor's bytes must change its fingerprint.
class Changes {
 public:
  explicit Changes(Bytes before) : before_(std::move(before)), fingerprint_(of(before_)) {}

  const Bytes& before() const { return before_; }

  /// `after` must differ from what it was made from.
  void expect_seen(const Bytes& after, const std::string& what) {
    ASSERT_NE(after, before_) << what << " is no change";
    EXPECT_NE(of(after), fingerprint_) << what;
    ++tried_;
  }

  std::int64_t tried() const { return tried_; }

 private:
  Bytes before_;
  Fingerprint fingerprint_;
  std::int64_t tried_ = 0;
};

void expect_count(std::int64_t tried, std::int64_t expected) {
  EXPECT_EQ(tried, expected);
  ::testing::Test::RecordProperty("changes", std::to_string(tried));
  std::cout << "changes tried: " << tried << "\n";
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Tensors that hide changes best: random bits, all equal, ones, a ramp, zeros.
std::vector<Bytes> tensors_of(DType dtype, std::size_t elements) {
  const std::size_t item = item_size(dtype);
  std::vector<Bytes> tensors{random_bytes(elements * item, 5), Bytes(elements * item)};
  Bytes equal = random_bytes(item, 6);
  for (std::size_t i = 1; i < elements; ++i) equal.insert(equal.end(), &equal[0], &equal[0] + item);
  tensors.push_back(equal);
  Bytes ramp(elements * item);
  for (std::size_t i = 0; i < elements; ++i) ramp[(i + 1) * item - 1] = static_cast<std::byte>(i);
  tensors.push_back(ramp);
  return tensors;
}

void flip_bits(Changes& changes, std::size_t item) {
  const std::size_t elements = changes.before().size() / item;
  for (const std::size_t element : {std::size_t{0}, std::size_t{1}, elements / 2, elements - 1}) {
    for (std::size_t bit = 0; bit < 8 * item; ++bit) {
      Bytes after = changes.before();
      flip(after, element * item * 8 + bit);
      changes.expect_seen(after, "a flipped bit");
    }
  }
}

void flip_pairs(Changes& changes) {
  const std::size_t words = changes.before().size() / 4;
  for (const auto& [a, b] : {std::pair{std::size_t{0}, std::size_t{1}},
                             {std::size_t{3}, words - 1},
                             {words / 2, words / 2 + 1}}) {
    for (std::size_t bit_a = 0; bit_a < 32; ++bit_a) {
      for (std::size_t bit_b = 0; bit_b < 32; ++bit_b) {
        Bytes after = changes.before();
        flip(after, a * 32 + bit_a);
        flip(after, b * 32 + bit_b);
        changes.expect_seen(after, "two flipped bits");
      }
    }
  }
}

void flip_same_bit(Changes& changes, std::size_t item) {
  const std::size_t elements = changes.before().size() / item;
  for (std::size_t bit = 0; bit < 8 * item; ++bit) {
    for (std::size_t i = 0; i + 1 < elements; ++i) {
      Bytes neighbours = changes.before();
      flip(neighbours, i * item * 8 + bit);
      flip(neighbours, (i + 1) * item * 8 + bit);
      changes.expect_seen(neighbours, "the same bit in neighbours");
    }
    Bytes everywhere = changes.before();
    for (std::size_t i = 0; i < elements; ++i) flip(everywhere, i * item * 8 + bit);
    changes.expect_seen(everywhere, "the same bit everywhere");
  }
}

void move_elements(Changes& changes, std::size_t item) {
  const Bytes& before = changes.before();
  const std::size_t elements = before.size() / item;
  const auto swapped = [&](std::size_t i, std::size_t j) {
    Bytes after = before;
    std::swap_ranges(&after[i * item], &after[i * item] + item, &after[j * item]);
    if (after != before) changes.expect_seen(after, "two swapped elements");
  };
  for (std::size_t i = 0; i < elements; ++i) {
    for (std::size_t j = i + 1; j < elements; ++j) swapped(i, j);
  }
  const auto permuted = [&](const std::vector<std::size_t>& order, const std::string& what) {
    Bytes after;
    for (const std::size_t i : order)
      after.insert(after.end(), &before[i * item], &before[i * item] + item);
    if (after != before) changes.expect_seen(after, what);
  };
  std::vector<std::size_t> order(elements);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 1; i < elements; ++i) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
    permuted(order, "a shift");
  }
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  permuted(order, "reversal");
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    permuted(order, "a permutation");
  }
}

TEST(FingerprintChanges, FlipsSwapsAndShiftsAreSeenInEveryDType) {
  std::int64_t tried = 0;
  for (std::size_t i = 0; i < Names<DType>::values.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(name(dtype));
    for (Bytes& tensor : tensors_of(dtype, 32)) {
      Changes changes(std::move(tensor));
      flip_bits(changes, item_size(dtype));
      flip_pairs(changes);
      flip_same_bit(changes, item_size(dtype));
      move_elements(changes, item_size(dtype));
      tried += changes.tried();
    }
  }
  expect_count(tried, 226'989);
}

template <class T>
std::int64_t change_numbers(const std::vector<T>& values) {
  Changes changes(bytes_of(values));
  std::vector<T> negated, doubled, halved;
  for (const T value : values) {
    negated.push_back(static_cast<T>(-value));
    doubled.push_back(static_cast<T>(2 * value));
    halved.push_back(static_cast<T>(value / 2));
  }
  changes.expect_seen(bytes_of(negated), "negation");
  changes.expect_seen(bytes_of(doubled), "doubling");
  changes.expect_seen(bytes_of(halved), "halving");
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<T> after = values;
    after[i] = negated[i];
    changes.expect_seen(bytes_of(after), "one negated element");
    after[i] = doubled[i];
    changes.expect_seen(bytes_of(after), "one doubled element");
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      after = values;
      after[i] = negated[i];
      after[j] = negated[j];
      changes.expect_seen(bytes_of(after), "two negated elements");
    }
  }
  return changes.tried();
}

template <class T>
std::int64_t change_numbers_of_type() {
  std::int64_t tried = 0;
  for (const std::size_t size : {std::size_t{4}, std::size_t{33}}) {
    std::vector<T> ramp(size);
    std::iota(ramp.begin(), ramp.end(), T{2});
    tried += change_numbers(ramp) + change_numbers(std::vector<T>(size, T{2}));
  }
  return tried;
}

TEST(FingerprintChanges, ArithmeticIsSeen) {
  expect_count(change_numbers_of_type<float>() + change_numbers_of_type<double>() +
                   change_numbers_of_type<std::int8_t>() + change_numbers_of_type<std::int16_t>() +
                   change_numbers_of_type<std::int32_t>() + change_numbers_of_type<std::int64_t>(),
               7'368);
}

TEST(FingerprintChanges, SignsOfZeroAndPayloadsOfNanAreSeen) {
  Changes zeros(bytes_of(std::vector<float>(8, 0.0F)));
  Changes nans(bytes_of(std::vector<std::uint32_t>(8, 0x7fc00000)));
  for (std::size_t i = 0; i < 8; ++i) {
    Bytes after = zeros.before();
    flip(after, 32 * i + 31);
    zeros.expect_seen(after, "-0.0 for 0.0");
    for (std::size_t bit = 0; bit < 22; ++bit) {
      after = nans.before();
      flip(after, 32 * i + bit);
      nans.expect_seen(after, "another NaN");
    }
  }
  expect_count(zeros.tried() + nans.tried(), 8 + 8 * 22);
}

TEST(FingerprintChanges, BytesMovedToAnotherPlaceAreSeen) {
  const Bytes bytes = random_bytes(16, 8);
  std::set<Fingerprint> seen;
  for (std::uint64_t offset = 0; offset < 4096; ++offset) {
    seen.insert(fingerprint_run(bytes, offset));
  }
  for (std::uint64_t hi = 1; hi < 64; ++hi) seen.insert(fingerprint_run(bytes, hi << 34));
  EXPECT_EQ(seen.size(), 4096u + 63);
}

/// All single and double flips of a tensor differ from each other and from no flip.
TEST(FingerprintChanges, FlipsOfOneAndTwoBitsAreToldApart) {
  std::int64_t tried = 0;
  for (const Bytes& before : {random_bytes(256, 9), Bytes(256)}) {
    const std::size_t bits = before.size() * 8;
    std::vector<Fingerprint> single;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      Bytes flipped(before.begin() + static_cast<std::ptrdiff_t>(bit / 32 * 4),
                    before.begin() + static_cast<std::ptrdiff_t>(bit / 32 * 4 + 4));
      const Fingerprint was = fingerprint_run(flipped, bit / 32 * 4);
      flip(flipped, bit % 32);
      const Fingerprint is = fingerprint_run(flipped, bit / 32 * 4);
      single.push_back({is.low - was.low, is.high - was.high});
    }
    std::vector<Fingerprint> deltas{Fingerprint{}};
    for (std::size_t a = 0; a < bits; ++a) {
      deltas.push_back(single[a]);
      for (std::size_t b = a + 1; b < bits; ++b) {
        deltas.push_back(single[a]);
        deltas.back() += single[b];
      }
    }
    std::sort(deltas.begin(), deltas.end());
    EXPECT_EQ(std::adjacent_find(deltas.begin(), deltas.end()), deltas.end());
    tried += static_cast<std::int64_t>(deltas.size()) - 1;
  }
  expect_count(tried, 2 * (2048 + 2048 * 2047 / 2));
}

}  // namespace
}  // namespace lockstep
