// What the operator's verbs show, as JSON documents (docs/operator-json.md says what each field means).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "service/node.h"
#include "service/sessions.h"

namespace boost::json {
class object;
class array;
}  // namespace boost::json

namespace vrampool::service {

// What a report can look at. `node` is null outside a pool.
struct Scene {
  const Config& config;
  Node* node = nullptr;
  const Store& store;
  const Sessions& sessions;
  Birth birth{};
  std::int64_t started_unix_ms = 0;
  bool joining = false;
};

// What other members said of themselves, by member; nothing from those that did not answer.
using Heard = std::map<MemberNo, boost::json::object>;
// Parses what a StatusReply carried; empty when it is no document.
boost::json::object parse_status(const std::string& json);

boost::json::object document(const char* verb);
boost::json::object node_report(const Scene&);
boost::json::object pool_report(const Scene&);
boost::json::array nodes_report(const Scene&, const Heard&);
boost::json::array segments_report(const Scene&, const Heard&, const std::string& prefix, const Who&);
boost::json::object segment_report(const Scene&, const Heard&, const wire::RecordT&);
boost::json::array health_report(const Scene&, const Heard&);
boost::json::array jobs_report(const Scene&);
boost::json::object job_report(const JobView&);
std::string board_report(const Scene&);
std::string text_of(const boost::json::object&);

}  // namespace vrampool::service
