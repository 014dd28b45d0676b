#include "harness/comm/store_service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "harness/comm/open_store.h"
#include "harness/record/whole_file.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

constexpr const char* kToken = "token";
constexpr const char* kStatus = "status";
/// Size of one value in the store, whose protocol takes at most 8 MiB.
constexpr std::size_t kPart = 4UL * 1024 * 1024;

Store open_files(const Rendezvous& rendezvous, std::chrono::milliseconds limit) {
  return c10::make_intrusive<c10d::PrefixStore>("lockstep-files", open_store(rendezvous, limit));
}

std::string complete_key(int rank) { return fmt::format("{}/files", rank); }
std::string received_key(int rank) { return fmt::format("{}/received", rank); }
std::string heard_key(int rank) { return fmt::format("{}/heard", rank); }

/// The files of `rank`: complete ones only, its exit file last.
std::vector<fs::path> files_of(int rank, const fs::path& folder) {
  const std::string prefix = fmt::format("rank-{}.", rank);
  const std::string log = fmt::format("collectives-{}.bin", rank);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if ((name.starts_with(prefix) || name == log) && !name.ends_with(".tmp")) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::stable_partition(files.begin(), files.end(), [](const fs::path& file) {
    return !file.string().ends_with(".exit.json");
  });
  return files;
}

void send_file(c10d::Store& store, int rank, std::size_t number, const fs::path& file) {
  const std::string bytes = read_text(file, kLargestFile);
  std::size_t parts = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPart) {
    store.set(fmt::format("{}/{}/{}", rank, number, parts++), bytes.substr(at, kPart));
  }
  store.set(fmt::format("{}/{}", rank, number),
            fmt::format("{} {}", parts, file.filename().string()));
}

std::string take(c10d::Store& store, const std::string& key) {
  const std::string value = store.get_to_str(key);
  store.deleteKey(key);
  return value;
}

void receive_file(c10d::Store& store, int rank, std::size_t number, const fs::path& folder) {
  const std::string head = take(store, fmt::format("{}/{}", rank, number));
  const std::size_t blank = head.find(' ');
  const std::size_t parts = std::stoul(head.substr(0, blank));
  std::string bytes;
  for (std::size_t part = 0; part < parts; ++part) {
    bytes += take(store, fmt::format("{}/{}/{}", rank, number, part));
  }
  write_whole_file(folder / fs::path(head.substr(blank + 1)).filename(), bytes);
}

void receive_rank(c10d::Store& store, int rank, const fs::path& folder) {
  const std::size_t files = std::stoul(take(store, complete_key(rank)));
  for (std::size_t number = 0; number < files; ++number) {
    receive_file(store, rank, number, folder);
  }
  store.set(received_key(rank), std::string("yes"));
}

}  // namespace

void serve_store(const Rendezvous& rendezvous) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(rendezvous.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = rendezvous.listen_fd;
  const c10d::TCPStore store("127.0.0.1", options);
  for (;;) ::pause();
}

void receive_files(const Rendezvous& rendezvous, int world_size, const std::string& token,
                   const fs::path& folder) {
  constexpr std::chrono::hours kAsLongAsItTakes{24 * 7};
  const Store store = open_files(rendezvous, kAsLongAsItTakes);
  store->set(kToken, token);
  std::set<int> awaited;
  for (int rank = 1; rank < world_size; ++rank) awaited.insert(rank);
  for (;;) {
    for (auto rank = awaited.begin(); rank != awaited.end();) {
      if (!store->check({complete_key(*rank)})) {
        ++rank;
        continue;
      }
      receive_rank(*store, *rank, folder);
      rank = awaited.erase(rank);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool send_files(const Rendezvous& rendezvous, int rank, const std::string& token,
                const fs::path& folder, std::chrono::milliseconds limit) {
  const Store store = open_files(rendezvous, limit);
  if (store->get_to_str(kToken) == token) return false;
  const std::vector<fs::path> files = files_of(rank, folder);
  for (std::size_t number = 0; number < files.size(); ++number) {
    send_file(*store, rank, number, files[number]);
  }
  store->set(complete_key(rank), std::to_string(files.size()));
  store->wait({received_key(rank)});
  return true;
}

void tell_status(const Rendezvous& rendezvous, int world_size, int status,
                 std::chrono::milliseconds limit) {
  const Store store = open_files(rendezvous, limit);
  store->set(kStatus, std::to_string(status));
  for (int rank = 1; rank < world_size; ++rank) {
    if (store->check({received_key(rank)})) store->wait({heard_key(rank)});
  }
}

int hear_status(const Rendezvous& rendezvous, int rank, std::chrono::milliseconds limit) {
  const Store store = open_files(rendezvous, limit);
  const int status = std::stoi(store->get_to_str(kStatus));
  store->set(heard_key(rank), std::string("yes"));
  return status;
}

}  // namespace lockstep
