/* hdf5_library.h - libhdf5, loaded when a file in its format is written: few machines have it, and
 * every other start of mallow would wait for it.
 *
 * Owns: the declarations. They are the stable ABI of HDF5 1.10 and later (identifiers of 64 bits),
 * written down here so that no header is needed to build. */
#ifndef MALLOW_EXPORT_HDF5_LIBRARY_H
#define MALLOW_EXPORT_HDF5_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef int64_t hdf5_id; /* negative: a failure */

enum {
    HDF5_DEFAULT = 0,        /* H5P_DEFAULT, H5S_ALL, H5E_DEFAULT */
    HDF5_TRUNCATE = 2,       /* H5F_ACC_TRUNC */
    HDF5_SCALAR = 0,         /* H5S_SCALAR */
    HDF5_SET = 0,            /* H5S_SELECT_SET */
    HDF5_UTF8 = 1,           /* H5T_CSET_UTF8 */
    HDF5_DEFLATE = 1,        /* H5Z_FILTER_DEFLATE */
    HDF5_INNERMOST_FIRST = 0 /* H5E_WALK_UPWARD */
};
#define HDF5_UNLIMITED UINT64_MAX /* H5S_UNLIMITED */
#define HDF5_VARIABLE  SIZE_MAX   /* H5T_VARIABLE */

struct hdf5_error { /* H5E_error2_t */
    hdf5_id class, major, minor;
    unsigned line;
    const char *function, *file, *description;
};

/* HDF5_CALLS(X): X(result, name, parameters) for each function that is used. */
#define HDF5_CALLS(X)                                                                              \
    X(int, get_libversion, (unsigned *major, unsigned *minor, unsigned *release))                  \
    X(int, open, (void))                                                                           \
    X(int, dont_atexit, (void))                                                                    \
    X(int, Eset_auto2, (hdf5_id stack, void *function, void *arg))                                 \
    X(int, Ewalk2,                                                                                 \
      (hdf5_id stack, int direction,                                                               \
       int (*walk)(unsigned n, const struct hdf5_error *error, void *arg), void *arg))             \
    X(hdf5_id, Fcreate, (const char *path, unsigned flags, hdf5_id creation, hdf5_id access))      \
    X(int, Fclose, (hdf5_id file))                                                                 \
    X(hdf5_id, Gcreate2,                                                                           \
      (hdf5_id place, const char *name, hdf5_id link, hdf5_id creation, hdf5_id access))           \
    X(int, Gclose, (hdf5_id group))                                                                \
    X(hdf5_id, Screate, (int kind))                                                                \
    X(hdf5_id, Screate_simple, (int rank, const uint64_t *size, const uint64_t *most))             \
    X(int, Sselect_hyperslab,                                                                      \
      (hdf5_id space, int how, const uint64_t *start, const uint64_t *stride,                      \
       const uint64_t *count, const uint64_t *block))                                              \
    X(int, Sclose, (hdf5_id space))                                                                \
    X(hdf5_id, Dcreate2,                                                                           \
      (hdf5_id place, const char *name, hdf5_id type, hdf5_id space, hdf5_id link,                 \
       hdf5_id creation, hdf5_id access))                                                          \
    X(int, Dset_extent, (hdf5_id set, const uint64_t *size))                                       \
    X(hdf5_id, Dget_space, (hdf5_id set))                                                          \
    X(int, Dwrite,                                                                                 \
      (hdf5_id set, hdf5_id type, hdf5_id memory, hdf5_id file, hdf5_id transfer,                  \
       const void *data))                                                                          \
    X(int, Dclose, (hdf5_id set))                                                                  \
    X(hdf5_id, Pcreate, (hdf5_id class))                                                           \
    X(int, Pset_chunk, (hdf5_id list, int rank, const uint64_t *size))                             \
    X(int, Pset_shuffle, (hdf5_id list))                                                           \
    X(int, Pset_deflate, (hdf5_id list, unsigned level))                                           \
    X(int, Pset_fapl_stdio, (hdf5_id list))                                                        \
    X(int, Pclose, (hdf5_id list))                                                                 \
    X(hdf5_id, Tcopy, (hdf5_id type))                                                              \
    X(int, Tset_size, (hdf5_id type, size_t bytes))                                                \
    X(int, Tset_cset, (hdf5_id type, int set))                                                     \
    X(hdf5_id, Tenum_create, (hdf5_id base))                                                       \
    X(int, Tenum_insert, (hdf5_id type, const char *name, const void *value))                      \
    X(int, Tclose, (hdf5_id type))                                                                 \
    X(hdf5_id, Acreate2,                                                                           \
      (hdf5_id place, const char *name, hdf5_id type, hdf5_id space, hdf5_id creation,             \
       hdf5_id access))                                                                            \
    X(int, Awrite, (hdf5_id attribute, hdf5_id type, const void *value))                           \
    X(int, Aclose, (hdf5_id attribute))                                                            \
    X(int, Zfilter_avail, (int filter))

struct hdf5_library {
#define HDF5_MEMBER(result, name, parameters) result(*name) parameters;
    HDF5_CALLS(HDF5_MEMBER)
#undef HDF5_MEMBER
    /* Types and a class of property lists, the library's own. */
    hdf5_id u8, u32, u64, text, dataset_creation, file_access;
};
extern struct hdf5_library hdf5;

/* NULL when it is loaded and initialized, else why it cannot be; may be asked again. The library
 * prints nothing by itself from then on. One thread. */
const char *hdf5_load(void);

#endif
