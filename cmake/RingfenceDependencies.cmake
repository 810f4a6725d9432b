# Debian's packages, found by pkg-config, each behind one imported target. The names are ours, so
# that a project that finds the installed library, and looks for the same packages, keeps its own.
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Linked by the library.
pkg_check_modules(RINGFENCE_URING REQUIRED IMPORTED_TARGET liburing>=2.3)
pkg_check_modules(RINGFENCE_SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
set(RF_LINKED PkgConfig::RINGFENCE_URING PkgConfig::RINGFENCE_SQLITE3 Threads::Threads)

# Inlined from its header by base/hash*.c; nothing of it is linked.
pkg_check_modules(RINGFENCE_XXHASH REQUIRED libxxhash)

# Linked by our executables alone: a library must not replace its host's malloc.
pkg_check_modules(RINGFENCE_JEMALLOC IMPORTED_TARGET jemalloc)

# For the command: compressed input.
pkg_check_modules(RINGFENCE_ZLIB REQUIRED IMPORTED_TARGET zlib)
