#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

/// Lines of a file that were looked for.
struct TracedLines {
  std::set<std::int64_t> code;      ///< that are code
  std::set<std::int64_t> executed;  ///< of these
};

/// What the ranks of a job executed and used, all together.
struct JobExecution {
  bool is_known = false;                        ///< a rank said so
  std::map<std::string, std::string> digests;   ///< of executed files, by absolute path
  std::vector<std::string> roots;               ///< absolute folders that these files lie in
  std::map<std::string, std::string> versions;  ///< of packages, and "python"
  std::set<std::string> devices;                ///< "CPU, AVX512"
  std::optional<std::int64_t> seed;             ///< of rank 0; absent: Lockstep set none
  std::map<std::string, TracedLines> lines;     ///< by absolute path; empty: nobody traced
};

/// Reads what the hooks of a job's ranks wrote: `rank-N.execution.json`. `files`: of the job. Files
/// that are torn or of another kind are left out.
JobExecution read_execution(const std::filesystem::path& files);

}  // namespace lockstep
