#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_status.h"
#include "harness/record/run_folder.h"
#include "harness/record/stall.h"
#include "harness/verdict/judge_run.h"
#include "tests/command.h"
#include "tests/judge/literal_evidence.h"
#include "tests/temporary_folder.h"

namespace lockstep {

/// The folder of a run: two ranks of a watched job, which train four steps and differ in the last
/// two, and call different collectives at their end.
class StoredJob {
 public:
  /// `change` may damage the job's folder before its files are listed.
  explicit StoredJob(const std::function<void(const std::filesystem::path&)>& change = {}) {
    std::filesystem::create_directory(folder());
    make_record();
    write_tensors();
    for (int rank = 0; rank < 2; ++rank) write_texts(rank);
    write_stall_of_both();
    if (change) change(files());
    JobRecord& job = run_.jobs[0];
    job.manifest = write_manifest(files(), 2, execution_identity(job));
    judge_run(run_, folder());
    save_record(folder(), run_);
  }

  std::filesystem::path folder() const { return place_.path() / "run"; }
  std::filesystem::path files() const { return folder() / "job"; }
  /// A file next to the run.
  std::filesystem::path beside(const std::string& name) const { return place_.path() / name; }
  RunRecord& record() { return run_; }
  const JobRecord& job() const { return run_.jobs[0]; }

 private:
  void make_record() {
    run_.command = {"lockstep", "watch", "--", "/opt/private/torchrun", "secret_train.py"};
    run_.environment = {"2026-11-20T18:52:46Z", "secret-host", "0.1.0", "2.11.0", "", "lockstep-2"};
    run_.environment.variables = {{"MASTER_ADDR", "secret-address"}};
    JobRecord& job = run_.jobs.emplace_back();
    job.id = "3f9c2a";
    job.title = "/opt/private/torchrun secret_train.py --lr 1";
    job.folder = "job";
    job.world_size = job.processes = 2;
    job.claims = {kAgree, agree_across_ranks(Kind::parameter, Phase::post_step), ranks_finish(),
                  collectives_match()};
    for (int rank = 0; rank < 2; ++rank) job.exits.emplace_back().rank = rank;
    job.exits[1].detail = "no progress for 3 s, in secret_loader, secret.py:6";
    run_.planned = counts_of(run_);
  }

  void write_tensors() {
    LiteralEvidence evidence(2);
    for (int rank = 0; rank < 2; ++rank) {
      for (std::int64_t step = 1; step <= 4; ++step) {
        const auto value = static_cast<float>(step > 2 ? rank : 0);
        evidence.add(rank, step, "encoder.secret.weight", {1 + value, 2});
        evidence.add(rank, step, "head.weight", {3, 4});
        evidence.add(rank, step, "encoder.secret.weight", {5 + value, 6},
                     {Kind::parameter, Phase::post_step, 0});
        evidence.add(rank, step, "encoder.secret.weight: exp_avg", {7 + value, 8},
                     {Kind::optimizer_state, Phase::post_step, 0});
        evidence
            .add(rank, step, "only " + std::to_string(rank), {9},
                 {Kind::parameter, Phase::post_step, 0})
            .replica_group = "secret group " + std::to_string(rank);
      }
      evidence.lose_values(rank, 4);
    }
    evidence.write_as([&](int rank) { return process_identity(job(), rank); });
    std::filesystem::copy(evidence.folder(), files());
  }

  void write_texts(int rank) {
    RankStatus status;
    status.step = 4;
    status.error = "secret error";
    status.process = process_identity(job(), rank);
    write_rank_status(rank_status_file(files(), rank), status);
    const std::string name = "rank-" + std::to_string(rank);
    for (const char* ending : {".log", ".stacks"}) {
      write_text(files() / (name + ending), "secret output");
    }
    write_text(files() / (name + ".watch.json"), R"({"world_size": 2, "torch": "secret torch"})");
    write_text(files() / (name + ".stalled.json"), answer_of(rank));
    nlohmann::json end = nlohmann::json::parse(answer_of(rank));
    end["is_abort"] = rank == 0;
    end["now_ns"] = 1000;
    write_text(files() / (name + ".ended.json"), end.dump());
  }

  /// They are in a collective that they call with other sizes.
  static std::string answer_of(int rank) {
    using Json = nlohmann::json;
    const auto call = [&](int number, int elements) {
      return Json{{"group", "secret world"},
                  {"number", number},
                  {"operation", "allreduce"},
                  {"dtype", "float"},
                  {"tensors", 1},
                  {"elements", elements},
                  {"is_complete", number == 1},
                  {"age_ns", 5},
                  {"site", "secret.py:54"},
                  {"step", 4},
                  {"shape", "[" + std::to_string(elements) + "]"}};
    };
    const Json answer = {
        {"request", 1},
        {"is_joining", false},
        {"awaits_message", false},
        {"stands_s", 0.5},
        {"failure", "secret failure"},
        {"groups",
         {{{"name", "secret"}, {"title", "secret world"}, {"ranks", {0, 1}}, {"first", 1}}}},
        {"calls", {call(1, 4), call(2, rank == 0 ? 4 : 8)}},
        {"threads",
         {{{"name", "secret thread"},
           {"function", "secret_loader"},
           {"site", "secret.py:6"},
           {"stack", {"secret_loader, secret.py:6"}}}}}};
    return answer.dump();
  }

  void write_stall_of_both() const {
    Stall stall;
    stall.seen_ns = 1000;
    stall.limit_s = 3;
    stall.request = 1;
    stall.world_size = 2;
    stall.is_open = true;
    for (int rank = 0; rank < 2; ++rank) {
      stall.ranks.push_back({rank,
                             StalledState::answered,
                             4,
                             "secret_loader, secret.py:6",
                             {},
                             {"secret_loader, secret.py:6"}});
    }
    write_stall(files(), stall);
  }

  TemporaryFolder place_;
  RunRecord run_;
};

}  // namespace lockstep
