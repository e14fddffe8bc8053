# spdlog, header-only, with the fmt beside it.
include(VpHeaderOnly)
vp_header_only(spdlog::spdlog SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
vp_header_only(spdlog::spdlog_header_only SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
set(spdlog_FOUND TRUE)
