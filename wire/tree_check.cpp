#include "wire/tree_check.h"

#include <array>

namespace vrampool::wire {
namespace {

using flatbuffers::ReadScalar;
using flatbuffers::TypeCode;
using flatbuffers::TypeTable;
using flatbuffers::uoffset_t;
using flatbuffers::voffset_t;

constexpr std::size_t scalar_bytes(unsigned base_type) {
  constexpr std::array<std::uint8_t, 12> kBytes{1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};  // ET_UTYPE to ET_DOUBLE
  return base_type < kBytes.size() ? kBytes[base_type] : 0;
}
static_assert(flatbuffers::ET_UTYPE == 0 && flatbuffers::ET_DOUBLE == 11);

const std::uint8_t* follow(const std::uint8_t* at) { return at + ReadScalar<uoffset_t>(at); }
const TypeTable* referred(const TypeTable* in, TypeCode code) {
  return code.sequence_ref >= 0 ? in->type_refs[code.sequence_ref]() : nullptr;
}

class Walker {
 public:
  Walker(const std::uint8_t* buffer, std::size_t left) : buffer_(buffer), left_(left) {}

  bool table(const std::uint8_t* at, const TypeTable* type) {
    const std::uint8_t* before = nullptr;  // a union's type lies in the field before it
    for (std::size_t i = 0; i < type->num_elems; ++i) {
      const TypeCode code = type->type_codes[i];
      const TypeTable* part = referred(type, code);
      const auto slot = flatbuffers::FieldIndexToOffset(static_cast<voffset_t>(i));
      const auto* value = reinterpret_cast<const flatbuffers::Table*>(at)->GetAddressOf(slot);
      if (value == nullptr && lacks_choice(before, code, part)) return false;
      if (value != nullptr && !field(value, before, code, part)) return false;
      before = value;
    }
    return take(4);
  }

 private:
  bool take(std::size_t n) {
    if (n > left_) return false;
    left_ -= n;
    return true;
  }
  bool field(const std::uint8_t* value, const std::uint8_t* before, TypeCode code, const TypeTable* type) {
    if (code.is_repeating) return vector(follow(value), code, type);
    if (code.base_type == flatbuffers::ET_STRING) return string(follow(value));
    if (code.base_type != flatbuffers::ET_SEQUENCE || type == nullptr) return true;
    if (type->st == flatbuffers::ST_TABLE) return table(follow(value), type);
    if (type->st == flatbuffers::ST_UNION && before != nullptr) return choice(follow(value), *before, type);
    return true;
  }
  // A union that names its type and has no value: it would unpack as a null pointer of that type.
  static bool lacks_choice(const std::uint8_t* before, TypeCode code, const TypeTable* part) {
    return code.base_type == flatbuffers::ET_SEQUENCE && part != nullptr && part->st == flatbuffers::ST_UNION &&
           before != nullptr && *before != 0;
  }
  bool string(const std::uint8_t* at) { return take(4 + ReadScalar<uoffset_t>(at)); }
  bool choice(const std::uint8_t* at, std::uint8_t chosen, const TypeTable* type) {
    if (type->values != nullptr || chosen == 0 || chosen >= type->num_elems) return true;  // unpacked as nothing
    const TypeTable* member = referred(type, type->type_codes[chosen]);
    return member == nullptr || table(at, member);
  }
  bool vector(const std::uint8_t* at, TypeCode code, const TypeTable* type) {
    const std::size_t count = ReadScalar<uoffset_t>(at);
    const std::uint8_t* element = at + sizeof(uoffset_t);
    const bool is_string = code.base_type == flatbuffers::ET_STRING;
    const bool is_table =
        code.base_type == flatbuffers::ET_SEQUENCE && type != nullptr && type->st == flatbuffers::ST_TABLE;
    if (!is_string && !is_table) return numbers(element, count, scalar_bytes(code.base_type));
    for (std::size_t i = 0; i < count; ++i, element += sizeof(uoffset_t))
      if (!(is_string ? string(follow(element)) : table(follow(element), type))) return false;
    return take(4 * count);
  }
  bool numbers(const std::uint8_t* at, std::size_t count, std::size_t size) {
    if (size > 1 && count != 0 && static_cast<std::size_t>(at - buffer_) % size != 0) return false;
    return take(count * size);
  }

  const std::uint8_t* buffer_;
  std::size_t left_;
};

}  // namespace

bool is_plain_tree(const std::uint8_t* buffer, std::size_t bytes, const TypeTable* type) {
  return Walker(buffer, bytes).table(follow(buffer), type);
}

}  // namespace vrampool::wire
