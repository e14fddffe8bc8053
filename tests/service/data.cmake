# The data plane's tests; they need no control plane.
vp_test(test_service_data SOURCES data_pieces_test.cpp data_plane_test.cpp data_edges_test.cpp data_bench_test.cpp LIBRARIES vp_service_data)
