#include "wire/native_types.h"

#include "wire/ids_generated.h"

namespace flatbuffers {
using namespace vrampool;

wire::TermW Pack(const Term& t) { return {t.count, t.member.value}; }
Term UnPack(const wire::TermW& t) { return {t.count(), MemberNo{t.member()}}; }
wire::EpochW Pack(const Epoch& e) { return {e.term.count, e.term.member.value, e.n}; }
Epoch UnPack(const wire::EpochW& e) { return {{e.term_count(), MemberNo{e.term_member()}}, e.n()}; }
wire::SenderW Pack(const Sender& s) { return {s.member.value, s.life.value}; }
Sender UnPack(const wire::SenderW& s) { return {MemberNo{s.member()}, Life{s.life()}}; }
wire::SegmentIdW Pack(const SegmentId& s) { return {s.life.value, s.count, s.member.value}; }
SegmentId UnPack(const wire::SegmentIdW& s) { return {MemberNo{s.member()}, Life{s.life()}, s.count()}; }
wire::RecordVersionW Pack(const RecordVersion& v) { return {v.term.count, v.seq, v.term.member.value}; }
RecordVersion UnPack(const wire::RecordVersionW& v) { return {{v.term_count(), MemberNo{v.term_member()}}, v.seq()}; }

}  // namespace flatbuffers
