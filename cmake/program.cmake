# The program `scion`: train/ as a library of its own, so that tests and benchmarks can use its parts, and cli/ on top.

pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)

# MPI, for several ranks. MPI_HOME or MPI_C_COMPILER (mpicc.mpich) choose one of several.
set(scion_mpi OFF)
if(NOT SCION_MPI STREQUAL OFF)
    set(MPI_CXX_SKIP_MPICXX ON)
    if(SCION_MPI STREQUAL AUTO)
        find_package(MPI QUIET COMPONENTS C)
    else()
        find_package(MPI REQUIRED COMPONENTS C)
    endif()
    set(scion_mpi ${MPI_C_FOUND})
endif()

file(GLOB train_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/train/*/*.c")
if(scion_mpi)
    list(FILTER train_sources EXCLUDE REGEX "/comm_no_mpi\\.c$")
else()
    list(FILTER train_sources EXCLUDE REGEX "/comm_mpi\\.c$")
endif()

# Style sheets and the script of pages are files of their own, which the program has as strings: draw_page_css, ...
file(GLOB page_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/train/draw/*.css" "${PROJECT_SOURCE_DIR}/train/draw/*.js")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_files})
foreach(file IN LISTS page_files)
    get_filename_component(name "${file}" NAME)
    string(MAKE_C_IDENTIFIER "draw_${name}" name)
    file(READ "${file}" text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    string(APPEND page_texts "const char ${name}[] =\n    \"${text}\";\n")
endforeach()
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/page_texts.c" CONTENT "${page_texts}")

add_library(scion_train STATIC ${train_sources} "${PROJECT_BINARY_DIR}/page_texts.c")
target_include_directories(scion_train PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/train")
target_compile_options(scion_train PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3> -ffp-contract=fast -fno-math-errno
    -fno-trapping-math)
target_compile_definitions(scion_train PRIVATE
    SCION_PRESET_DIR="${CMAKE_INSTALL_FULL_DATADIR}/scion/presets")
target_link_libraries(scion_train PUBLIC scion::scion_static PkgConfig::JANSSON
    PkgConfig::XXHASH PkgConfig::ZSTD PkgConfig::PNG PkgConfig::JPEG ZLIB::ZLIB SQLite::SQLite3 m PRIVATE scion_warnings)
if(scion_openmp)
    target_link_libraries(scion_train PUBLIC OpenMP::OpenMP_C)
endif()
if(scion_mpi)
    # Its headers are for one file; what it wants the compiler to be called with (MPICH: how Debian hardens) is not for us.
    set_source_files_properties("${PROJECT_SOURCE_DIR}/train/comm/comm_mpi.c" PROPERTIES INCLUDE_DIRECTORIES
        "${MPI_C_INCLUDE_DIRS}")
    target_link_libraries(scion_train PUBLIC ${MPI_C_LIBRARIES})
endif()

file(GLOB cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.c")
add_executable(scion_program ${cli_sources})
set_target_properties(scion_program PROPERTIES OUTPUT_NAME scion RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(scion_program PRIVATE "${PROJECT_SOURCE_DIR}/cli")
# libgomp inside the program, where the compiler has it as an archive: train/util/threads.c says why.
if(scion_openmp AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE libgomp
        OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(IS_ABSOLUTE "${libgomp}")
        target_link_options(scion_program PRIVATE -Wl,--as-needed)
        target_link_libraries(scion_program PRIVATE scion_train "${libgomp}" dl)
    endif()
endif()
target_link_libraries(scion_program PRIVATE scion_train scion_warnings)
install(TARGETS scion_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/presets/" DESTINATION "${CMAKE_INSTALL_DATADIR}/scion/presets")
install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/get-data" DESTINATION "${CMAKE_INSTALL_DATADIR}/scion")

# Scripts for shells: installed, and as arrays in the program, which prints them (scion completion).
set(completion "${PROJECT_SOURCE_DIR}/cli/completion")
set(scripts "")
foreach(shell bash zsh fish)
    file(READ "${completion}/${shell}" script HEX)
    string(REGEX REPLACE "(..)" "0x\\1, " script "${script}")
    string(APPEND scripts "static const char ${shell}[] = {${script}0};\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${completion}/${shell}")
endforeach()
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/completion_scripts.h" CONTENT "${scripts}")
target_include_directories(scion_program PRIVATE "${PROJECT_BINARY_DIR}/generated")
install(FILES "${completion}/bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME scion)
install(FILES "${completion}/zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _scion)
install(FILES "${completion}/fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" RENAME scion.fish)
