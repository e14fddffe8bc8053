# fmt, header-only.
include(VpHeaderOnly)
vp_header_only(fmt::fmt FMT_HEADER_ONLY)
vp_header_only(fmt::fmt-header-only FMT_HEADER_ONLY)
set(fmt_FOUND TRUE)
