// One visitor for std::visit out of several lambdas.
#pragma once

namespace vrampool {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace vrampool
