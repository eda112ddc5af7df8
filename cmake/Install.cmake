# cmake --install: the library with its headers and CMake package, the program, the examples.
# Nothing in it names the prefix: an installed tree may be moved.
include(CMakePackageConfigHelpers)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/riffle)

install(TARGETS riffle_shared EXPORT riffleTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS riffle_cuda riffle_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/riffle NAMELINK_SKIP)
install(TARGETS riffle RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/riffle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/riffle/examples
  PATTERN CMakeLists.txt EXCLUDE PATTERN data EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/data DESTINATION ${CMAKE_INSTALL_DATADIR}/riffle)

install(EXPORT riffleTargets NAMESPACE riffle:: FILE riffleConfig.cmake DESTINATION ${package_directory})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/riffleConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/riffleConfigVersion.cmake DESTINATION ${package_directory})
