#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A file as the project writes it.
struct LiteralFile {
  std::string name;
  std::string bytes;
};

/// The journal of rank 0, with its tensor table and its index.
std::vector<LiteralFile> literal_journal();

/// What the hook of rank 0 of 2 writes: what it knows, that it trains in another process, too, and
/// where it stands still. `literal_stall` is the stall that it answers.
std::string literal_facts();
std::string literal_bystander();
std::string literal_elsewhere();
std::string literal_answer();
std::string literal_end();
std::string literal_stall();

/// Two shards of one tensor: the first one's file and the second one's.
std::string literal_safetensors();
std::string literal_shard();

/// The file that the metadata of the distributed checkpoint refers to.
std::string literal_distributed_metadata();
std::string literal_distributed_data();

/// The bytes as gzip stores what it cannot compress. Requires: fewer than 2^16.
std::string literal_gzip(std::string_view bytes);

/// The seeds of the corpus: files that the reader `name` accepts.
std::vector<LiteralFile> literal_seeds();

}  // namespace lockstep
