# OpenSSL: headers only; its symbols are looked up at load.
include(VpHeaderOnly)
vp_header_only(OpenSSL::SSL)
vp_header_only(OpenSSL::Crypto)
set(OPENSSL_INCLUDE_DIR ${VP_MACOS_SYSROOT}/include)
set(OpenSSL_FOUND TRUE)
set(OPENSSL_FOUND TRUE)
