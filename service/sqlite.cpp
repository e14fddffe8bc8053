// The SQLite wrapper.
#include "service/sqlite.h"

#include <sqlite3.h>

namespace vrampool::service {
namespace {

Error failure(sqlite3* db, const char* what) {
  const int code = sqlite3_errcode(db) & 0xff;
  const vp_status status = code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? VP_CORRUPT
                           : code == SQLITE_FULL                           ? VP_NO_SPACE
                                                                           : VP_FAILED;
  return error(status, "{}: {}", what, sqlite3_errmsg(db));
}

}  // namespace

void Statement::Free::operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
void Database::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Statement::Statement(sqlite3* db, const char* sql) : db_(db) {
  sqlite3_stmt* raw = nullptr;
  sqlite3_prepare_v2(db, sql, -1, &raw, nullptr);
  statement_.reset(raw);
}

Statement& Statement::bind(int index, std::int64_t value) {
  if (statement_) sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}
Statement& Statement::bind(int index, std::string_view text) {
  if (statement_)
    sqlite3_bind_text(statement_.get(), index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::bind_blob(int index, std::span<const std::byte> blob) {
  if (statement_) sqlite3_bind_blob64(statement_.get(), index, blob.data(), blob.size(), SQLITE_TRANSIENT);
  return *this;
}

Result<bool> Statement::step() {
  if (!statement_) return failure(db_, "registry");
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return failure(db_, "registry");
}

Status Statement::run() {
  Result<bool> row = true;
  while (row && *row) row = step();
  if (statement_) sqlite3_reset(statement_.get());
  if (!row) return row.take_error();
  return {};
}

std::int64_t Statement::number(int column) const { return sqlite3_column_int64(statement_.get(), column); }
std::string Statement::text(int column) const {
  const auto* p = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return p ? p : "";
}
std::span<const std::byte> Statement::blob(int column) const {
  const auto* p = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  return {p, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Status Database::execute(const char* sql) {
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  Error e = failure(db_.get(), "registry");
  e.message = path_ + ": " + e.message;
  return e;
}

Result<Database> Database::open(const std::string& path) {
  Database d;
  d.path_ = path;
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  d.db_.reset(raw);
  if (code != SQLITE_OK) return error(VP_FAILED, "{}: cannot be opened: {}", path, sqlite3_errmsg(raw));
  sqlite3_busy_timeout(raw, 2000);
  const Status ready = d.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;");
  Statement check = d.prepare("PRAGMA quick_check(1)");
  const Result<bool> row = check.step();
  if (!ready || !row || !*row || check.text(0) != "ok")
    return error(
        VP_CORRUPT,
        "{}: the registry is damaged ({}): move it away and start again, the other members still have the records",
        path,
        !ready        ? ready.error().message
        : row && *row ? check.text(0)
                      : std::string("unreadable"));
  return d;
}

}  // namespace vrampool::service
