# cmake --install: three components (library, development, command), a CMake package and a
# pkg-config file. Both find their prefix from where they lie, so an installed tree may be moved.
include(CMakePackageConfigHelpers)

if(NOT TARGET ringfence)
    return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ringfence)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS ringfence EXPORT ringfence-targets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS ringfence_static EXPORT ringfence-targets
    ARCHIVE COMPONENT development)
install(DIRECTORY include/ringfence DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT development)

install(EXPORT ringfence-targets NAMESPACE ringfence:: DESTINATION ${package_dir}
    COMPONENT development)
configure_package_config_file(cmake/ringfence-config.cmake.in
    ${PROJECT_BINARY_DIR}/ringfence-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ringfence-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ringfence-config.cmake
    ${PROJECT_BINARY_DIR}/ringfence-config-version.cmake
    DESTINATION ${package_dir} COMPONENT development)

# From the file to the prefix: the file moves with the installed tree.
file(RELATIVE_PATH RF_PREFIX_FROM_PC
    ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" RF_PREFIX_FROM_PC ${RF_PREFIX_FROM_PC})
configure_file(cmake/ringfence.pc.in ${PROJECT_BINARY_DIR}/ringfence.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ringfence.pc DESTINATION ${pkgconfig_dir}
    COMPONENT development)

if(TARGET ringfence_command)
    install(TARGETS ringfence_command RUNTIME COMPONENT command)
endif()
