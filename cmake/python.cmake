# The Python package libscion: python/libscion, with the headers for ctypes (tools/mirror) and the shared library. It can be
# imported from BUILD/python. pyproject.toml builds a wheel from the component `python`.

set(python_source "${PROJECT_SOURCE_DIR}/python/libscion")
set(python_package "${PROJECT_BINARY_DIR}/python/libscion")
file(REMOVE_RECURSE "${python_package}")
file(GLOB_RECURSE python_files CONFIGURE_DEPENDS RELATIVE "${python_source}" "${python_source}/*.py")
foreach(file IN LISTS python_files)
    get_filename_component(folder "${python_package}/${file}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    file(CREATE_LINK "${python_source}/${file}" "${python_package}/${file}" SYMBOLIC)
endforeach()
file(CREATE_LINK "../../libscion.so" "${python_package}/libscion.so" SYMBOLIC)

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/mirror")
execute_process(COMMAND sh "${PROJECT_SOURCE_DIR}/tools/mirror" ${headers} OUTPUT_FILE "${python_package}/_abi.py"
    RESULT_VARIABLE failed)
if(failed)
    message(FATAL_ERROR "tools/mirror could not make _abi.py")
endif()

# A wheel has no links: the library has one name, and finds libgomp beside itself unless the process has one already.
if(SKBUILD)
    set_property(TARGET scion_shared PROPERTY VERSION)
    set_property(TARGET scion_shared PROPERTY SOVERSION)
    set_target_properties(scion_shared PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS scion_shared LIBRARY DESTINATION libscion COMPONENT python)
    install(FILES "${python_package}/_abi.py" DESTINATION libscion COMPONENT python)
    if(scion_openmp AND "gomp" IN_LIST OpenMP_C_LIB_NAMES)
        execute_process(COMMAND "${CMAKE_C_COMPILER}" -print-file-name=libgomp.so.1 OUTPUT_VARIABLE gomp
            OUTPUT_STRIP_TRAILING_WHITESPACE)
        get_filename_component(gomp "${gomp}" REALPATH)
        install(FILES "${gomp}" DESTINATION libscion RENAME libgomp.so.1 COMPONENT python)
    endif()
endif()
