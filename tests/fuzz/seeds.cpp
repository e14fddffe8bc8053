// Writes the seed corpus: fuzz_seeds DIRECTORY makes DIRECTORY/<target>/<seed>.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "../formats/samples.h"
#include "wire/codec.h"
#include "wire/control_generated.h"
#include "wire/data_header.h"
#include "wire/local_generated.h"

using namespace vrampool;
using samples::Bytes;

namespace {

class Corpus {
 public:
  explicit Corpus(std::filesystem::path root) : root_(std::move(root)) {}
  void add(const std::string& target, const Bytes& bytes) {
    const auto folder = root_ / target;
    std::filesystem::create_directories(folder);
    std::ofstream out(folder / ("seed-" + std::to_string(count_++)), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    good_ = good_ && out.good();
  }
  // The parser targets take their step from the first byte.
  void add_file(const std::string& target, Bytes bytes) {
    bytes.insert(bytes.begin(), std::byte{255});
    add(target, bytes);
  }
  bool good() const { return good_; }

 private:
  std::filesystem::path root_;
  int count_ = 0;
  bool good_ = true;
};

void add_formats(Corpus& corpus) {
  corpus.add_file("fuzz_safetensors", samples::write_safetensors({}));
  corpus.add_file("fuzz_safetensors",
                  samples::write_safetensors({{"a", "F32", {2, 3}}, {"b", "BF16", {0}}, {"c", "F4", {2}}}));
  corpus.add_file(
      "fuzz_safetensors",
      samples::safetensors_file(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":[{}]}})", Bytes(1)));
  corpus.add("fuzz_safetensors_index", samples::write_index({{"a", "1.safetensors"}, {"b", "2.safetensors"}}));
  corpus.add_file("fuzz_gguf", samples::write_gguf({}));
  corpus.add_file("fuzz_gguf",
                  samples::write_gguf({{"a", "F32", {2, 3}}, {"b", "Q8_0", {1, 32}}}, {.vocabulary = true}));
  corpus.add_file(
      "fuzz_gguf",
      samples::write_gguf({{"a", "I8", {1}}}, {.alignment = 8, .split_no = 1, .split_count = 2, .split_tensors = 2}));
}

wire::RecordT record() {
  wire::RecordT r;
  r.id = {MemberNo{1}, Life{2}, 3};
  r.name = "models/a";
  r.tensors.push_back(std::make_unique<wire::TensorT>());
  r.tensors[0]->name = "w";
  r.tensors[0]->shape = {2, 3};
  r.files.push_back(std::make_unique<wire::SourceFileT>());
  r.files[0]->sha256.resize(32);
  r.ranges.push_back(std::make_unique<wire::FileRangeT>());
  r.pieces.push_back(std::make_unique<wire::PieceT>());
  return r;
}

template <class Body>
Bytes envelope(Body body) {
  wire::EnvelopeT e;
  e.from = {MemberNo{1}, Life{2}};
  e.body.Set(std::move(body));
  return wire::encode<wire::Envelope>(e);
}
template <class Body>
Bytes local(Body body) {
  wire::LocalMessageT m;
  m.call = 7;
  m.body.Set(std::move(body));
  return wire::encode<wire::LocalMessage>(m);
}

void add_messages(Corpus& corpus) {
  corpus.add("fuzz_record", wire::encode<wire::Record>(record()));
  wire::ProposeT propose;
  propose.record = std::make_unique<wire::RecordT>(record());
  corpus.add("fuzz_control", envelope(std::move(propose)));
  corpus.add("fuzz_control", envelope(wire::HelloT{}));
  corpus.add("fuzz_control", envelope(wire::SpaceReplyT{}));
  wire::JoinReplyT join;
  join.roster = std::make_unique<wire::RosterT>();
  join.roster->entries.push_back(std::make_unique<wire::RosterEntryT>());
  join.roster->entries[0]->addresses = {"host:1", "host:2"};
  corpus.add("fuzz_control", envelope(std::move(join)));
  wire::OpenedT opened;
  opened.record = std::make_unique<wire::RecordT>(record());
  corpus.add("fuzz_local", local(std::move(opened)));
  corpus.add("fuzz_local", local(wire::AttachT{}));
  wire::ImportJobT job;
  job.paths = {"/models/a.gguf", "/models/b.gguf"};
  corpus.add("fuzz_local", local(std::move(job)));
  wire::MappedT mapped;
  mapped.parts.push_back(std::make_unique<wire::ViewPartT>());
  corpus.add("fuzz_local", local(std::move(mapped)));
}

void add_headers(Corpus& corpus) {
  for (const auto kind : {wire::DataKind::hello, wire::DataKind::read, wire::DataKind::data}) {
    wire::DataHeader h;
    h.kind = kind;
    h.segment = {MemberNo{1}, Life{2}, 3};
    h.length = kPageBytes;
    const auto bytes = wire::encode(h);
    corpus.add("fuzz_data_header", Bytes(bytes.begin(), bytes.end()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: fuzz_seeds DIRECTORY\n", 2;
  Corpus corpus(argv[1]);
  add_formats(corpus);
  add_messages(corpus);
  add_headers(corpus);
  return corpus.good() ? 0 : (std::cerr << "cannot write to " << argv[1] << "\n", 1);
}
