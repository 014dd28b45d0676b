#include "harness/checkpoint/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

/// A value takes 40 bytes, and a pickle of one byte each could have any number of them.
constexpr std::size_t kMostValues = 20'000'000;

/// Opcodes by the names of Python's pickletools.
enum Opcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistentId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProtocol = 0x80,
  kNewObject = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// The stack machine of pickles, with values instead of objects.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, std::string path, bool (*is_known)(std::string_view),
                std::deque<PickleValue>& values)
      : bytes_(bytes), path_(std::move(path)), is_known_(is_known), values_(values) {}

  PickleRef run() {
    while (true) {
      if (stack_.size() + marks_.size() + memo_.size() + sparse_memo_.size() > 2 * kMostValues) {
        throw refusal(fmt::format("at most {} values", kMostValues), "more");
      }
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == kStop) return pop();
      const bool is_done = scalar(opcode) || text(opcode) || collection(opcode) ||
                           filling(opcode) || object(opcode) || memory(opcode);
      if (!is_done) throw refusal("an opcode of a pickle that holds data", opcode_text(opcode));
    }
  }

 private:
  static std::string opcode_text(unsigned char opcode) {
    return fmt::format("the opcode 0x{:02x}", opcode);
  }

  Error refusal(std::string_view expected, std::string_view found) const {
    return malformed(path_, 0, 0, fmt::format("{} at byte {} of a pickle", expected, at_), found);
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      throw refusal(fmt::format("{} more bytes", count), fmt::format("{}", bytes_.size() - at_));
    }
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  /// Little-endian.
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  template <class T>
  void push(T value) {
    if (values_.size() == kMostValues) {
      throw refusal(fmt::format("at most {} values", kMostValues), "more");
    }
    stack_.push_back(&values_.emplace_back(PickleValue{std::move(value)}));
  }

  PickleRef pop() {
    if (stack_.size() <= bottom()) throw refusal("a value on the stack", "none");
    const PickleRef value = stack_.back();
    stack_.pop_back();
    return value;
  }

  /// Above which values belong to the last mark.
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<PickleRef> pop_to_mark() {
    if (marks_.empty()) throw refusal("a mark on the stack", "none");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleRef> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  /// The top of the stack, to be changed.
  template <class T>
  T& top(std::string_view expected) {
    const PickleRef value = pop();
    stack_.push_back(value);
    if (!pickled<T>(value)) throw refusal(expected, "another value");
    return std::get<T>(const_cast<PickleValue*>(value)->value);
  }

  std::int64_t long_of(std::string_view digits) const {
    if (digits.size() > sizeof(std::int64_t)) {
      throw refusal("a number of 64 bits", fmt::format("one of {} bytes", digits.size()));
    }
    std::uint64_t value = !digits.empty() && (digits.back() & 0x80) ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), digits.size());
    return static_cast<std::int64_t>(value);
  }

  bool scalar(unsigned char opcode) {
    switch (opcode) {
      case kNone:
        return push(std::monostate()), true;
      case kNewTrue:
      case kNewFalse:
        return push(opcode == kNewTrue), true;
      case kBinInt:
        return push(std::int64_t{number<std::int32_t>()}), true;
      case kBinInt1:
        return push(std::int64_t{number<std::uint8_t>()}), true;
      case kBinInt2:
        return push(std::int64_t{number<std::uint16_t>()}), true;
      case kLong1:
        return push(long_of(take(number<std::uint8_t>()))), true;
      case kBinFloat:
        return push(std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>()))), true;
      default:
        return false;
    }
  }

  bool text(unsigned char opcode) {
    switch (opcode) {
      case kShortBinUnicode:
      case kShortBinBytes:
        return push(std::string(take(number<std::uint8_t>()))), true;
      case kBinUnicode:
      case kBinBytes:
        return push(std::string(take(number<std::uint32_t>()))), true;
      case kBinUnicode8:
        return push(std::string(take(number<std::uint64_t>()))), true;
      default:
        return false;
    }
  }

  bool collection(unsigned char opcode) {
    switch (opcode) {
      case kEmptyTuple:
      case kEmptyList:
      case kEmptySet:
        return push(PickleList()), true;
      case kEmptyDict:
        return push(PickleDict()), true;
      case kMark:
        return marks_.push_back(stack_.size()), true;
      case kTuple:
      case kFrozenSet:
        return push(PickleList{pop_to_mark()}), true;
      case kTuple1:
      case kTuple2:
      case kTuple3: {
        std::vector<PickleRef> items(static_cast<std::size_t>(opcode - kTuple1) + 1);
        for (std::size_t i = items.size(); i-- > 0;) items[i] = pop();
        return push(PickleList{std::move(items)}), true;
      }
      default:
        return false;
    }
  }

  bool filling(unsigned char opcode) {
    switch (opcode) {
      case kAppend: {
        const PickleRef item = pop();
        top<PickleList>("a list").items.push_back(item);
        return true;
      }
      case kAppends:
      case kAddItems: {
        const std::vector<PickleRef> items = pop_to_mark();
        auto& list = top<PickleList>("a list").items;
        list.insert(list.end(), items.begin(), items.end());
        return true;
      }
      case kSetItem: {
        const PickleRef value = pop(), key = pop();
        top<PickleDict>("a dict").items.emplace_back(key, value);
        return true;
      }
      case kSetItems: {
        const std::vector<PickleRef> items = pop_to_mark();
        if (items.size() % 2 != 0) throw refusal("keys with their values", "a key without one");
        auto& dict = top<PickleDict>("a dict").items;
        for (std::size_t i = 0; i < items.size(); i += 2) {
          dict.emplace_back(items[i], items[i + 1]);
        }
        return true;
      }
      default:
        return false;
    }
  }

  bool object(unsigned char opcode) {
    switch (opcode) {
      case kGlobal: {
        const std::string module = line();
        return push_global(module, line()), true;
      }
      case kStackGlobal: {
        const PickleRef name = pop(), module = pop();
        if (!pickled<std::string>(name) || !pickled<std::string>(module)) {
          throw refusal("the name of a global", "another value");
        }
        return push_global(*pickled<std::string>(module), *pickled<std::string>(name)), true;
      }
      case kReduce:
      case kNewObject: {
        const PickleRef arguments = pop(), type = pop();
        return push_object(type, arguments), true;
      }
      case kBuild: {
        const PickleRef state = pop();
        if (pickled<PickleDict>(stack_.empty() ? nullptr : stack_.back())) return true;
        top<PickleObject>("an object").state = state;
        return true;
      }
      case kBinPersistentId: {
        const PickleRef id = pop();
        return push(PicklePersistent{id}), true;
      }
      default:
        return false;
    }
  }

  std::string line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) throw refusal("a line", "none");
    std::string text(take(end - at_));
    take(1);
    return text;
  }

  void push_global(const std::string& module, const std::string& name) {
    const std::string global = module + "." + name;
    if (!is_known_(global)) {
      throw unreadable(
          path_,
          fmt::format("its pickle names {}, which no such file of torch needs. "
                      "Nothing of it was run",
                      global),
          "Give a checkpoint that torch.distributed.checkpoint wrote, or a safetensors "
          "file");
    }
    push(PickleGlobal{global});
  }

  /// An OrderedDict is filled like a dict.
  void push_object(PickleRef type, PickleRef arguments) {
    const auto* const global = pickled<PickleGlobal>(type);
    if (!global) throw refusal("a global to be called", "another value");
    if (global->name == "collections.OrderedDict") return push(PickleDict());
    push(PickleObject{type, arguments, nullptr});
  }

  bool memory(unsigned char opcode) {
    switch (opcode) {
      case kProtocol:
        return take(1), true;
      case kFrame:
        return take(sizeof(std::uint64_t)), true;
      case kPop:
        return pop(), true;
      case kPopMark:
        return pop_to_mark(), true;
      case kDup:
      case kMemoize:
      case kBinPut:
      case kLongBinPut: {
        const PickleRef value = pop();
        stack_.push_back(value);
        if (opcode == kDup) return stack_.push_back(value), true;
        const std::uint32_t slot =
            opcode == kMemoize  ? static_cast<std::uint32_t>(memo_.size() + sparse_memo_.size())
            : opcode == kBinPut ? number<std::uint8_t>()
                                : number<std::uint32_t>();
        return put(slot, value), true;
      }
      case kBinGet:
        return get(number<std::uint8_t>()), true;
      case kLongBinGet:
        return get(number<std::uint32_t>()), true;
      default:
        return false;
    }
  }

  void put(std::uint32_t slot, PickleRef value) {
    if (slot < memo_.size()) {
      memo_[slot] = value;
    } else if (slot == memo_.size()) {
      memo_.push_back(value);
    } else {
      sparse_memo_[slot] = value;
    }
  }

  void get(std::uint32_t slot) {
    if (slot < memo_.size()) return stack_.push_back(memo_[slot]);
    const auto known = sparse_memo_.find(slot);
    if (known == sparse_memo_.end()) {
      throw refusal("a value in the memo", fmt::format("no {}", slot));
    }
    stack_.push_back(known->second);
  }

  std::string_view bytes_;
  std::string path_;
  bool (*is_known_)(std::string_view);
  std::deque<PickleValue>& values_;
  std::size_t at_ = 0;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleRef> memo_;                     // Python numbers its slots from 0 on
  std::map<std::uint32_t, PickleRef> sparse_memo_;  // of slots that somebody else chose
};

}  // namespace

Pickle::Pickle(std::string_view bytes, const std::string& path,
               bool (*is_known)(std::string_view)) {
  root_ = PickleMachine(bytes, path, is_known, values_).run();
}

PickleRef item_of(const PickleDict& dict, std::string_view key) {
  for (const auto& [name, value] : dict.items) {
    const auto* const text = pickled<std::string>(name);
    if (text && *text == key) return value;
  }
  return nullptr;
}

PickleRef attribute_of(PickleRef object, std::string_view name) {
  const auto* const built = pickled<PickleObject>(object);
  const auto* const state = built ? pickled<PickleDict>(built->state) : nullptr;
  return state && state->items.size() <= kMostAttributes ? item_of(*state, name) : nullptr;
}

std::string_view type_of(PickleRef object) {
  const auto* const built = pickled<PickleObject>(object);
  const auto* const type = built ? pickled<PickleGlobal>(built->type) : nullptr;
  return type ? std::string_view(type->name) : std::string_view();
}

}  // namespace lockstep
