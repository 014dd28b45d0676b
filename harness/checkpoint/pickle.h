#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

struct PickleValue;

/// A value that its `Pickle` owns. Values may refer to each other in cycles.
using PickleRef = const PickleValue*;

/// A list, a tuple or a set.
struct PickleList {
  std::vector<PickleRef> items;
};

struct PickleDict {
  std::vector<std::pair<PickleRef, PickleRef>> items;
};

/// A class or a function by its name, "torch.Size". It is never called.
struct PickleGlobal {
  std::string name;
};

/// A call that was not made, or an object that was not built: its class or function, the arguments
/// and the state that it would be given. Null: none.
struct PickleObject {
  PickleRef type = nullptr;
  PickleRef arguments = nullptr;
  PickleRef state = nullptr;
};

/// What stands for a thing outside the pickle, such as a tensor's storage.
struct PicklePersistent {
  PickleRef id = nullptr;
};

struct PickleValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, PickleList, PickleDict,
               PickleGlobal, PickleObject, PicklePersistent>
      value;
};

/// A pickle of Python, read as a tree of values without running any of its code. Globals are names
/// here, and a call is an object with its arguments.
class Pickle {
 public:
  /// Reads protocols 2 to 5. `path` is for errors. `is_known` says whether a global by this name
  /// belongs into such a pickle. Throws Error (usage) for another one, and for a malformed pickle.
  Pickle(std::string_view bytes, const std::string& path, bool (*is_known)(std::string_view name));
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }

 private:
  std::deque<PickleValue> values_;  // in one place each, and freed without recursion
  PickleRef root_ = nullptr;
};

/// The value if it has this type; null: it has another, or there is no value.
template <class T>
const T* pickled(PickleRef value) {
  return value ? std::get_if<T>(&value->value) : nullptr;
}

/// The value of a text key of a dict; null: there is none.
PickleRef item_of(const PickleDict& dict, std::string_view key);

/// Attributes of an object that are looked for: those of torch have about ten. A pickle may name an
/// object as often as it likes, and each time they are searched.
inline constexpr std::size_t kMostAttributes = 64;

/// The attribute of an object whose state is a dict; null: there is none, or it has more than
/// `kMostAttributes`.
PickleRef attribute_of(PickleRef object, std::string_view name);

/// The name of an object's class or of the function that would make it; empty: it is no object.
std::string_view type_of(PickleRef object);

}  // namespace lockstep
