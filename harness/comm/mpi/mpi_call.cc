#include "harness/comm/mpi/mpi_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::int64_t kNone = -1;
constexpr std::size_t kFixedWords = 5;

template <class Value>
std::int64_t word_of(const std::optional<Value>& value) {
  return value ? static_cast<std::int64_t>(*value) : kNone;
}

template <class Value>
std::optional<Value> value_of(std::int64_t word) {
  return word == kNone ? std::nullopt : std::optional<Value>(static_cast<Value>(word));
}

/// "ALLREDUCE" in the spelling of the collective logs.
std::string name_of(c10d::OpType operation) {
  std::string name = c10d::opTypeToString(operation);
  if (name.starts_with('_')) name.erase(0, 1);
  for (char& letter : name) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return name;
}

std::string name_of(c10d::ReduceOp::RedOpType reduction) {
  static constexpr std::array<const char*, 8> kNames{"sum", "avg",  "product", "min",
                                                     "max", "band", "bor",     "bxor"};
  return reduction < kNames.size() ? kNames[reduction] : "another reduction";
}

/// Ranks of an all-to-all that expect other amounts than their peers send; empty: none.
std::string uneven_exchange(const std::vector<MpiCall>& calls) {
  for (std::size_t from = 0; from < calls.size(); ++from) {
    for (std::size_t to = 0; to < calls.size(); ++to) {
      if (calls[from].sent.empty() || calls[to].received.empty()) continue;
      const std::int64_t sent = calls[from].sent[to];
      const std::int64_t received = calls[to].received[from];
      if (sent == received) continue;
      return fmt::format("rank {} sends {} to rank {}, which expects {}", from,
                         counted(sent, "element"), to, counted(received, "element"));
    }
  }
  return {};
}

/// Ranks of an all-to-all may have tensors of different sizes.
MpiCall comparable(MpiCall call) {
  if (!call.sent.empty()) call.elements = 0;
  call.sent.clear();
  call.received.clear();
  return call;
}

}  // namespace

std::size_t most_words(int world_size) {
  return kFixedWords + 2 * static_cast<std::size_t>(world_size);
}

std::vector<std::int64_t> to_words(const MpiCall& call) {
  std::vector<std::int64_t> words{static_cast<std::int64_t>(call.operation), word_of(call.dtype),
                                  call.elements, word_of(call.root), word_of(call.reduction)};
  words.insert(words.end(), call.sent.begin(), call.sent.end());
  words.insert(words.end(), call.received.begin(), call.received.end());
  return words;
}

MpiCall from_words(const std::vector<std::int64_t>& words) {
  MpiCall call;
  call.operation = static_cast<c10d::OpType>(words[0]);
  call.dtype = value_of<at::ScalarType>(words[1]);
  call.elements = words[2];
  call.root = value_of<int>(words[3]);
  call.reduction = value_of<c10d::ReduceOp::RedOpType>(words[4]);
  const auto sizes = words.begin() + kFixedWords;
  const auto middle = sizes + (words.end() - sizes) / 2;
  call.sent.assign(sizes, middle);
  call.received.assign(middle, words.end());
  return call;
}

std::string call_in_words(const MpiCall& call) {
  std::string text = name_of(call.operation);
  if (call.root) {
    const bool is_target = call.operation == c10d::OpType::SEND ||
                           call.operation == c10d::OpType::REDUCE ||
                           call.operation == c10d::OpType::GATHER;
    text += fmt::format(" {} rank {}", is_target ? "to" : "from", *call.root);
  }
  if (call.reduction) text += fmt::format(" ({})", name_of(*call.reduction));
  if (call.dtype) {
    text += fmt::format(" of {}, {}", c10::getDtypeNames(*call.dtype).first,
                        counted(call.elements, "element"));
  }
  return text;
}

std::string mismatch_of(const std::vector<MpiCall>& calls) {
  std::vector<std::pair<MpiCall, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const MpiCall call = comparable(calls[rank]);
    auto group = groups.begin();
    while (group != groups.end() && comparable(group->first) != call) ++group;
    if (group == groups.end()) group = groups.insert(group, {calls[rank], {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() == 1) return uneven_exchange(calls);
  std::string text;
  for (const auto& [call, ranks] : groups) {
    text += fmt::format("{}{} called {}", text.empty() ? "" : "; ", ranks_in_a_sentence(ranks),
                        call_in_words(call));
  }
  return text;
}

std::string ranks_in_a_sentence(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const std::vector<int> but_last(ranks.begin(), ranks.end() - 1);
  return fmt::format("ranks {} and {}", fmt::join(but_last, ", "), ranks.back());
}

}  // namespace lockstep
