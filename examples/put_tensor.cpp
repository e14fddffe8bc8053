// Creates a segment with one F32 tensor "numbers" (1, 2, 3, ...) and seals it: put_tensor SEGMENT COUNT
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "vrampool/vrampool.hpp"

int main(int argc, char** argv) try {
  const std::size_t count = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (count == 0) {
    std::fprintf(stderr, "usage: %s SEGMENT COUNT\n", argv[0]);
    return 2;
  }
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1.0f);

  auto tensor = VP_INIT(vp_tensor);
  std::strcpy(tensor.name, "numbers");
  std::strcpy(tensor.type_name, "F32");
  tensor.dtype = VP_F32;
  tensor.rank = 1;
  tensor.shape[0] = count;
  tensor.bytes = count * sizeof(float);
  auto options = VP_INIT(vp_create_options);
  options.bytes = tensor.bytes;
  options.tensors = &tensor;
  options.tensor_count = 1;

  const auto session = vp::Session::connect();
  vp::Segment segment = session.create(argv[1], options);
  segment.write(0, std::as_bytes(std::span(numbers)));
  segment.seal();  // nobody saw it before; nobody can change it from here on
  std::printf("%s: %zu values\n", argv[1], count);
  return 0;
} catch (const vp::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
