# Flags of everything that is compiled here: warnings, sanitizers, OpenMP.

if(SCION_ASAN AND SCION_TSAN)
    message(FATAL_ERROR "SCION_ASAN and SCION_TSAN exclude each other: choose one")
endif()

# Warnings belong to the targets built here, not to a project that includes this one.
add_library(scion_warnings INTERFACE)
target_compile_options(scion_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes $<$<BOOL:${SCION_WERROR}>:-Werror>)
# Of what only clang says we do not want: that {1, 2} for a struct of three is incomplete, that an enum becomes an int
# (GCC watches the other signs), and which `omp simd` it cannot follow (a maximum of floats).
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    target_compile_options(scion_warnings INTERFACE -Wno-missing-field-initializers -Wno-sign-conversion
        -Wno-pass-failed)
endif()

# Resolvers of multiversioned functions run before a sanitizer's runtime is ready, hence SCN_NO_CLONES.
set(sanitize "")
if(SCION_ASAN)
    set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SCION_TSAN)
    set(sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(SCION_FUZZ)
    set(sanitize ${SCION_FUZZ_FLAGS} -fno-omit-frame-pointer)
endif()
if(sanitize)
    add_compile_options(${sanitize})
    add_link_options(${sanitize})
endif()
if(sanitize OR SCION_FUZZ)
    add_compile_definitions(SCN_NO_CLONES)
endif()

# libgomp is not instrumented: ThreadSanitizer would see races in every parallel region.
set(scion_openmp OFF)
if(SCION_OPENMP AND NOT SCION_TSAN)
    find_package(OpenMP REQUIRED COMPONENTS C)
    set(scion_openmp ON)
endif()
# `omp simd` is obeyed without OpenMP too: loops vectorise in the same way, with or without threads.
add_compile_options(-fopenmp-simd)
