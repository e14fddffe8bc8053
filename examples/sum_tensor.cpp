// Maps one F32 tensor lazily and adds up its values: sum_tensor SEGMENT TENSOR
#include <cstdio>

#include "vrampool/vrampool.hpp"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SEGMENT TENSOR\n", argv[0]);
    return 2;
  }
  const auto session = vp::Session::connect();
  const vp::Segment segment = session.open(argv[1]);
  if (segment.tensor(argv[2]).dtype != VP_F32) throw vp::Error(VP_UNSUPPORTED, "this example adds up F32 only");
  const vp::View view = segment.map_tensor(argv[2], {.lazy = true});
  double sum = 0;
  for (const float value : view.as<float>()) sum += value;  // a plain loop: pages come as it touches them
  view.check();                                             // were all of them really there?
  std::printf("%s: %zu values, sum %.6g\n", argv[2], view.as<float>().size(), sum);
  return 0;
} catch (const vp::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
