# Who may use whom. A room sees the headers of the rooms in its row and no others, because only those
# are put on its include path. Arrows point down only; service is the hub of a star.
set(VP_USES_base        vrampool_api)
set(VP_USES_wire        base)
set(VP_USES_allocator   base wire)
set(VP_USES_membership  base wire)
set(VP_USES_formats     base wire)
set(VP_USES_paging      base wire)
set(VP_USES_coherence   base wire)
set(VP_USES_platform    base)
set(VP_USES_transport   base wire platform)
set(VP_USES_service     base wire allocator membership formats paging coherence platform transport)
set(VP_USES_client      base wire platform transport)
set(VP_USES_cli         base client formats platform)

# Every room's headers appear as <room>/file.h below a directory of its own.
function(vp_room_headers room)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/rooms/${room})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${room} ${CMAKE_BINARY_DIR}/rooms/${room}/${room} SYMBOLIC)
endfunction()

# vp_room(<room> SOURCES ... [LIBRARIES ...] [PUBLIC_LIBRARIES ...]): the static library vp_<room>.
function(vp_room room)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;PUBLIC_LIBRARIES" ${ARGN})
  vp_room_headers(${room})
  add_library(vp_${room} STATIC ${ARG_SOURCES})
  target_include_directories(vp_${room} PUBLIC ${CMAKE_BINARY_DIR}/rooms/${room})
  foreach(used ${VP_USES_${room}})
    if(TARGET vp_${used})
      target_link_libraries(vp_${room} PUBLIC vp_${used})
    endif()
  endforeach()
  target_link_libraries(vp_${room} PUBLIC ${ARG_PUBLIC_LIBRARIES} PRIVATE ${ARG_LIBRARIES})
endfunction()
