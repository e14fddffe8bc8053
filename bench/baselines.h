// The other side of every ratio: the same work done as barely as possible in the same run on the same machine.
// Each has the number of processes and wake-ups, the checksums and the TLS suite of what it is compared with.
//
// Make them before the process starts threads (each forks a child that serves; it ends when the Measured goes).
// Threads: one per baseline. Blocking: run() blocks. Errors: what the system refused, in one line.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/limits.h"
#include "base/result.h"
#include "bench/measure.h"

namespace vrampool::bench {

// A page read over blocking sockets: 96 bytes out, 100 + `bytes` back.
struct EchoOptions {
  std::uint32_t bytes = kPageBytes;
  bool tls = false;        // TLS 1.3, external PSK, AES-128-GCM; header in one record, each 16 KiB in one
  bool verify_crc = true;  // the reader checks a crc32c per page, as ours does
  bool relay = false;      // one local process in between, over a unix socket
};
Result<Measured> bare_echo(const EchoOptions& options);

// Bytes one way; an operation is one block.
struct StreamOptionsBare {
  std::uint32_t block_bytes = 1u << 20;
  bool tls = false;
  bool crc_both_sides = true;  // taken by the sender, checked by the receiver, per 16 KiB
};
Result<Measured> bare_stream(const StreamOptionsBare& options);
// Tries block sizes on `bytes_to_try` bytes each and returns the fastest.
Result<Measured> best_bare_stream(StreamOptionsBare options, std::uint64_t bytes_to_try = 256u << 20);

// Page reads between two processes through our own DataStream, poll-driven on both sides: what the rail itself costs.
Result<Measured> data_stream_echo(const EchoOptions& options);
// The same for a stream: 8 MiB of reads under way on one connection. Blocks above 1 MiB become 1 MiB.
Result<Measured> data_stream_stream(StreamOptionsBare options);

// Reads every word of `memory` front to back (an operation is 1 MiB) or random pages (an operation is 16 KiB).
// `keep_alive` is held by the Measured: whoever mapped the memory.
enum class ScanOrder : std::uint8_t { sequential, random };
Measured scan_memory(std::string name, std::span<const std::byte> memory, ScanOrder order,
                     std::shared_ptr<void> keep_alive = {});
// An own shared object with `bytes` of real memory.
Result<Measured> own_object_scan(std::uint64_t bytes, ScanOrder order);

// A page fault that another process resolves: userfaultfd, fill through an alias, CONTINUE. Nothing else.
// VP_UNSUPPORTED where the system has no such thing; the message says why.
Result<Measured> bare_fault(std::uint32_t pages = 4096);

}  // namespace vrampool::bench
