# libscion: every source is compiled once, for the shared and for the static library.

# base/ and product/ are inside both the library and the program; their symbols are hidden from the library's users.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/base/*.c" "${PROJECT_SOURCE_DIR}/product/*.c"
    "${PROJECT_SOURCE_DIR}/lib/*/*.c")
set(product "${PROJECT_SOURCE_DIR}/product")

list(REMOVE_ITEM sources "${product}/kernel_isa.c" "${product}/few_isa.c")

include(CheckCSourceCompiles)
check_c_source_compiles("
#ifndef __x86_64__
#error other machine
#endif
int main(void) { return 0; }" SCION_X86_64)
check_c_source_compiles("
#ifndef __aarch64__
#error other machine
#endif
int main(void) { return 0; }" SCION_AARCH64)

# Loops are vectorised, a*b + c is contracted to one FMA where the machine has it, and neither errno nor the
# floating-point exception flags are kept. NaN, Inf and the order of sums keep their meaning.
set(scion_math $<$<NOT:$<CONFIG:Debug>>:-O3> -ffp-contract=fast -fno-math-errno -fno-trapping-math)

# The kernels: one source, compiled for each instruction set; the library chooses among them at run time.
set(isa_flags_portable "")
set(isa_flags_neon "") # which every CPU of the kind has
set(isa_flags_avx2 -mavx2 -mfma)
set(isa_flags_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512)
# The same source for pairs of bfloat16: by an instruction of the CPU, or emulated.
set(isa_flags_portable_pairs -DSCN_PAIRS)
set(isa_flags_neon_pairs -DSCN_PAIRS)
set(isa_flags_avx2_pairs -DSCN_PAIRS ${isa_flags_avx2})
set(isa_flags_avx512bf16 -DSCN_PAIRS ${isa_flags_avx512} -mavx512bf16)
set(isas portable portable_pairs)
if(SCION_X86_64)
    list(APPEND isas avx2 avx2_pairs avx512 avx512bf16)
elseif(SCION_AARCH64)
    set(isas neon neon_pairs)
endif()
set(kernels "")
foreach(isa IN LISTS isas)
    add_library(scion_kernel_${isa} OBJECT "${product}/kernel_isa.c")
    if(NOT isa_flags_${isa} MATCHES SCN_PAIRS) # matrices times few vectors: float32 and bfloat16 in one
        target_sources(scion_kernel_${isa} PRIVATE "${product}/few_isa.c")
    endif()
    set_target_properties(scion_kernel_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(scion_kernel_${isa} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
    target_compile_definitions(scion_kernel_${isa} PRIVATE SCN_ISA=${isa})
    target_compile_options(scion_kernel_${isa} PRIVATE ${scion_math} ${isa_flags_${isa}})
    if(SCION_FUZZ) # no file reaches them, and clang takes minutes to sanitize them
        target_compile_options(scion_kernel_${isa} PRIVATE -fno-sanitize=all)
    endif()
    target_link_libraries(scion_kernel_${isa} PRIVATE scion_warnings)
    list(APPEND kernels $<TARGET_OBJECTS:scion_kernel_${isa}>)
endforeach()

add_library(scion_objects OBJECT ${sources})
set_target_properties(scion_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_options(scion_objects PRIVATE ${scion_math})
target_include_directories(scion_objects PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}"
    "${PROJECT_SOURCE_DIR}/lib")
target_link_libraries(scion_objects PRIVATE scion_warnings)

# Libraries by name, so that the installed files hold no path of this machine.
set(scion_private "")
if(scion_openmp)
    separate_arguments(openmp_flags UNIX_COMMAND "${OpenMP_C_FLAGS}")
    target_compile_options(scion_objects PRIVATE ${openmp_flags})
    foreach(name IN LISTS OpenMP_C_LIB_NAMES)
        list(APPEND scion_private "-l${name}")
    endforeach()
endif()
list(APPEND scion_private -lm)

add_library(scion_shared SHARED $<TARGET_OBJECTS:scion_objects> ${kernels})
add_library(scion_static STATIC $<TARGET_OBJECTS:scion_objects> ${kernels})
add_library(scion::scion ALIAS scion_shared)
add_library(scion::scion_static ALIAS scion_static)
foreach(library scion_shared scion_static)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME scion
        ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    target_include_directories(${library} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
        "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endforeach()
set_target_properties(scion_shared PROPERTIES EXPORT_NAME scion VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/lib/scion.map")
target_link_options(scion_shared PRIVATE "-Wl,--version-script=${PROJECT_SOURCE_DIR}/lib/scion.map"
    -Wl,--as-needed)
if(NOT sanitize)
    target_link_options(scion_shared PRIVATE -Wl,-z,defs)
endif()
target_link_libraries(scion_shared PRIVATE ${scion_private})
target_link_libraries(scion_static INTERFACE ${scion_private})
