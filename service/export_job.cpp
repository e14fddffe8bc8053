// Export: the files as they were imported, byte for byte, written beside their name and renamed when they are whole.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "service/file_rights.h"
#include "service/files.h"
#include "service/jobs.h"
#include "service/sha256.h"

namespace vrampool::service {
namespace {

constexpr std::size_t kExportChunkBytes = 4u << 20;

// One file to be written: its ranges in the order of file offsets.
struct Output {
  std::string path;
  std::uint64_t bytes = 0;
  std::vector<wire::FileRangeT> ranges;
  std::vector<std::uint8_t> sha256;  // empty: unknown
};

std::uint64_t end_of_tensors(const wire::RecordT& r) {
  std::uint64_t end = 0;
  for (const auto& t : r.tensors) end = std::max(end, t->offset + t->bytes);
  return end == 0 ? r.bytes : end;
}

// A segment that was not made of files becomes one file of its bytes.
Output plain_output(const wire::RecordT& r, const std::string& directory) {
  Output o;
  o.path = directory + "/" + r.name.substr(r.name.rfind('/') + 1);
  o.bytes = end_of_tensors(r);
  wire::FileRangeT all;
  all.bytes = o.bytes;
  o.ranges.push_back(all);
  return o;
}

// The names came from another machine's record: they must not lead out of the directory.
Result<std::vector<Output>> outputs_of(const wire::RecordT& r, const std::string& directory) {
  std::vector<Output> out;
  for (const auto& f : r.files) {
    if (!check_name(f->name) || f->name.find('/') != std::string::npos)
      return error(VP_CORRUPT, "\"{}\" names a source file that cannot be written: \"{}\"", r.name, f->name);
    out.push_back({directory + "/" + f->name, f->bytes, {}, f->sha256});
  }
  for (const auto& range : r.ranges) {
    if (range->file >= out.size() || range->segment_offset > r.bytes || range->bytes > r.bytes - range->segment_offset)
      return error(VP_CORRUPT, "the record of \"{}\" maps bytes that it does not have", r.name);
    out[range->file].ranges.push_back(*range);
  }
  for (Output& o : out) {
    std::uint64_t at = 0;
    std::sort(o.ranges.begin(), o.ranges.end(),
              [](const auto& a, const auto& b) { return a.file_offset < b.file_offset; });
    for (const auto& range : o.ranges) at += range.file_offset == at ? range.bytes : 0;
    if (at != o.bytes) return error(VP_CORRUPT, "the record of \"{}\" does not cover {}", r.name, o.path);
  }
  if (out.empty()) out.push_back(plain_output(r, directory));
  return out;
}

Status refuse_overwriting(const std::vector<Output>& outputs, bool overwrite) {
  for (const Output& o : outputs)
    if (!overwrite && ::access(o.path.c_str(), F_OK) == 0)
      return error(VP_EXISTS, "{}: exists already: say --overwrite to replace it", o.path);
  return {};
}

// A file that is not there under its name until keep().
class Draft {
 public:
  static Result<Draft> create(const Output& o, const FileRights& rights) {
    Draft d;
    d.path_ = o.path;
    d.temporary_ = o.path + ".vrampool-part";
    ::unlink(d.temporary_.c_str());
    d.fd_ = UniqueFd(::open(d.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!d.fd_) return error_errno(errno, d.temporary_);
    if (!rights.unlimited && rights.uid != ::geteuid() &&
        ::fchown(d.fd_.get(), rights.uid, static_cast<gid_t>(rights.gid)) != 0)
      return error_errno(errno, d.temporary_ + ": cannot be given to you");
    return d;
  }
  Draft() = default;
  Draft(Draft&& o) noexcept
      : path_(std::move(o.path_)), temporary_(std::exchange(o.temporary_, "")), fd_(std::move(o.fd_)) {}
  Draft& operator=(Draft&&) = delete;
  ~Draft() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error_errno(errno, path_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }
  Status keep() {
    if (::fsync(fd_.get()) != 0) return error_errno(errno, path_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return error_errno(errno, path_);
    temporary_.clear();
    return sync_directory(path_.substr(0, path_.rfind('/')));
  }

 private:
  std::string path_, temporary_;
  UniqueFd fd_;
};

// Reads any bytes of a segment; transfers are whole pages.
Result<std::span<const std::byte>> read_bytes(BulkChannel& channel, const Record& record, std::uint64_t offset,
                                              std::size_t bytes, std::vector<std::byte>& buffer) {
  const std::uint64_t first = offset / kPageBytes * kPageBytes;
  const std::uint64_t end = (offset + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  buffer.resize(static_cast<std::size_t>(end - first));
  VP_CHECK(channel.read(record, first, buffer));
  return std::span<const std::byte>(buffer).subspan(static_cast<std::size_t>(offset - first), bytes);
}

Status write_output(BulkChannel& channel, Job& job, const Record& record, const Output& output) {
  VP_TRY(draft, Draft::create(output, job.rights));
  Sha256Stream hash;
  std::vector<std::byte> buffer;
  for (const wire::FileRangeT& range : output.ranges)
    for (std::uint64_t done = 0; done < range.bytes;) {
      VP_CHECK(check_cancelled(job));
      const std::uint64_t at = range.segment_offset + done;
      const auto n =
          static_cast<std::size_t>(std::min<std::uint64_t>(range.bytes - done, kExportChunkBytes - at % kPageBytes));
      VP_TRY(bytes, read_bytes(channel, record, at, n, buffer));
      hash.add(bytes);
      VP_CHECK(draft.append(bytes));
      done += n;
      job.done_bytes += n;
    }
  if (!output.sha256.empty() && to_bytes(hash.end()) != output.sha256)
    return error(VP_CORRUPT, "{}: the bytes in the pool are not those of the imported file: run `vrampool verify {}`",
                 output.path, record->name);
  return draft.keep();
}

}  // namespace

Status run_export(JobDesk& desk, Job& job, const wire::ExportJobT& ask) {
  VP_TRY(record, desk.find(ask.name, job.who));
  VP_CHECK(check_output_directory(ask.directory, job.rights));
  VP_TRY(outputs, outputs_of(*record, ask.directory));
  VP_CHECK(refuse_overwriting(outputs, ask.overwrite));
  std::uint64_t total = 0;
  for (const Output& o : outputs) total += o.bytes;
  job.total_bytes = total;
  VP_TRY(channel, desk.channel(job));
  for (const Output& o : outputs) VP_CHECK(write_output(*channel, job, record, o));
  return {};
}

}  // namespace vrampool::service
