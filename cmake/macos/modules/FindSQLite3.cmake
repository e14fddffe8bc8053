# SQLite: headers only; its symbols are looked up at load.
include(VpHeaderOnly)
vp_header_only(SQLite::SQLite3)
set(SQLite3_FOUND TRUE)
