/* hdf5_library.c - Loads libhdf5 when the first HDF5 file is written, and looks up its functions
 * and predefined types. It accepts version 1.10 or later, the first with identifiers of 64 bits.
 * It disables the library's exit handler, which crashes after a failed close. */
#include "export/hdf5_library.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"

struct hdf5_library hdf5;

static const struct library_symbol functions[] = {
#define FUNCTION(result, name, parameters) {"H5" #name, offsetof(struct hdf5_library, name)},
    HDF5_CALLS(FUNCTION)
#undef FUNCTION
};

static const struct library_symbol values[] = {
    {"H5T_NATIVE_UINT8_g", offsetof(struct hdf5_library, u8)},
    {"H5T_NATIVE_UINT32_g", offsetof(struct hdf5_library, u32)},
    {"H5T_NATIVE_UINT64_g", offsetof(struct hdf5_library, u64)},
    {"H5T_C_S1_g", offsetof(struct hdf5_library, text)},
    {"H5P_CLS_DATASET_CREATE_ID_g", offsetof(struct hdf5_library, dataset_creation)},
    {"H5P_CLS_FILE_ACCESS_ID_g", offsetof(struct hdf5_library, file_access)},
};

/* Debian's builds without MPI, then the name of other distributions; newest first */
static const char *const names[] = {
    "libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5_serial.so.320",
    "libhdf5_serial.so.100", "libhdf5_serial.so.101", "libhdf5.so.320",
    "libhdf5.so.310",        "libhdf5.so.200",        "libhdf5.so.103",
    "libhdf5.so.101",        "libhdf5.so.100",        NULL};

const char *hdf5_load(void)
{
    static struct library library = {.title = "libhdf5",
                                     .hint = "; version 1.10 or later is needed",
                                     .names = names,
                                     .symbols = functions,
                                     .symbol_count = sizeof functions / sizeof *functions,
                                     .table = &hdf5};
    unsigned major, minor, release;
    const char *why = library_load(&library);
    if (why)
        return why;
    /* The first call of all, which would register it: the handler at exit crashes when a file could
     * not be closed, as on a full disk. */
    (void)hdf5.dont_atexit();
    /* The file is this process's own: no other can open it before it is whole. */
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    /* identifiers had 32 bits before */
    if (hdf5.get_libversion(&major, &minor, &release) < 0 || (major == 1 && minor < 10))
        return "libhdf5 is older than version 1.10";
    if (hdf5.open() < 0)
        return "libhdf5 does not start";
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const void *value = library_symbol(&library, values[i].name); /* set by open() */
        if (!value)
            return library.why;
        memcpy((char *)&hdf5 + values[i].at, value, sizeof(hdf5_id));
    }
    hdf5.Eset_auto2(HDF5_DEFAULT, NULL, NULL);
    return NULL;
}
