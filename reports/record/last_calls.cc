#include "reports/record/last_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostNames = 2;

/// Others may be those of a checkpoint that another thread writes.
constexpr const char* kOperation = "allreduce";

/// "3 all-reduces at train.py:67".
std::string calls_in_words(const CallsAtPlace& at) {
  return counted(at.calls, "all-reduce") + (at.place.empty() ? "" : " at " + at.place);
}

/// The calls that reduce the gradients one by one; null: there are none.
const CallsAtPlace* of_gradients(const LastCalls& one) {
  const auto found = std::ranges::find_if(one.calls, &CallsAtPlace::is_of_gradients);
  return found == one.calls.end() ? nullptr : &*found;
}

/// Parameters that have no gradient there, and have one on other ranks.
std::vector<std::string> lacking(const LastCalls& one, const std::vector<LastCalls>& all) {
  std::vector<std::string> names;
  std::ranges::copy_if(one.without_gradient, std::back_inserter(names), [&](const auto& name) {
    return std::ranges::any_of(all, [&](const LastCalls& other) {
      return !std::ranges::binary_search(other.without_gradient, name);
    });
  });
  return names;
}

/// Ranks that reduce one gradient after the other, and skip those that they do not have.
std::string skipped_in_words(const std::vector<LastCalls>& all) {
  const auto [fewest, most] = std::ranges::minmax_element(
      all, {}, [](const LastCalls& one) { return of_gradients(one)->calls; });
  const CallsAtPlace& calls = *of_gradients(*most);
  const std::int64_t least = of_gradients(*fewest)->calls;
  const LastCalls& other = most == fewest ? all.back() : *fewest;
  const std::string rank = ranks_in_words(most->ranks);
  const std::string called =
      fmt::format("{} called {}, one for each gradient that it has", rank, calls_in_words(calls));
  if (least < calls.calls) {
    return fmt::format("{}, {} only {}: it has none of {}", called, ranks_in_words(other.ranks),
                       least, listed(lacking(other, all), kMostNames));
  }
  std::vector<std::string> without;
  for (const LastCalls& one : all) {
    const auto names = lacking(one, all);
    if (names.empty() || without.size() == kMostNames) continue;
    without.push_back(
        fmt::format("{} has none of {}", ranks_in_words(one.ranks), listed(names, kMostNames)));
  }
  return fmt::format("each rank called {}, one for each gradient that it has, but {}",
                     calls_in_words(calls), fmt::join(without, ", "));
}

std::int64_t calls_at(const LastCalls& one, const CallsAtPlace& at) {
  const auto found = std::ranges::find_if(one.calls, [&](const CallsAtPlace& own) {
    return own.operation == at.operation && own.place == at.place;
  });
  return found == one.calls.end() ? 0 : found->calls;
}

/// The first place of an all-reduce that some ranks called more often than others, in one step.
std::string more_in_words(const std::vector<LastCalls>& all) {
  const bool is_one_step =
      std::ranges::all_of(all, [&](const LastCalls& one) { return one.step == all.front().step; });
  if (!is_one_step) return "";  // others may have other calls
  for (const LastCalls& one : all) {
    for (const CallsAtPlace& at : one.calls) {
      if (at.operation != kOperation) continue;
      const auto fewest = std::ranges::min_element(
          all, {}, [&](const LastCalls& own) { return calls_at(own, at); });
      const std::int64_t least = calls_at(*fewest, at);
      if (least >= at.calls) continue;
      return fmt::format("{} called {} in step {}, {} {}", ranks_in_words(one.ranks),
                         calls_in_words(at), one.step, ranks_in_words(fewest->ranks),
                         least == 0 ? "none" : fmt::format("only {}", least));
    }
  }
  return "";
}

}  // namespace

std::string calls_apart_in_words(const std::vector<LastCalls>& calls, int world_size) {
  std::size_t known = 0;
  for (const LastCalls& one : calls) known += one.ranks.size();
  if (calls.size() < 2 || known != static_cast<std::size_t>(world_size)) return "";
  const bool are_of_gradients =
      std::ranges::all_of(calls, [](const LastCalls& one) { return of_gradients(one) != nullptr; });
  const bool lack_gradients = std::ranges::any_of(
      calls, [&](const LastCalls& one) { return !lacking(one, calls).empty(); });
  return are_of_gradients && lack_gradients ? skipped_in_words(calls) : more_in_words(calls);
}

}  // namespace lockstep
