#!/usr/bin/env python3
"""Checks arm64 Mach-O files without Apple's tools: architecture, dynamic libraries, undefined symbols, code signature."""

import hashlib
import re
import struct
import sys

MH_MAGIC_64, CPU_ARM64, FILE_TYPES = 0xFEEDFACF, 0x0100000C, {2: "program", 6: "library"}
LC_SYMTAB, LC_LOAD_DYLIB, LC_CODE_SIGNATURE, LC_BUILD_VERSION = 0x2, 0xC, 0x1D, 0x32
DYNAMIC_LOOKUP, N_EXT, N_TYPE, N_STAB = 0xFE, 0x01, 0x0E, 0xE0
DYLIBS = re.compile(r"^(/usr/lib/libSystem\.B\.dylib|@rpath/libvrampool[^/]*\.dylib)$")
# Looked up at load: what the cross build has no library for. Anything else undefined is a mistake of ours.
LOOKED_UP = re.compile(r"^_(SSL_|TLS_|EVP_|ERR_|OPENSSL_|CRYPTO_|BIO_|RAND_|X509|ASN1_|PEM_|DH_|RSA_|EC_|HMAC|SHA256|SHA512|MD5|"
                       r"BN_|PKCS12_|DTLS_|OSSL_|NCONF_|d2i_|i2d_|sqlite3_|GENERAL_NAME|OBJ_|UI_|CONF_|ENGINE_|COMP_|sk_)")


def commands(data):
    count = struct.unpack_from("<I", data, 16)[0]
    at = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", data, at)
        yield kind & 0x7FFFFFFF, at
        at += size


def text_at(data, at):
    return data[at:data.index(b"\0", at)].decode()


def check_symbols(data, at):
    offset, count, strings = struct.unpack_from("<III", data, at + 8)
    for n in range(count):
        name_at, kind, _, desc = struct.unpack_from("<IBBH", data, offset + 16 * n)
        undefined = not kind & N_STAB and kind & N_EXT and kind & N_TYPE == 0
        name = text_at(data, strings + name_at) if undefined else ""
        if undefined and (desc >> 8) == DYNAMIC_LOOKUP and not LOOKED_UP.match(name):
            yield f"undefined symbol {name}: neither libSystem nor a library of ours has it"


def check_signature(data, at):
    """arm64 kernels kill a file whose pages do not match its code directory."""
    offset, size = struct.unpack_from("<II", data, at + 8)
    magic, _, blobs = struct.unpack_from(">III", data, offset)
    if magic != 0xFADE0CC0:
        yield "the signature has no SuperBlob"
        return
    for n in range(blobs):
        kind, blob_at = struct.unpack_from(">II", data, offset + 12 + 8 * n)
        if kind != 0:
            continue
        directory = offset + blob_at
        hashes, _, _, slots, limit = struct.unpack_from(">IIIII", data, directory + 16)
        hash_size, hash_type, _, page_log2 = struct.unpack_from(">BBBB", data, directory + 36)
        if (hash_size, hash_type) != (32, 2) or limit != offset:
            yield f"code directory: hash type {hash_type}, limit {limit} of {offset}"
            return
        page = 1 << page_log2
        for slot in range(slots):
            want = data[directory + hashes + 32 * slot:][:32]
            if hashlib.sha256(data[slot * page:min((slot + 1) * page, limit)]).digest() != want:
                yield f"page {slot} does not match its signed hash"
        return
    yield "the signature has no code directory"


def check(path):
    data = open(path, "rb").read()
    if len(data) < 32 or struct.unpack_from("<I", data)[0] != MH_MAGIC_64:
        return ["no 64-bit Mach-O file"]
    cpu, file_type = struct.unpack_from("<I", data, 4)[0], struct.unpack_from("<I", data, 12)[0]
    breaches = [] if cpu == CPU_ARM64 else [f"processor {cpu:#x} is not arm64"]
    if file_type not in FILE_TYPES:
        breaches.append(f"file type {file_type}")
    seen = set()
    for kind, at in commands(data):
        seen.add(kind)
        if kind == LC_LOAD_DYLIB:
            name = text_at(data, at + struct.unpack_from("<I", data, at + 8)[0])
            if not DYLIBS.match(name):
                breaches.append(f"loads {name}")
        elif kind == LC_BUILD_VERSION:
            platform, minimum = struct.unpack_from("<II", data, at + 8)
            if platform != 1 or minimum >> 16 != 15:
                breaches.append(f"built for platform {platform}, version {minimum >> 16}")
        elif kind == LC_SYMTAB:
            breaches += check_symbols(data, at)
        elif kind == LC_CODE_SIGNATURE:
            breaches += check_signature(data, at)
    breaches += [f"has no {name}" for code, name in
                 ((LC_CODE_SIGNATURE, "code signature"), (LC_BUILD_VERSION, "build version")) if code not in seen]
    return breaches


def main(paths):
    failed = 0
    for path in paths:
        breaches = check(path)
        failed += bool(breaches)
        print(f"macho: {path}: " + ("; ".join(breaches[:8]) if breaches else "arm64, libSystem only, signature holds"))
    if not paths:
        print("macho: no file to check", file=sys.stderr)
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
