#include "tests/fuzz/literal_files.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "harness/pack/archive.h"
#include "harness/pack/pack_label.h"
#include "harness/record/collective_log.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_exit.h"
#include "harness/record/rank_status.h"
#include "harness/record/sketch.h"
#include "harness/record/stall.h"
#include "harness/record/watch_control.h"
#include "reports/record/finding_key.h"
#include "reports/record/json.h"
#include "tests/checkpoint/literal_checkpoint.h"
#include "tests/judge/literal_evidence.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/temporary_folder.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// The file that `write` leaves in a folder.
std::string written(const char* name, const std::function<void(const fs::path&)>& write) {
  const TemporaryFolder folder;
  write(folder.path());
  return text_of(folder.path() / name);
}

std::vector<LiteralFile> files_of_rank() {
  LiteralEvidence evidence(1);
  for (const std::int64_t step : {1, 2, 3}) {
    evidence.add(0, step, "layers.0.weight", {1, 2});
    evidence.add_shard(0, step, "bias", {0.5F}, {2}, {1}, {1});
    evidence.add_whole(0, step, "step", step, {Kind::optimizer_state, Phase::post_step, 0});
    evidence.add_undefined(0, step, "unused");
  }
  evidence.write_as([](int) { return std::string(); });
  std::vector<LiteralFile> files;
  for (const char* name :
       {"rank-0.csv", "rank-0.tensors.csv", "rank-0.index", "rank-0.step-1.safetensors"}) {
    files.push_back({name, text_of(evidence.folder() / name)});
  }
  return files;
}

std::string sketches() {
  return written("s", [](const fs::path& folder) {
    SketchWriter writer(folder / "s", "");
    Sketch sketch;
    sketch.lanes[3] = 2.5;
    writer.append(1, {{0, sketch}, {2, sketch}});
  });
}

std::string status() {
  return written("s", [](const fs::path& folder) {
    RankStatus status{.step = 3, .line = 41, .ended = true, .raised = true, .error = "no \"room\""};
    status.step_s = 0.25;
    status.rows = 12;
    status.step_began_ns = 17;
    status.rendezvous = RendezvousState{};
    status.process = "rank 0 of a cell";
    write_rank_status(folder / "s", status);
  });
}

std::string exit_of_rank() {
  return written("rank-0.exit.json", [](const fs::path& folder) {
    LaunchedExit exit;
    exit.end.kind = ExitKind::exited;
    exit.process = "rank 0 of a cell";
    exit.world_size = 2;
    exit.launcher = "torchrun";
    exit.host = "host";
    exit.ended_s = 1.5;
    write_rank_exit(folder, exit);
  });
}

std::string log_of_collectives() {
  return written("l", [](const fs::path& folder) {
    CollectiveLog log(folder / "l", 0, "rank 0 of a cell");
    Collective call;
    call.group = "world";
    call.group_size = 2;
    call.operation = kJoin;
    log.leave(log.enter(call), CollectiveState::completed);
    for (call.number = 1; call.number <= 2; ++call.number) {
      call.operation = "allreduce";
      call.reduction = "sum";
      call.dtype = "float32";
      call.shape = "[4, 4]";
      call.tensor = "gradient of layers.0.weight";
      log.enter(call);
    }
  });
}

std::string manifest() {
  return written("manifest.csv", [](const fs::path& folder) {
    for (const LiteralFile& file : literal_journal()) write_text(folder / file.name, file.bytes);
    write_manifest(folder, 1, "a job");
  });
}

std::string progress() {
  std::array<std::uint64_t, 20> counters{0x70'77'70'63'6b'6c'65'77, 4711, 0, 2, 3, 5};
  counters[8] = counters[9] = 4;
  counters[17] = 2;
  return little(counters);
}

std::string stacks() {
  return "Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n"
         "  File \"/usr/lib/python3.11/threading.py\", line 324 in wait\n\n"
         "Current thread 0x2 (most recent call first):\n"
         "  File \"/venv/site-packages/torch/nn/linear.py\", line 117 in forward\n"
         "  File \"train.py\", line 65 in main\n  File \"train.py\", line 80 in <module>\n";
}

/// Small enough to be changed as a whole.
std::string compact(RunRecord run) {
  run.planned = counts_of(run);
  return nlohmann::ordered_json::parse(render_json(run)).dump();
}

std::string record_of_cell() {
  return compact(
      literal_run_of({literal_cell("a-scenario", "fixed", Role::fixed, CellVerdict::as_expected)}));
}

std::string record_of_job() {
  RunRecord run = literal_run_of({});
  run.jobs.push_back(literal_job("3f9c2a"));
  return compact(run);
}

std::string pack(bool is_compressed) {
  const std::string packed = written("p", [](const fs::path& folder) {
    ArchiveWriter writer(folder / "p");
    writer.add_text("run/record.json", "{}");
    writer.add_text("run/job/rank-0.csv", "# journal");
    writer.finish();
  });
  if (is_compressed) return packed;
  std::string members;
  const auto field = [](std::string text, std::size_t size) {
    text.resize(size);
    return text;
  };
  const auto member = [&](const std::string& name, char type, const std::string& text) {
    char size[12];
    std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(text.size()));
    std::string header = field(name, 100) + field("0000644", 8) + field("0000000", 8) +
                         field("0000000", 8) + field(size, 12) + field("00000000000", 12) +
                         std::string(8, ' ') + type + field("", 100) + "ustar" + '\0' + "00";
    header.resize(512);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    char check[8];
    std::snprintf(check, sizeof check, "%06o", sum);
    header.replace(148, 7, check, 7);
    members += header + field(text, (text.size() + 511) / 512 * 512);
  };
  member("run/", '5', "");
  member("run/record.json", '0', "{}");
  return members + std::string(1024, '\0');
}

std::string published() {
  return "scenario,variant,world_size,quantity,kind,phase,tensor,element,step,step_base,rank,"
         "printed,"
         "definition,source\n"
         "a,b,2,drift,parameter,post_step,weight,0,1,1,-1,0.050678,max,\"toy, x\"\n"
         "a,b,2,synced,parameter,post_step,weight,0,1,1,-1,True,abs(g0 - g1) < 1e-9,y\n"
         "a,b,2,norm,gradient,pre_step,*,0,1,0,0,1.5e-03,in shape: norm,y\n"
         "a,b,2,norm,gradient,pre_step,*,0,1,0,1,2,in shape: norm,y\n"
         "a,b,2,element,loss,post_step,loss,0,2,1,0,-3.25,in shape: loss,y\n";
}

std::string log_of_rank() {
  return "step 1\nTraceback (most recent call last):\n  File \"train.py\", line 65 in main\n"
         "frame #3: c10d::ProcessGroupGloo\nRuntimeError: "
         "HF_TOKEN=hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ0123\n";
}

/// In the ways in which texts show them.
std::string secrets() {
  return "WANDB_API_KEY\n0123456789abcdef0123456789abcdef01234567\n--api-key\ns3cr3t-w0rd\n"
         "--token=xyzzy42 --max-tokens 512 attn.key.weight\nAuthorization: Bearer aB3dE6gH9\n"
         "{'password': 'x y', \"apiKey\": \"Zz12\\n34\", \"eos_token\": \"</s>\"}\n"
         "s3://ann:pw@host/p?sig=a%20b&X-Amz-Signature=00ff\nCookie: a=b; c=d\n"
         "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----\n"
         "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456\n";
}

/// With what only a packed answer needs.
std::string kept_answer() {
  auto answer = nlohmann::json::parse(literal_answer());
  for (auto& group : answer["groups"]) group["name"] = group["title"];
  return answer.dump();
}

std::string journal_part(const char* name) {
  for (const LiteralFile& file : files_of_rank()) {
    if (file.name == name) return file.bytes;
  }
  return "";
}

}  // namespace

std::vector<LiteralFile> literal_journal() {
  std::vector<LiteralFile> files = files_of_rank();
  files.pop_back();
  return files;
}

std::string literal_facts() {
  return R"({"world_size": 2, "torch": "2.11.0", "failure": "", "skipped_steps": [2, 3],)"
         R"("thinned_after": 4, "captured_updates": 1, "has_copies": true, "has_only_copies": false,)"
         R"("collectives": [{"first_step": 1, "last_step": 3, "group_size": 2, "collectives": 5}],)"
         R"("collectives_in_steps": [], "configuration": {"lr": "0.1"}, "precisions":)"
         R"([{"operation": "linear", "dtype": "bfloat16", "first_step": 1}], "groups": {"tp": 2},)"
         R"("arrivals": [{"step": 2, "group": 0, "number": 3, "ns": 5}], "clock": "1f",)"
         R"("local_first": 0, "local_count": 2, "rendezvous": 77})";
}

std::string literal_bystander() {
  return R"({"rank": 2, "world_size": 3, "copies": [{"name": "w", "digest": "00ff"}]})";
}

std::string literal_elsewhere() { return R"({"process": 4711, "step": 3})"; }

std::string literal_answer() {
  return R"({"request": 3, "is_joining": true, "awaits_message": false, "stands_s": 3.5,)"
         R"( "groups": [{"title": "world", "ranks": [0, 1],)"
         R"("first": 1}, {"title": "1 tp", "ranks": [0], "first": 1}], "calls": [{"group": "world",)"
         R"("number": 1, "operation": "allreduce", "dtype": "float", "shape": "[4]", "tensors": 1,)"
         R"("elements": 4, "is_complete": true, "age_ns": 5, "site": "train.py:6", "step": 2},)"
         R"({"group": "world", "number": 2, "operation": "barrier", "dtype": "", "shape": "",)"
         R"("tensors": 0, "elements": 0, "is_complete": false, "age_ns": 3, "site": "", "step": -1}],)"
         R"("threads": [{"function": "main", "site": "train.py:9", "stack": ["main, train.py:9"]}]})";
}

std::string literal_end() {
  auto end = nlohmann::json::parse(literal_answer());
  end["is_abort"] = true;
  end["now_ns"] = 1000;
  return end.dump();
}

std::string literal_stall() {
  return written("stall.json", [](const fs::path& folder) {
    Stall stall;
    stall.seen_ns = 1000;
    stall.limit_s = 3;
    stall.request = 3;
    stall.world_size = 3;
    stall.is_open = true;
    stall.ranks = {{0, StalledState::answered, 4, "main, train.py:6", {2, 1}},
                   {1, StalledState::silent, 4, "native code", {2, -1}},
                   {2, StalledState::absent, 0, ""}};
    write_stall(folder, stall);
  });
}

std::string literal_safetensors() {
  return safetensors(R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[0]}}"},)"
                     R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                     R"("b":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}})",
                     bytes_of(std::vector<float>{1, 2, 3}));
}

std::string literal_shard() {
  return safetensors(R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[2]}}"},)"
                     R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                     bytes_of(std::vector<float>{3}));
}

namespace {

LiteralDistributed literal_distributed() {
  LiteralDistributed checkpoint;
  checkpoint.add("model.w", {3, 2},
                 {{{0, 0}, {2, 2}, saved_tensor({2, 2}, {1, 2}, bytes_of<float>({1, 2, 3, 4}))},
                  {{2, 0}, {1, 2}, saved_tensor({1, 2}, {2, 1}, bytes_of<float>({5, 6}))}});
  checkpoint.value("epoch");
  return checkpoint;
}

}  // namespace

std::string literal_distributed_metadata() { return literal_distributed().metadata(); }
std::string literal_distributed_data() { return literal_distributed().data; }

std::string literal_gzip(std::string_view bytes) {
  const auto size = static_cast<std::uint16_t>(bytes.size());
  const auto inverse = static_cast<std::uint16_t>(~size);
  const auto sum = static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11) + little(size) + little(inverse) +
         std::string(bytes) + little(sum) + little(static_cast<std::uint32_t>(size));
}

std::vector<LiteralFile> literal_seeds() {
  const std::string model_names =
      "module.model.layers.0.weight\nmodel.optimizer.state.0.exp_avg\nmodel._orig_mod.head.bias\n"
      " app.model.layers.0.weight\n app.model.head.bias\n";
  using namespace pickling;
  return {
      {"bystander", literal_bystander()},
      {"collective-log", log_of_collectives()},
      {"csv-text", "# a remark\nname,count,value\n\"a, \"\"b\"\"\",3,1.5e-3\nx\\x0a,-1,nan\ntorn"},
      {"distributed-metadata", literal_distributed_metadata()},
      {"elsewhere", literal_elsewhere()},
      {"ends", literal_end()},
      {"facts", literal_facts()},
      {"journal", journal_part("rank-0.csv")},
      {"known-findings", "# known\n\n" + lines_of_keys(keys_of("a job", literal_divergence()))},
      {"log-tail", log_of_rank()},
      {"manifest", manifest()},
      {"model-names", model_names},
      {"pack", pack(true)},
      {"pack-label", render_label({PackContents::findings, 3})},
      {"pack-members", pack(false)},
      {"pickle", literal_distributed_metadata()},
      {"pickle", whole(global("a", "B") + ")\x81" + dict({{text("n"), number(-3)}}) + "b")},
      {"process-error", R"({"rank": "0", "error": "no room"})"},
      {"progress", progress()},
      {"published-table", published()},
      {"rank-exit", exit_of_rank()},
      {"rank-status", status()},
      {"record", record_of_cell()},
      {"record", record_of_job()},
      {"redaction",
       "^layers|bias$\nlayers.0.weight\nhead.bias: exp_avg\nhead\nsee layers.0.weight, head\n"},
      {"safetensors", literal_shard()},
      {"safetensors",
       safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678")},
      {"safetensors-index", R"({"metadata":{"total_size":8},"weight_map":{"w":"a.safetensors"}})"},
      {"samples", std::string("\2abcdefgh")},
      {"secrets", secrets()},
      {"settings",
       "# ours\n[watch]\nevery = 10\nkeep = \"64\"\ntensors = 'a.*'\nlabel = [\"ours\"]\n"},
      {"shards", literal_safetensors()},
      {"sketches", sketches()},
      {"snapshot", journal_part("rank-0.step-1.safetensors")},
      {"stacks", stacks()},
      {"staged-answer", kept_answer()},
      {"staged-texts", status()},
      {"staged-texts",
       R"({"configuration": {"api_key": "s3cr3t"}, "notes": [["--token=abc1"], 7]})"},
      {"stall", literal_stall()},
      {"stalled-calls", literal_answer()},
      {"step-index", journal_part("rank-0.index")},
      {"tensor-table", journal_part("rank-0.tensors.csv")},
      {"torch-archive", saved_tensor({2, 2}, {1, 2}, bytes_of<float>({1, 2, 3, 4}))},
      {"torch-archive", saved_tensor({2}, {1}, bytes_of<float>({1, 2, 3, 4}), 2)},
      {"watch-control",
       written("watch.control", [](const fs::path& folder) { WatchControl::create(folder); })},
      {"world", written("world.json",
                        [](const fs::path& folder) {
                          write_world(folder, {"host", 29500, "0123456789abcdef"});
                        })},
      {"zip", saved_tensor({2}, {1}, bytes_of<float>({1, 2}))}};
}

}  // namespace lockstep
