# Boost: headers only.
include(VpHeaderOnly)
vp_header_only(Boost::headers)
vp_header_only(Boost::boost)
set(Boost_INCLUDE_DIRS ${VP_MACOS_SYSROOT}/include)
set(Boost_FOUND TRUE)
