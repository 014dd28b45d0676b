#include "harness/verdict/parameter_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// Ranks that have the parameters of a wrapper in the same order.
struct OrdersApart {
  std::string wrapper;
  std::int64_t count = 0;
  std::vector<std::vector<int>> groups;  ///< by their first ranks
};

bool have_common(const std::set<std::string>& one, const std::set<std::string>& other) {
  return std::ranges::any_of(one, [&](const std::string& key) { return other.contains(key); });
}

/// Of ranks that have the same parameters in a common order: a rank may have several such models,
/// some of which others do not.
std::vector<std::vector<int>> groups_of(const std::vector<const PairedParameters*>& alike) {
  std::map<int, std::set<std::string>> orders;  // by rank
  for (const PairedParameters* one : alike) {
    for (const int rank : one->ranks) orders[rank].insert(one->order);
  }
  std::vector<std::vector<int>> groups;
  std::vector<const std::set<std::string>*> keys;
  for (const auto& [rank, own] : orders) {
    const auto known = std::ranges::find_if(
        keys, [&own = own](const std::set<std::string>* key) { return have_common(*key, own); });
    if (known == keys.end()) {
      keys.push_back(&own);
      groups.push_back({rank});
    } else {
      groups[static_cast<std::size_t>(known - keys.begin())].push_back(rank);
    }
  }
  return groups;
}

/// The one of the most parameters.
std::optional<OrdersApart> orders_apart(const JobRecord& job) {
  std::map<std::pair<std::string, std::string>, std::vector<const PairedParameters*>> alike;
  for (const PairedParameters& one : job.parameter_orders) {
    alike[{one.wrapper, one.names}].push_back(&one);
  }
  std::optional<OrdersApart> most;
  for (const auto& [key, orders] : alike) {
    const std::int64_t count = orders.front()->count;
    if (most && most->count >= count) continue;
    auto groups = groups_of(orders);
    if (groups.size() > 1) most = OrdersApart{key.first, count, std::move(groups)};
  }
  return most;
}

}  // namespace

std::string other_order_in_words(const JobRecord& job) {
  const auto orders = orders_apart(job);
  if (!orders) return "";
  return fmt::format(
      "ranks {} and {} have the {} parameters of the model in different orders, and {} pairs them "
      "by their places",
      orders->groups[0][0], orders->groups[1][0], orders->count, orders->wrapper);
}

}  // namespace lockstep
