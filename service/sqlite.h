// SQLite as values: a database, a statement, errors as one line. Nothing here knows what is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace vrampool::service {

class Statement {
 public:
  Statement(sqlite3* db, const char* sql);
  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, std::string_view text);
  Statement& bind_blob(int index, std::span<const std::byte> blob);
  // True: a row is there. False: done. Errors: what SQLite says.
  Result<bool> step();
  // Runs to the end and makes the statement ready for the next binding.
  Status run();
  std::int64_t number(int column) const;
  std::string text(int column) const;
  std::span<const std::byte> blob(int column) const;  // until the next step

 private:
  struct Free {
    void operator()(sqlite3_stmt*) const;
  };
  std::unique_ptr<sqlite3_stmt, Free> statement_;
  sqlite3* db_;
};

// Threads: one at a time. Durable: WAL with synchronous=FULL, so a committed transaction survives a power cut.
class Database {
 public:
  // Creates it if missing. Errors: VP_CORRUPT for a damaged file, with what to do.
  static Result<Database> open(const std::string& path);
  Status execute(const char* sql);
  Statement prepare(const char* sql) { return Statement(db_.get(), sql); }
  // Runs `body` in one transaction; an error rolls back.
  template <class F>
  Status transaction(F body) {
    VP_CHECK(execute("BEGIN IMMEDIATE"));
    Status done = body();
    if (!done) {
      static_cast<void>(execute("ROLLBACK"));
      return done;
    }
    return execute("COMMIT");
  }

 private:
  struct Close {
    void operator()(sqlite3*) const;
  };
  std::unique_ptr<sqlite3, Close> db_;
  std::string path_;
};

}  // namespace vrampool::service
