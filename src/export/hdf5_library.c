/* hdf5_library.c - see hdf5_library.h. */
#include "export/hdf5_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct hdf5_library hdf5;

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define FUNCTION(result, name, parameters) {"H5" #name, offsetof(struct hdf5_library, name)},
    HDF5_CALLS(FUNCTION)
#undef FUNCTION
};

static const struct {
    const char *name;
    size_t at;
} values[] = {
    {"H5T_NATIVE_UINT8_g", offsetof(struct hdf5_library, u8)},
    {"H5T_NATIVE_UINT32_g", offsetof(struct hdf5_library, u32)},
    {"H5T_NATIVE_UINT64_g", offsetof(struct hdf5_library, u64)},
    {"H5T_C_S1_g", offsetof(struct hdf5_library, text)},
    {"H5P_CLS_DATASET_CREATE_ID_g", offsetof(struct hdf5_library, dataset_creation)},
};

static char why[256];

static void *open_any(void)
{
    /* Debian's builds without MPI, then the name of other distributions; newest first */
    static const char *const names[] = {
        "libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5_serial.so.320",
        "libhdf5_serial.so.100", "libhdf5_serial.so.101", "libhdf5.so.320",
        "libhdf5.so.310",        "libhdf5.so.200",        "libhdf5.so.103",
        "libhdf5.so.101",        "libhdf5.so.100"};
    void *loaded = NULL;
    for (size_t i = 0; !loaded && i < sizeof names / sizeof *names; i++) {
        loaded = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!loaded && i == 0)
            snprintf(why, sizeof why, "%s", dlerror());
    }
    return loaded;
}

static const char *lacks(const char *name)
{
    snprintf(why, sizeof why, "libhdf5 has no %s; version 1.10 or later is needed", name);
    return why;
}

const char *hdf5_load(void)
{
    static void *loaded;
    unsigned major, minor, release;
    if (!loaded)
        loaded = open_any();
    if (!loaded)
        return why;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(loaded, functions[i].name);
        if (!function)
            return lacks(functions[i].name);
        memcpy((char *)&hdf5 + functions[i].at, &function, sizeof function);
    }
    /* identifiers had 32 bits before */
    if (hdf5.get_libversion(&major, &minor, &release) < 0 || (major == 1 && minor < 10)) {
        snprintf(why, sizeof why, "libhdf5 is older than version 1.10");
        return why;
    }
    if (hdf5.open() < 0)
        return "libhdf5 does not start";
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const void *value = dlsym(loaded, values[i].name); /* set by open() */
        if (!value)
            return lacks(values[i].name);
        memcpy((char *)&hdf5 + values[i].at, value, sizeof(hdf5_id));
    }
    hdf5.Eset_auto2(HDF5_DEFAULT, NULL, NULL);
    return NULL;
}
