/* Maps one F32 tensor, resident, and adds up its values: sum_tensor_c SEGMENT TENSOR */
#include <stdio.h>

#include "vrampool/vrampool.h"

static int fail(const char* doing) {
  fprintf(stderr, "%s: %s\n", doing, vp_last_error());
  return 1;
}

static int sum(vp_session session, const char* segment_name, const char* tensor_name) {
  vp_segment segment;
  vp_tensor tensor = VP_INIT(vp_tensor);
  vp_view view;
  vp_range range;
  vp_map_options options = VP_INIT(vp_map_options);
  options.tensors = &tensor_name;
  options.tensor_count = 1;
  if (vp_open(session, segment_name, &segment) != VP_OK) return fail("opening");
  if (vp_tensor_find(segment, tensor_name, &tensor) != VP_OK) return fail("looking for the tensor");
  if (tensor.dtype != VP_F32) {
    fprintf(stderr, "this example adds up F32 only\n");
    return 1;
  }
  if (vp_map(segment, &options, &view, &range) != VP_OK) return fail("mapping");
  const float* values = range.data;
  double total = 0;
  for (uint64_t i = 0; i < range.bytes / sizeof(float); ++i) total += values[i];
  printf("%s: %llu values, sum %.6g\n", tensor_name, (unsigned long long)(range.bytes / sizeof(float)), total);
  return vp_unmap(view) == VP_OK && vp_close(segment) == VP_OK ? 0 : fail("closing");
}

int main(int argc, char** argv) {
  vp_session session;
  if (argc != 3) {
    fprintf(stderr, "usage: %s SEGMENT TENSOR\n", argv[0]);
    return 2;
  }
  if (vp_connect(NULL, &session) != VP_OK) return fail("connecting");
  const int result = sum(session, argv[1], argv[2]);
  vp_disconnect(session);
  return result;
}
