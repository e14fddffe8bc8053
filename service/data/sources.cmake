# The files of the data plane.
set(VP_SERVICE_DATA_SOURCES
  buffers.cpp bulk.cpp cache.cpp cache_object.cpp checks.cpp client_link.cpp client_ops.cpp data_loop.cpp engine.cpp
  engine_views.cpp event_loop.cpp flight.cpp landing.cpp link.cpp map_plan.cpp page_bench.cpp peer_link.cpp piece.cpp
  piece_digest.cpp piece_meta.cpp piece_store.cpp placement.cpp plane.cpp server_link.cpp tickets.cpp view.cpp)
