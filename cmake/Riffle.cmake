# riffle_library(NAME DEPENDS target… [LLVM component…]): a folder is a static library. Sources are
# globbed; LLVM's headers are visible only to folders that name LLVM components.
function(riffle_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LLVM" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/driver/main\\.cpp$|/emulator/nccl/")
  add_library(riffle_${name} STATIC ${sources})
  target_include_directories(riffle_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(riffle_${name} PUBLIC ${ARG_DEPENDS})
  if(ARG_LLVM)
    separate_arguments(definitions NATIVE_COMMAND ${LLVM_DEFINITIONS})
    target_compile_definitions(riffle_${name} PRIVATE ${definitions})
    target_include_directories(riffle_${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
    # Debian's LLVM is built without RTTI; only files that derive from its classes care.
    llvm_map_components_to_libnames(libraries ${ARG_LLVM})
    target_link_libraries(riffle_${name} PUBLIC ${libraries})
  endif()
endfunction()

# riffle_embed(LIBRARY HEADER NAMESPACE FILE…): files as string_views, declared in HEADER.
function(riffle_embed library header namespace)
  set(files)
  foreach(file ${ARGN})
    list(APPEND files ${PROJECT_SOURCE_DIR}/${file})
  endforeach()
  get_filename_component(stem ${header} NAME_WE)
  set(output ${PROJECT_BINARY_DIR}/generated/${library}_${stem}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DNAMESPACE=${namespace}
            "-DFILES=${files}" -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake VERBATIM)
  target_sources(riffle_${library} PRIVATE ${output})
endfunction()

function(riffle_program)
  add_executable(riffle driver/main.cpp)
  target_link_libraries(riffle PRIVATE riffle_driver)
  set_target_properties(riffle PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

# libriffle.so: the public API, everything else hidden, LLVM inside.
function(riffle_shared_library)
  add_library(riffle_shared SHARED ${PROJECT_SOURCE_DIR}/cmake/empty.cpp)
  add_library(riffle::riffle ALIAS riffle_shared)
  set(version_script ${PROJECT_SOURCE_DIR}/cmake/riffle.map)
  set_target_properties(riffle_shared PROPERTIES OUTPUT_NAME riffle EXPORT_NAME riffle
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LINK_DEPENDS ${version_script})
  target_include_directories(riffle_shared INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(riffle_shared INTERFACE cxx_std_20)
  target_link_libraries(riffle_shared PRIVATE
    -Wl,--whole-archive riffle_jit riffle_support riffle_ir -Wl,--no-whole-archive
    -Wl,--version-script=${version_script} -Wl,--gc-sections)
endfunction()

# emulator/libcuda.so.1: the emulated CUDA driver, under the name by which programs load the real one.
function(riffle_emulated_driver)
  add_library(riffle_cuda SHARED ${PROJECT_SOURCE_DIR}/cmake/empty.cpp)
  set(version_script ${PROJECT_SOURCE_DIR}/cmake/libcuda.map)
  # Without a soname: once loaded by its path it must not answer for the system's libcuda.so.1.
  set_target_properties(riffle_cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/emulator LINK_DEPENDS ${version_script})
  # Its workers may still run when a program closes it: it stays.
  target_link_libraries(riffle_cuda PRIVATE
    -Wl,--whole-archive riffle_emulator -Wl,--no-whole-archive
    -Wl,--version-script=${version_script} -Wl,--gc-sections -Wl,-z,nodelete)
endfunction()

# emulator/libnccl.so.2: the emulated NCCL, beside the emulated libcuda.so.1, which it finds there.
function(riffle_emulated_nccl)
  set(entry_points ${PROJECT_SOURCE_DIR}/emulator/nccl/entry_points.cpp)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/emulator/nccl/*.cpp)
  list(REMOVE_ITEM sources ${entry_points})
  add_library(riffle_emulator_nccl STATIC ${sources})
  target_include_directories(riffle_emulator_nccl PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(riffle_emulator_nccl PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
  add_library(riffle_nccl SHARED ${entry_points})
  set(version_script ${PROJECT_SOURCE_DIR}/cmake/libnccl.map)
  set_target_properties(riffle_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/emulator LINK_DEPENDS ${version_script})
  # Its host functions may still run when a program closes it: it stays.
  target_link_libraries(riffle_nccl PRIVATE riffle_emulator_nccl
    -Wl,--version-script=${version_script} -Wl,--gc-sections -Wl,-z,nodelete)
endfunction()

# What tests of several folders share: tests/support/*.cpp, except support's own tests.
function(riffle_test_support)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  add_library(riffle_test_support STATIC ${sources})
  target_link_libraries(riffle_test_support PUBLIC riffle_ir)
endfunction()

# riffle_test(FOLDER [LIBRARY…]): every tests/FOLDER/*.cpp in one program (of support the *_test.cpp
# alone: the rest is riffle_test_support).
function(riffle_test folder)
  set(pattern "*.cpp")
  if(folder STREQUAL "support")
    set(pattern "*_test.cpp")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/${pattern})
  add_executable(riffle_${folder}_test ${sources})
  target_link_libraries(riffle_${folder}_test PRIVATE riffle_${folder} ${ARGN} GTest::gtest_main)
  target_compile_definitions(riffle_${folder}_test PRIVATE
    RIFFLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" RIFFLE_PROGRAM="$<TARGET_FILE:riffle>")
  add_test(NAME ${folder} COMMAND riffle_${folder}_test --gtest_brief=1)
endfunction()
