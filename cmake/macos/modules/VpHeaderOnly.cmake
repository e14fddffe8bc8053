# vp_header_only(<target> [definitions...]): an imported target that is just the cross sysroot's headers.
macro(vp_header_only target)
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} SYSTEM INTERFACE ${VP_MACOS_SYSROOT}/include)
    target_compile_definitions(${target} INTERFACE ${ARGN})
  endif()
endmacro()
