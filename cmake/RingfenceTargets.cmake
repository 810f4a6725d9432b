# rf_module(NAME): every .c file of the folder NAME, compiled once, for both libraries and the tests.
# rf_library(): the shared and the static library out of all modules.

add_library(ringfence_options INTERFACE)
target_compile_options(ringfence_options INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
    -Wvla -Wundef -Wwrite-strings -Wcast-qual -Wno-missing-field-initializers
    -fno-strict-aliasing -fno-common)
target_compile_definitions(ringfence_options INTERFACE _GNU_SOURCE)
target_include_directories(ringfence_options INTERFACE
    ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
option(RF_WERROR "Treat warnings as errors" OFF)
if(RF_WERROR)
    target_compile_options(ringfence_options INTERFACE -Werror)
endif()

set(RF_MODULE_OBJECTS "" CACHE INTERNAL "")
function(rf_module name)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.c)
    if(NOT sources)
        return()
    endif()
    add_library(rf_${name} OBJECT ${sources})
    target_link_libraries(rf_${name} PRIVATE ringfence_options
        PkgConfig::URING PkgConfig::XXHASH PkgConfig::SQLITE3 Threads::Threads)
    if(name STREQUAL base)
        rf_hash_flags()
    endif()
    set(RF_MODULE_OBJECTS ${RF_MODULE_OBJECTS} $<TARGET_OBJECTS:rf_${name}> CACHE INTERNAL "")
endfunction()

# The hash is inlined from its header once for each instruction set, and chosen at run time. It is
# optimised in debug builds too: at -O0 it is fifty times slower, and every test waits for it.
function(rf_hash_flags)
    file(GLOB hash_sources ${CMAKE_SOURCE_DIR}/base/hash*.c)
    set_property(SOURCE ${hash_sources} APPEND PROPERTY COMPILE_OPTIONS -O3)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        set_property(SOURCE ${CMAKE_SOURCE_DIR}/base/hash_avx512.c
            APPEND PROPERTY COMPILE_OPTIONS -mavx512f)
        set_property(SOURCE ${CMAKE_SOURCE_DIR}/base/hash_avx2.c
            APPEND PROPERTY COMPILE_OPTIONS -mavx2)
    endif()
endfunction()

function(rf_library)
    add_library(ringfence_internal STATIC ${RF_MODULE_OBJECTS})
    target_link_libraries(ringfence_internal PUBLIC
        PkgConfig::URING PkgConfig::XXHASH PkgConfig::SQLITE3 Threads::Threads)
endfunction()
