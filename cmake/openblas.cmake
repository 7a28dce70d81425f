# The target scion_openblas: CBLAS and LAPACK for the benchmark and for the oracles of the tests; the library
# itself needs neither. The OpenMP flavour has one pool of threads with us, so it is preferred to other
# flavours that are installed beside it.

# The runtime of clang answers the calls of OpenBLAS' OpenMP flavour too, gives it fewer threads than it counts on, and
# both wait for ever.
if(scion_openmp AND CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "clang's OpenMP does not go with OpenBLAS: add -DSCION_OPENMP=OFF, or "
        "-DSCION_TESTS=OFF -DSCION_BENCH=OFF")
endif()

set(flavour "${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp")
find_library(SCION_OPENBLAS NAMES openblas PATHS "/usr/lib/${flavour}" NO_DEFAULT_PATH)
find_path(SCION_OPENBLAS_INCLUDE NAMES cblas.h PATHS "/usr/include/${flavour}" NO_DEFAULT_PATH)
mark_as_advanced(SCION_OPENBLAS SCION_OPENBLAS_INCLUDE)

add_library(scion_openblas INTERFACE)
if(SCION_OPENBLAS AND SCION_OPENBLAS_INCLUDE)
    target_include_directories(scion_openblas SYSTEM INTERFACE "${SCION_OPENBLAS_INCLUDE}")
    target_link_libraries(scion_openblas INTERFACE "${SCION_OPENBLAS}")
else()
    pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
    target_link_libraries(scion_openblas INTERFACE PkgConfig::OPENBLAS)
endif()
