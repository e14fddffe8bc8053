// Jobs: import, export, verify, cancel, over a data plane in memory.
#include <boost/json.hpp>
#include <filesystem>

#include "control_rig.h"

using namespace vrampool;
using namespace vrampool::service;

namespace {

LocalBody import_of(std::vector<std::string> paths, const std::string& name,
                    wire::LayoutMode layout = wire::LayoutMode::aligned) {
  wire::ImportJobT ask;
  ask.paths = std::move(paths);
  ask.name = name;
  ask.layout = layout;
  ask.placement = "spread";
  ask.mode = 0644;
  return local_body(std::move(ask));
}

LocalBody export_of(const std::string& name, const std::string& directory, bool overwrite = false) {
  wire::ExportJobT ask;
  ask.name = name;
  ask.directory = directory;
  ask.overwrite = overwrite;
  return local_body(std::move(ask));
}

LocalBody verify_of(const std::string& name) {
  wire::VerifyJobT ask;
  ask.name = name;
  return local_body(std::move(ask));
}

}  // namespace

TEST_CASE("what was imported is exported byte for byte, in both layouts") {
  Rig rig(2);
  rig.make_pool();
  TestClient client = rig.client(0);
  const std::string source = rig.dir.path() + "/m.safetensors", out = rig.dir.path() + "/out";
  std::filesystem::create_directory(out);
  write_text(source, safetensors_of(7, 100'001, 3'000'017));
  for (const auto layout : {wire::LayoutMode::aligned, wire::LayoutMode::file}) {
    auto imported = client.run_job(import_of({source}, "m", layout));
    REQUIRE_OK(imported);
    REQUIRE_MESSAGE(text_at(*imported, "state") == "done", text_at(*imported, "message"));
    auto verified = client.run_job(verify_of("m"));
    REQUIRE_OK(verified);
    CHECK_MESSAGE(text_at(*verified, "state") == "done", text_at(*verified, "message"));
    auto exported = client.run_job(export_of("m", out, true));
    REQUIRE_OK(exported);
    REQUIRE_MESSAGE(text_at(*exported, "state") == "done", text_at(*exported, "message"));
    CHECK(read_text(out + "/m.safetensors") == read_text(source));
  }
  auto refused = client.run_job(export_of("m", out));
  REQUIRE_OK(refused);
  CHECK(text_at(*refused, "state") == "failed");
  CHECK(text_at(*refused, "message").find("exists already") != std::string::npos);
  auto shown = client.verb("inspect", {"m"});
  REQUIRE_OK(shown);
  const auto& segment = shown->at("segment").as_object();
  CHECK(segment.at("tensors").as_array().size() == 2);
  CHECK(segment.at("files").as_array().at(0).at("sha256").as_string().size() == 64);
}

TEST_CASE("verify names the tensor whose bytes changed") {
  Rig rig(1);
  rig.make_pool();
  TestClient client = rig.client(0);
  const std::string source = rig.dir.path() + "/m.safetensors";
  write_text(source, safetensors_of(3, 50'000, 200'000));
  REQUIRE(text_at(*client.run_job(import_of({source}, "m")), "state") == "done");
  {
    const std::lock_guard lock(rig.medium.mutex);
    rig.medium.nodes.begin()->second.begin()->second.bytes.at(6 * kPageBytes) ^= std::byte{1};
  }
  auto verified = client.run_job(verify_of("m"));
  REQUIRE_OK(verified);
  CHECK(text_at(*verified, "state") == "failed");
  CHECK(text_at(*verified, "message").find("b") != std::string::npos);
  CHECK(text_at(*verified, "message").find("hash") != std::string::npos);
}

TEST_CASE("a cancelled import leaves nothing behind") {
  Rig rig(2);
  rig.make_pool();
  TestClient client = rig.client(0);
  const std::string source = rig.dir.path() + "/m.safetensors";
  write_text(source, safetensors_of(3, 50'000, 200'000));
  rig.medium.hold(true);
  auto started = client.call(import_of({source}, "m"));
  REQUIRE_OK(started);
  const std::uint64_t job = started->AsJobStarted()->job;
  CHECK(eventually([&] {
    const std::lock_guard lock(rig.medium.mutex);
    return rig.medium.writes_held > 0;
  }));
  wire::JobCancelT cancel;
  cancel.job = job;
  REQUIRE_OK(client.ask(std::move(cancel)));
  wire::JobQueryT query;
  query.job = job;
  query.wait_ms = 20'000;
  auto ended = client.ask(std::move(query));
  REQUIRE_OK(ended);
  CHECK(boost::json::parse(ended->AsJsonReply()->json).at("state").as_string() == "cancelled");
  CHECK(eventually([&] { return rig.medium.pieces() == 0; }));
}

TEST_CASE("a daemon stops in bounded time while an import hangs") {
  Rig rig(1);
  rig.make_pool();
  TestClient client = rig.client(0);
  const std::string source = rig.dir.path() + "/m.safetensors";
  write_text(source, safetensors_of(3, 50'000, 200'000));
  rig.medium.hold(true);
  REQUIRE_OK(client.call(import_of({source}, "m")));
  CHECK(eventually([&] {
    const std::lock_guard lock(rig.medium.mutex);
    return rig.medium.writes_held > 0;
  }));
  rig.stop(0);
  const std::lock_guard lock(rig.medium.mutex);
  CHECK(rig.medium.writes_held == 0);
}

TEST_CASE("files that are no model, missing or too large end in one line, and nothing is kept") {
  Rig rig(1);
  rig.make_pool();
  TestClient client = rig.client(0);
  const std::string bad = rig.dir.path() + "/bad.safetensors", large = rig.dir.path() + "/large.bin";
  write_text(bad, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  write_text(large, "");
  std::filesystem::resize_file(large, 1ull << 30);
  for (const std::string& path : {bad, large, rig.dir.path() + "/missing", rig.dir.path()}) {
    auto failed = client.run_job(import_of({path}, "m"));
    REQUIRE_OK(failed);
    CHECK(text_at(*failed, "state") == "failed");
    CHECK_FALSE(text_at(*failed, "message").empty());
    CHECK(text_at(*failed, "message").find('\n') == std::string::npos);
  }
  CHECK(rig.medium.pieces() == 0);
}

TEST_CASE("an import that was kept goes on in the same segment") {
  Rig rig(1);
  rig.make_pool();
  TestClient client = rig.client(0);
  const std::string source = rig.dir.path() + "/m.safetensors", out = rig.dir.path() + "/out";
  std::filesystem::create_directory(out);
  write_text(source, safetensors_of(3, 50'000, 200'000));
  const auto kept_import = [&] {
    LocalBody body = import_of({source}, "m");
    body.AsImportJob()->keep = true;
    return body;
  };
  rig.medium.hold(true);
  auto started = client.call(kept_import());
  REQUIRE_OK(started);
  wire::JobCancelT cancel;
  cancel.job = started->AsJobStarted()->job;
  CHECK(eventually([&] {
    const std::lock_guard lock(rig.medium.mutex);
    return rig.medium.writes_held > 0;
  }));
  REQUIRE_OK(client.ask(std::move(cancel)));
  CHECK(eventually([&] {
    return boost::json::parse(boost::json::serialize(client.verb("jobs")->at("jobs")))
               .as_array()
               .at(0)
               .at("state")
               .as_string() == "cancelled";
  }));
  CHECK(rig.medium.pieces() == 1);
  rig.medium.hold(false);
  auto again = client.run_job(kept_import());
  REQUIRE_OK(again);
  CHECK_MESSAGE(text_at(*again, "state") == "done", text_at(*again, "message"));
  CHECK(rig.medium.pieces() == 1);
  REQUIRE_OK(client.run_job(export_of("m", out)));
  CHECK(read_text(out + "/m.safetensors") == read_text(source));
}
