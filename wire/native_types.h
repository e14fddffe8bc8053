// How FlatBuffers' object API turns the id structs of ids.fbs into the strong types of base/ids.h.
#pragma once

#include "base/ids.h"

namespace vrampool::wire {
struct TermW;
struct EpochW;
struct SenderW;
struct SegmentIdW;
struct RecordVersionW;
}  // namespace vrampool::wire

namespace flatbuffers {
vrampool::wire::TermW Pack(const vrampool::Term&);
vrampool::Term UnPack(const vrampool::wire::TermW&);
vrampool::wire::EpochW Pack(const vrampool::Epoch&);
vrampool::Epoch UnPack(const vrampool::wire::EpochW&);
vrampool::wire::SenderW Pack(const vrampool::Sender&);
vrampool::Sender UnPack(const vrampool::wire::SenderW&);
vrampool::wire::SegmentIdW Pack(const vrampool::SegmentId&);
vrampool::SegmentId UnPack(const vrampool::wire::SegmentIdW&);
vrampool::wire::RecordVersionW Pack(const vrampool::RecordVersion&);
vrampool::RecordVersion UnPack(const vrampool::wire::RecordVersionW&);
}  // namespace flatbuffers
