// Writes small valid safetensors and GGUF files for tests of any room: #include "../formats/samples.h".
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace vrampool::samples {

using Bytes = std::vector<std::byte>;

// `type` is the format's own word ("F32", "BF16", "Q4_K"); `shape` is outermost first.
struct Tensor {
  std::string name;
  std::string type = "F32";
  std::vector<std::uint64_t> shape;
};

inline void put(Bytes& out, const void* data, std::size_t n) {
  const auto* p = static_cast<const std::byte*>(data);
  out.insert(out.end(), p, p + n);
}
template <class T>
void put_number(Bytes& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> 8 * i));
}
inline void put_string(Bytes& out, std::string_view text) {
  put_number<std::uint64_t>(out, text.size());
  put(out, text.data(), text.size());
}

// Byte `i` of the tensor `name`: the same everywhere, different for neighbours.
inline std::byte content(std::string_view name, std::uint64_t i) {
  std::uint64_t h = 1469598103934665603ull;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  h = (h ^ i) * 0x9e3779b97f4a7c15ull;
  return static_cast<std::byte>(h >> 56);
}
inline void put_content(Bytes& out, std::string_view name, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i) out.push_back(content(name, i));
}

inline std::uint64_t elements(const Tensor& t) {
  std::uint64_t n = 1;
  for (const auto d : t.shape) n *= d;
  return n;
}

// ---- safetensors ----

inline std::uint64_t safetensors_bits(const std::string& type) {
  static const std::map<std::string, std::uint64_t> kBits{
      {"F64", 64}, {"I64", 64}, {"F32", 32}, {"I32", 32},    {"F16", 16},    {"BF16", 16}, {"I16", 16},
      {"I8", 8},   {"U8", 8},   {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F4", 4}};
  return kBits.at(type);
}
inline std::uint64_t safetensors_bytes(const Tensor& t) { return elements(t) * safetensors_bits(t.type) / 8; }

// A file of any header text; the header is padded with blanks to 8 bytes.
inline Bytes safetensors_file(std::string header, const Bytes& data) {
  while (header.size() % 8 != 0) header.push_back(' ');
  Bytes out;
  put_string(out, header);
  put(out, data.data(), data.size());
  return out;
}
inline std::string json_list(const std::vector<std::uint64_t>& numbers) {
  std::string out = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  return out + "]";
}
inline Bytes write_safetensors(const std::vector<Tensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  Bytes data;
  for (const auto& t : tensors) {
    const std::uint64_t start = data.size();
    put_content(data, t.name, safetensors_bytes(t));
    header += ",\"" + t.name + "\":{\"dtype\":\"" + t.type + "\",\"shape\":" + json_list(t.shape) +
              ",\"data_offsets\":" + json_list({start, data.size()}) + "}";
  }
  return safetensors_file(header + "}", data);
}
// The index of a sharded model: tensor name to shard file.
inline Bytes write_index(const std::map<std::string, std::string>& weight_map) {
  std::string text = R"({"metadata":{"total_size":1},"weight_map":{)";
  const char* comma = "";
  for (const auto& [tensor, file] : weight_map) {
    text += comma + ("\"" + tensor + "\":\"" + file + "\"");
    comma = ",";
  }
  text += "}}";
  Bytes out;
  put(out, text.data(), text.size());
  return out;
}

// ---- GGUF ----

struct GgufOptions {
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  // 32 is not written: it is the default
  std::uint16_t split_no = 0;
  std::uint16_t split_count = 0;  // 0: no split keys
  std::int32_t split_tensors = 0;
  bool vocabulary = false;  // adds arrays of strings and numbers to be skipped
};

inline const formats::GgmlType& ggml_type(const std::string& name) {
  for (const auto& t : formats::ggml_types())
    if (name == t.name) return t;
  throw std::runtime_error("no such ggml type: " + name);
}
inline std::uint64_t gguf_bytes(const Tensor& t) {
  return elements(t) / ggml_type(t.type).block_elements * ggml_type(t.type).block_bytes;
}
inline void put_tensor_info(Bytes& out, const Tensor& t, std::uint32_t type_id, std::uint64_t offset) {
  put_string(out, t.name);
  put_number<std::uint32_t>(out, static_cast<std::uint32_t>(t.shape.size()));
  for (std::size_t i = t.shape.size(); i-- > 0;) put_number<std::uint64_t>(out, t.shape[i]);
  put_number<std::uint32_t>(out, type_id);
  put_number<std::uint64_t>(out, offset);
}
inline void put_vocabulary(Bytes& out) {
  put_string(out, "tokenizer.ggml.tokens");
  put_number<std::uint32_t>(out, 9);  // array of
  put_number<std::uint32_t>(out, 8);  // strings
  put_number<std::uint64_t>(out, 3);
  for (const char* token : {"<s>", "hello", ""}) put_string(out, token);
  put_string(out, "tokenizer.ggml.scores");
  put_number<std::uint32_t>(out, 9);
  put_number<std::uint32_t>(out, 6);  // f32
  put_number<std::uint64_t>(out, 3);
  for (int i = 0; i < 3; ++i) put_number<std::uint32_t>(out, 0x3f800000);
}
// Magic, version, counts and metadata.
inline Bytes gguf_preamble(std::uint64_t tensors, const GgufOptions& o) {
  Bytes out;
  put(out, "GGUF", 4);
  put_number<std::uint32_t>(out, o.version);
  put_number<std::uint64_t>(out, tensors);
  put_number<std::uint64_t>(out,
                            1 + (o.alignment != 32 ? 1 : 0) + (o.split_count != 0 ? 3 : 0) + (o.vocabulary ? 2 : 0));
  put_string(out, "general.architecture");
  put_number<std::uint32_t>(out, 8);
  put_string(out, "llama");
  if (o.vocabulary) put_vocabulary(out);
  if (o.alignment != 32) {
    put_string(out, "general.alignment");
    put_number<std::uint32_t>(out, 4);
    put_number<std::uint32_t>(out, o.alignment);
  }
  if (o.split_count != 0) {
    put_string(out, "split.no");
    put_number<std::uint32_t>(out, 2);
    put_number<std::uint16_t>(out, o.split_no);
    put_string(out, "split.count");
    put_number<std::uint32_t>(out, 2);
    put_number<std::uint16_t>(out, o.split_count);
    put_string(out, "split.tensors.count");
    put_number<std::uint32_t>(out, 5);
    put_number<std::int32_t>(out, o.split_tensors);
  }
  return out;
}
inline void pad(Bytes& out, std::uint64_t alignment) {
  while (out.size() % alignment != 0) out.push_back(std::byte{0});
}
inline Bytes write_gguf(const std::vector<Tensor>& tensors, const GgufOptions& o = {}) {
  Bytes out = gguf_preamble(tensors.size(), o);
  Bytes data;
  for (const auto& t : tensors) {
    put_tensor_info(out, t, ggml_type(t.type).id, data.size());
    put_content(data, t.name, gguf_bytes(t));
    pad(data, o.alignment);
  }
  pad(out, o.alignment);
  put(out, data.data(), data.size());
  return out;
}

// ---- Both ----

// The file's bytes of a tensor are its content: what a test compares after import.
inline bool has_content(std::span<const std::byte> bytes, std::string_view name) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != content(name, i)) return false;
  return true;
}

}  // namespace vrampool::samples
