#include "formats/json_walk.h"

#include <boost/json/basic_parser_impl.hpp>
#include <string>

namespace vrampool::formats {
namespace {

namespace json = boost::json;

// Joins the parser's pieces of strings and passes whole values on.
struct Handler {
  static constexpr std::size_t max_object_size = ~std::size_t{0};
  static constexpr std::size_t max_array_size = ~std::size_t{0};
  static constexpr std::size_t max_key_size = 1 << 16;
  static constexpr std::size_t max_string_size = 1 << 26;

  JsonSink* sink;
  std::string text;

  bool proceed(json::error_code& ec) const {
    if (!sink->failure) return true;
    ec = json::error::exception;
    return false;
  }
  bool part(json::string_view s) { return text.append(s.data(), s.size()), true; }
  template <class Event>
  bool whole(json::string_view s, json::error_code& ec, Event event) {
    part(s);
    event(std::string_view(text));
    text.clear();
    return proceed(ec);
  }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& ec) { return sink->object_begin(), proceed(ec); }
  bool on_object_end(std::size_t, json::error_code& ec) { return sink->object_end(), proceed(ec); }
  bool on_array_begin(json::error_code& ec) { return sink->array_begin(), proceed(ec); }
  bool on_array_end(std::size_t, json::error_code& ec) { return sink->array_end(), proceed(ec); }
  bool on_key_part(json::string_view s, std::size_t, json::error_code&) { return part(s); }
  bool on_key(json::string_view s, std::size_t, json::error_code& ec) {
    return whole(s, ec, [this](std::string_view k) { sink->key(k); });
  }
  bool on_string_part(json::string_view s, std::size_t, json::error_code&) { return part(s); }
  bool on_string(json::string_view s, std::size_t, json::error_code& ec) {
    return whole(s, ec, [this](std::string_view v) { sink->string(v); });
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t v, json::string_view, json::error_code& ec) {
    v < 0 ? sink->other("a negative number") : sink->whole_number(static_cast<std::uint64_t>(v));
    return proceed(ec);
  }
  bool on_uint64(std::uint64_t v, json::string_view, json::error_code& ec) {
    return sink->whole_number(v), proceed(ec);
  }
  bool on_double(double, json::string_view, json::error_code& ec) { return sink->other("a fraction"), proceed(ec); }
  bool on_bool(bool, json::error_code& ec) { return sink->other("true or false"), proceed(ec); }
  bool on_null(json::error_code& ec) { return sink->other("null"), proceed(ec); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

}  // namespace

Status walk_json(std::span<const std::byte> text, std::size_t depth_max, std::string_view what, JsonSink& sink) {
  json::parse_options options;
  options.max_depth = depth_max;
  json::basic_parser<Handler> parser(options, Handler{&sink, {}});
  json::error_code ec;
  const auto* p = reinterpret_cast<const char*>(text.data());
  const std::size_t used = parser.write_some(false, p, text.size(), ec);
  if (sink.failure) return std::move(*sink.failure);
  if (!ec && used != text.size()) ec = json::error::extra_data;
  if (ec) return error(VP_CORRUPT, "{}: not valid JSON near byte {}: {}", what, used, ec.message());
  return {};
}

}  // namespace vrampool::formats
