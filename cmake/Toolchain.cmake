# Compiler launcher, linker, warnings and sanitizers.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# mold or lld link the static LLVM in a fraction of a second; GNU ld takes many.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_program(RIFFLE_LLD ld.lld-19)
  if(RIFFLE_LLD)
    add_link_options(--ld-path=${RIFFLE_LLD})
  endif()
else()
  find_program(RIFFLE_MOLD mold)
  if(RIFFLE_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-restrict)  # g++ 12 warns of its own std::string (GCC bug 105651)
endif()
if(RIFFLE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, of everything that fuzzers reach
endif()
if(RIFFLE_SANITIZE)
  string(REPLACE ";" "," sanitizers "${RIFFLE_SANITIZE}")
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitizers})
  if(RIFFLE_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # It reads the eight bytes before a called function: of JIT-ed code, the page before, which may
    # not be mapped.
    add_compile_options(-fno-sanitize=function)
  endif()
  # JIT-ed kernels are instrumented alike: see HostTarget::sanitizer.
  if(RIFFLE_SANITIZE MATCHES "address")
    add_compile_definitions(RIFFLE_SANITIZE_NAME="address")
  elseif(RIFFLE_SANITIZE MATCHES "thread")
    add_compile_definitions(RIFFLE_SANITIZE_NAME="thread")
  endif()
endif()
