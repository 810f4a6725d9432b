# rf_module(NAME)   every .c file of the folder NAME, compiled once for both libraries and the tests
# rf_library()      libringfence.so, libringfence.a, and ringfence_internal for the tests
# rf_command()      the command `ringfence`, on the public header and base

add_library(ringfence_options INTERFACE)
target_compile_options(ringfence_options INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
    -Wvla -Wundef -Wwrite-strings -Wcast-qual -Wno-missing-field-initializers
    -fno-strict-aliasing -fno-common
    $<$<BOOL:${RF_WERROR}>:-Werror>)
target_compile_definitions(ringfence_options INTERFACE _GNU_SOURCE)

# The modules see the whole tree; programs on the public face see include/ only.
add_library(ringfence_inside INTERFACE)
target_link_libraries(ringfence_inside INTERFACE ringfence_options)
target_include_directories(ringfence_inside INTERFACE
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)

function(rf_module name)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.c)
    if(NOT sources)
        return()
    endif()
    add_library(rf_${name} OBJECT ${sources})
    target_link_libraries(rf_${name} PRIVATE ringfence_inside ${RF_LINKED})
    if(name STREQUAL base)
        target_include_directories(rf_base PRIVATE ${RINGFENCE_XXHASH_INCLUDE_DIRS})
        rf_hash_flags()
    endif()
    set_property(GLOBAL APPEND PROPERTY RF_MODULE_OBJECTS $<TARGET_OBJECTS:rf_${name}>)
endfunction()

# The hash is inlined from its header once for each instruction set, and chosen at run time. It is
# optimised in debug builds too: at -O0 it is fifty times slower, and every test waits for it.
function(rf_hash_flags)
    file(GLOB hash_sources ${PROJECT_SOURCE_DIR}/base/hash*.c)
    set_property(SOURCE ${hash_sources} APPEND PROPERTY COMPILE_OPTIONS -O3)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        set_property(SOURCE ${PROJECT_SOURCE_DIR}/base/hash_avx512.c
            APPEND PROPERTY COMPILE_OPTIONS -mavx512f)
        set_property(SOURCE ${PROJECT_SOURCE_DIR}/base/hash_avx2.c
            APPEND PROPERTY COMPILE_OPTIONS -mavx2)
    endif()
endfunction()

function(rf_library)
    get_property(objects GLOBAL PROPERTY RF_MODULE_OBJECTS)
    add_library(ringfence_internal STATIC ${objects})
    target_link_libraries(ringfence_internal PUBLIC ${RF_LINKED})
    if(TARGET rf_api)
        rf_shared_library("${objects}")
        rf_static_library("${objects}")
    endif()
endfunction()

# Exported symbols are those of the version map, and nothing may be left undefined (a sanitizer's
# run-time library is found in the executable only).
function(rf_shared_library objects)
    set(map ${PROJECT_SOURCE_DIR}/cmake/ringfence.map)
    add_library(ringfence SHARED ${objects})
    add_library(ringfence::ringfence ALIAS ringfence)
    set_target_properties(ringfence PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE C LINK_DEPENDS ${map})
    target_link_options(ringfence PRIVATE -Wl,--version-script=${map})
    if(NOT RF_SANITIZE)
        target_link_options(ringfence PRIVATE -Wl,--no-undefined)
    endif()
    target_link_libraries(ringfence PRIVATE ${RF_LINKED})
    rf_public_headers(ringfence)
endfunction()

# One object out of all, in which every hidden symbol becomes local: a host that links the archive
# may have a hash64 or a lock_init of its own.
function(rf_static_library objects)
    set(whole ${PROJECT_BINARY_DIR}/ringfence_whole.o)
    add_custom_command(OUTPUT ${whole}
        COMMAND ${CMAKE_LINKER} -r -o ${whole} ${objects}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole}
        DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
        COMMENT "Joining the objects of libringfence.a")
    add_library(ringfence_static STATIC ${whole})
    add_library(ringfence::ringfence_static ALIAS ringfence_static)
    set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    set_target_properties(ringfence_static PROPERTIES OUTPUT_NAME ringfence LINKER_LANGUAGE C)
    target_link_libraries(ringfence_static PRIVATE ${RF_LINKED})
    rf_public_headers(ringfence_static)
endfunction()

function(rf_public_headers target)
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# Our executables bring jemalloc; under a sanitizer its own allocator has to stay.
add_library(ringfence_allocator INTERFACE)
if(RINGFENCE_JEMALLOC_FOUND AND NOT RF_SANITIZE)
    target_link_libraries(ringfence_allocator INTERFACE PkgConfig::RINGFENCE_JEMALLOC)
endif()

# The command is main.c and a static library of all the rest, which the tests of its parts link too.
# It stands on the shared library's public face; of the modules it has base alone.
function(rf_command)
    file(GLOB parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
    list(REMOVE_ITEM parts ${PROJECT_SOURCE_DIR}/cli/main.c)
    if(NOT parts)
        return()
    endif()
    add_library(ringfence_command_parts STATIC ${parts})
    target_link_libraries(ringfence_command_parts PUBLIC
        ringfence_inside PkgConfig::RINGFENCE_ZLIB m)
    if(NOT TARGET ringfence OR NOT EXISTS ${PROJECT_SOURCE_DIR}/cli/main.c)
        return()
    endif()
    add_executable(ringfence_command cli/main.c $<TARGET_OBJECTS:rf_base>)
    # The allocator comes first, so that its malloc is the one found.
    target_link_libraries(ringfence_command PRIVATE
        ringfence_allocator ringfence_command_parts ringfence Threads::Threads)
    file(RELATIVE_PATH library_from_command
        ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(ringfence_command PROPERTIES
        OUTPUT_NAME ringfence INSTALL_RPATH "$ORIGIN/${library_from_command}")
endfunction()
