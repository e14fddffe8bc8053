// Import: file bytes stream to the nodes that will own them; nobody stages the model.
#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "formats/model.h"
#include "platform/clock.h"
#include "service/import_files.h"
#include "service/jobs.h"
#include "service/page_writer.h"
#include "service/sha256.h"

namespace vrampool::service {
namespace {

constexpr std::size_t kImportChunkBytes = 1u << 20;
// After so many bytes a kept import knows that all of them have arrived.
constexpr std::uint64_t kCheckpointBytes = 256ull << 20;

// Stands for what is imported: the same text means that the same bytes go to the same places.
std::string source_text(const wire::ImportJobT& ask, const ModelFiles& model) {
  std::string out = fmt::format("{} layout {}", ask.name, static_cast<int>(ask.layout));
  for (const InputFile& f : model.files) out += fmt::format(" {} {} {}", f.path, f.bytes, f.mtime_ns);
  return out;
}

CreateAsk create_ask(const wire::ImportJobT& ask, const formats::SegmentPlan& plan) {
  CreateAsk c;
  c.name = ask.name;
  c.bytes = plan.bytes;
  c.placement = ask.placement;
  c.nodes = ask.nodes;
  c.mode = ask.mode;
  c.cut_points = plan.cut_points;
  c.layout = plan.layout;
  c.format = plan.format;
  return c;
}

// Streams the files, hashing each on the way. What lies before `from` is only hashed, as it is at its hosts already.
class Stream {
 public:
  Stream(Job& job, BulkChannel& channel, Record segment, const ModelFiles& model, const formats::SegmentPlan& plan,
         std::uint64_t from)
      : job_(job),
        channel_(channel),
        model_(model),
        plan_(plan),
        chunk_(kImportChunkBytes),
        safe_(from),
        writer_(plan.ranges, [this, segment, from](std::uint64_t offset, std::span<const std::byte> pages) -> Status {
          return position_ <= from ? Status() : channel_.write(segment, offset, pages);
        }) {}

  Status run() {
    auto range = plan_.ranges.begin();
    for (std::size_t i = 0; i < model_.files.size(); ++i) {
      Sha256Stream hash;
      for (; range != plan_.ranges.end() && range->file == i; ++range) VP_CHECK(copy(model_.files[i], *range, hash));
      hashes_.push_back(to_bytes(hash.end()));
    }
    VP_ASSERT(writer_.complete());
    return channel_.flush();
  }
  const std::vector<std::vector<std::uint8_t>>& hashes() const { return hashes_; }
  // So many bytes of the files are at their hosts for certain.
  std::uint64_t safe_bytes() const { return safe_; }

 private:
  Status copy(const InputFile& file, const wire::FileRangeT& range, Sha256Stream& hash) {
    for (std::uint64_t done = 0; done < range.bytes;) {
      VP_CHECK(check_cancelled(job_));
      const std::uint64_t at = range.segment_offset + done;
      const auto n =
          static_cast<std::size_t>(std::min<std::uint64_t>(range.bytes - done, kImportChunkBytes - at % kPageBytes));
      const std::span<std::byte> bytes = std::span(chunk_).first(n);
      VP_CHECK(read_fully(file, range.file_offset + done, bytes));
      hash.add(bytes);
      position_ += n;
      VP_CHECK(writer_.put(at, bytes));
      done += n;
      job_.done_bytes = position_;
      if (position_ >= safe_ + kCheckpointBytes) VP_CHECK(checkpoint());
    }
    return {};
  }
  Status checkpoint() {
    VP_CHECK(channel_.flush());
    safe_ = position_;
    return {};
  }

  Job& job_;
  BulkChannel& channel_;
  const ModelFiles& model_;
  const formats::SegmentPlan& plan_;
  std::vector<std::byte> chunk_;
  std::uint64_t position_ = 0, safe_ = 0;  // in the files, one after the other
  PageWriter writer_;
  std::vector<std::vector<std::uint8_t>> hashes_;
};

wire::RecordT parts_of(const Record& created, const formats::SegmentPlan& plan, const ModelFiles& model,
                       const std::vector<std::vector<std::uint8_t>>& hashes) {
  wire::RecordT r(*created);
  r.tensors.clear();
  for (const auto& t : plan.tensors) r.tensors.push_back(std::make_unique<wire::TensorT>(t));
  for (const auto& range : plan.ranges) r.ranges.push_back(std::make_unique<wire::FileRangeT>(range));
  for (std::size_t i = 0; i < model.files.size(); ++i) {
    auto file = std::make_unique<wire::SourceFileT>();
    file->name = model.parsed[i].name;
    file->path = model.files[i].path;
    file->bytes = model.files[i].bytes;
    file->mtime_ns = model.files[i].mtime_ns;
    file->sha256 = hashes[i];
    r.files.push_back(std::move(file));
  }
  return r;
}

Status check_unchanged(const ModelFiles& model, const FileRights& rights) {
  for (const InputFile& file : model.files) {
    VP_TRY(now, open_input(file.path, rights));
    if (now.bytes != file.bytes || now.mtime_ns != file.mtime_ns)
      return error(VP_CORRUPT, "{}: changed while it was imported", file.path);
  }
  return {};
}

Status fill_and_seal(JobDesk& desk, Job& job, KeptImport& import, const ModelFiles& model,
                     const formats::SegmentPlan& plan) {
  VP_TRY(channel, desk.channel(job));
  Stream stream(job, *channel, import.segment, model, plan, import.safe_bytes);
  const Status streamed = stream.run();
  import.safe_bytes = stream.safe_bytes();
  if (!streamed) return streamed;
  VP_CHECK(check_unchanged(model, job.rights));
  VP_CHECK(check_cancelled(job));
  VP_TRY(sealed, desk.seal(import.segment->id, parts_of(import.segment, plan, model, stream.hashes())));
  log::info("segment {} \"{}\": {} tensors, {} from {} files", to_text(sealed->id), sealed->name,
            sealed->tensors.size(), format_bytes(sealed->bytes), sealed->files.size());
  return {};
}

Result<KeptImport> begin(JobDesk& desk, Job& job, const wire::ImportJobT& ask, const ModelFiles& model,
                         const formats::SegmentPlan& plan) {
  const std::string source = source_text(ask, model);
  if (auto kept = desk.take_kept(source, job.who)) {
    log::info("job {}: goes on with segment {} after {}", job.id, to_text(kept->segment->id),
              format_bytes(kept->safe_bytes));
    return std::move(*kept);
  }
  VP_TRY(segment, desk.create(create_ask(ask, plan), job.who));
  return KeptImport{source, segment, 0, {}};
}

// Changed files can never be gone on with; everything else may, if the person asked for it.
bool keep(JobDesk& desk, Job& job, KeptImport import, const Status& why) {
  if (why.error().code == VP_CORRUPT || why.error().code == VP_STALE) return false;
  import.until = platform::now() + Duration::millis(kImportKeptMs);
  log::info("job {}: segment {} is kept for an hour, {} are in it: import the same files again to go on", job.id,
            to_text(import.segment->id), format_bytes(import.safe_bytes));
  return desk.keep(std::move(import));
}

}  // namespace

Status run_import(JobDesk& desk, Job& job, const wire::ImportJobT& ask) {
  VP_TRY(model, open_model(ask.paths, job.rights));
  VP_TRY(plan, formats::plan_segment(model.parsed, ask.layout));
  std::uint64_t total = 0;
  for (const InputFile& f : model.files) total += f.bytes;
  job.total_bytes = total;
  VP_CHECK(check_cancelled(job));
  VP_TRY(import, begin(desk, job, ask, model, plan));
  const Status filled = fill_and_seal(desk, job, import, model, plan);
  if (filled || (ask.keep && keep(desk, job, import, filled))) return filled;
  if (const Status dropped = desk.abort(import.segment->id); !dropped)
    log::warn("job {}: {}", job.id, dropped.error().message);
  return filled;
}

}  // namespace vrampool::service
