// One node's books: nothing is promised twice, and a shrinking donation is never a panic.
#include "allocator/piece_accounts.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "base/text.h"

using namespace vrampool;
using namespace vrampool::allocator;

namespace {
PieceId piece(std::uint32_t n) { return {{MemberNo{1}, Life{1}, 1}, n}; }
}  // namespace

TEST_CASE("reserved becomes used and comes back") {
  PieceAccounts books(100);
  CHECK(books.reserve(piece(1), 60).ok());
  CHECK(books.reserved_bytes() == 60);
  CHECK(books.free_bytes() == 40);
  CHECK(books.use(piece(1)).ok());
  CHECK(books.use(piece(1)).ok());
  CHECK(books.reserved_bytes() == 0);
  CHECK(books.used_bytes() == 60);
  CHECK(books.largest_piece_bytes() == 60);
  CHECK(books.release(piece(1)) == 60);
  CHECK(books.release(piece(1)) == 0);
  CHECK(books.free_bytes() == 100);
}

TEST_CASE("more than is free is refused with figures and changes nothing") {
  PieceAccounts books(100 << 20);
  CHECK(books.reserve(piece(1), 70 << 20).ok());
  const auto refused = books.reserve(piece(2), 31 << 20);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == VP_NO_SPACE);
  CHECK(refused.error().message.find("30 MiB are free") != std::string::npos);
  CHECK(books.pieces() == 1);
  CHECK(books.reserve(piece(2), 30 << 20).ok());
}

TEST_CASE("a repeated reserve finds its own; another size is refused") {
  PieceAccounts books(100);
  CHECK(books.reserve(piece(1), 60).ok());
  CHECK(books.reserve(piece(1), 60).ok());
  CHECK(books.reserved_bytes() == 60);
  CHECK(books.reserve(piece(1), 61).error().code == VP_EXISTS);
  CHECK(books.use(piece(9)).error().code == VP_NOT_FOUND);
}

TEST_CASE("a smaller donation takes nothing new until enough came back") {
  PieceAccounts books(100);
  CHECK(books.reserve(piece(1), 50).ok());
  CHECK(books.reserve(piece(2), 40).ok());
  books.set_capacity(60);
  CHECK(books.free_bytes() == 0);
  CHECK(books.excess_bytes() == 30);
  CHECK_FALSE(books.reserve(piece(3), 1).ok());
  books.release(piece(2));
  CHECK(books.excess_bytes() == 0);
  CHECK(books.free_bytes() == 10);
  books.set_capacity(200);
  CHECK(books.free_bytes() == 150);
}

TEST_CASE("a piece found at start-up is booked even past the capacity") {
  PieceAccounts books(10);
  CHECK(books.adopt(piece(1), 50).ok());
  CHECK(books.adopt(piece(1), 50).ok());
  CHECK(books.used_bytes() == 50);
  CHECK(books.excess_bytes() == 40);
  CHECK(books.adopt(piece(1), 51).error().code == VP_EXISTS);
}

TEST_CASE("the books always add up") {
  CHECK(rc::check([] {
    PieceAccounts books(1000);
    std::map<std::uint32_t, std::pair<std::uint64_t, bool>> model;
    const int steps = *rc::gen::inRange(0, 100);
    for (int i = 0; i < steps; ++i) {
      const auto n = *rc::gen::inRange<std::uint32_t>(0, 8);
      const auto bytes = *rc::gen::inRange<std::uint64_t>(1, 500);
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          if (books.reserve(piece(n), bytes)) model.try_emplace(n, bytes, false);
          break;
        case 1:
          RC_ASSERT(books.use(piece(n)).ok() == model.contains(n));
          if (model.contains(n)) model[n].second = true;
          break;
        case 2:
          RC_ASSERT(books.release(piece(n)) == (model.contains(n) ? model[n].first : 0u));
          model.erase(n);
          break;
        case 3:
          books.set_capacity(*rc::gen::inRange<std::uint64_t>(0, 2000));
          break;
      }
      std::uint64_t used = 0;
      std::uint64_t reserved = 0;
      for (const auto& [id, entry] : model) (entry.second ? used : reserved) += entry.first;
      RC_ASSERT(books.used_bytes() == used);
      RC_ASSERT(books.reserved_bytes() == reserved);
      RC_ASSERT(books.capacity_bytes() + books.excess_bytes() == books.free_bytes() + used + reserved);
    }
  }));
}
