/* role.c - Classifies a frame by a table of function, module, crate and source patterns; the
 * first matching row decides. Rust names need their own parser, because generic code of the
 * library is compiled into the program. */
#include "role.h"

#include <fnmatch.h>
#include <string.h>

#include "base/buffer.h"
#include "symbol/spelling.h"
#include "symbol/symbol.h"

/* The part of a frame that a row of the table looks at. */
enum what {
    FUNCTION, /* its qualified name without template arguments; see spelling_path */
    LIBC,     /* the same, of libc itself: a plain word that programs use, too */
    MODULE,   /* its base name */
    CRATE,    /* for Rust the first part of a path */
    SOURCE,   /* path of a Rust source: generic code is compiled into the program */
    SCRIPT    /* path of a script */
};

/* The first row that fits decides. Names are globs. */
static const struct row {
    enum what what;
    enum role role;
    const char *name;
} table[] = {
    {FUNCTION, ROLE_START, "_start"},
    {FUNCTION, ROLE_START, "__libc_start_*"},
    {FUNCTION, ROLE_START, "start_thread"},
    {FUNCTION, ROLE_START, "_dl_start_user"},
    {LIBC, ROLE_START, "clone"},
    {LIBC, ROLE_START, "clone3"},
    {FUNCTION, ROLE_START, "__clone"},
    {FUNCTION, ROLE_START, "__clone3"},

    {FUNCTION, ROLE_ALLOCATOR, "operator new*"},
    {FUNCTION, ROLE_ALLOCATOR, "[mc]alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "realloc"},
    {FUNCTION, ROLE_ALLOCATOR, "reallocarray"},
    {FUNCTION, ROLE_ALLOCATOR, "posix_memalign"},
    {FUNCTION, ROLE_ALLOCATOR, "aligned_alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "memalign"},
    {FUNCTION, ROLE_ALLOCATOR, "strdup"},
    {FUNCTION, ROLE_ALLOCATOR, "strndup"},
    {FUNCTION, ROLE_ALLOCATOR, "__str*dup"},
    /* wrappers of common programs and libraries */
    {FUNCTION, ROLE_ALLOCATOR, "x[mc]alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "xrealloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "xn[mc]alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "xstr*dup"},
    {FUNCTION, ROLE_ALLOCATOR, "xmem*dup*"},
    {FUNCTION, ROLE_ALLOCATOR, "x2realloc"},
    {FUNCTION, ROLE_ALLOCATOR, "x2nrealloc"},
    {FUNCTION, ROLE_ALLOCATOR, "do_xmalloc"},
    {FUNCTION, ROLE_ALLOCATOR, "g_malloc*"}, /* GLib */
    {FUNCTION, ROLE_ALLOCATOR, "g_try_malloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "g_realloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "g_slice_alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "g_str*dup*"},
    {FUNCTION, ROLE_ALLOCATOR, "g_memdup*"},
    {FUNCTION, ROLE_ALLOCATOR, "jv_mem_*"},  /* jq */
    {FUNCTION, ROLE_ALLOCATOR, "_talloc_*"}, /* Samba */
    {FUNCTION, ROLE_ALLOCATOR, "talloc_named*"},
    {FUNCTION, ROLE_ALLOCATOR, "talloc_str*dup*"},
    {FUNCTION, ROLE_ALLOCATOR, "talloc_*asprintf*"},
    {FUNCTION, ROLE_ALLOCATOR, "z[mc]alloc*"}, /* redis */
    {FUNCTION, ROLE_ALLOCATOR, "ztry*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "zrealloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "CRYPTO_*[mze]alloc"}, /* OpenSSL */
    {FUNCTION, ROLE_ALLOCATOR, "CRYPTO_strdup"},
    {FUNCTION, ROLE_ALLOCATOR, "CRYPTO_memdup"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3Malloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3DbMalloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3*Realloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3DbStr*Dup"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3_malloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3_realloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3Mem*alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "pcache1Alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "pcache1InitBulk"},
    {FUNCTION, ROLE_ALLOCATOR, "sqlite3PageMalloc"},
    {FUNCTION, ROLE_ALLOCATOR, "slabs_alloc"}, /* memcached */
    {FUNCTION, ROLE_ALLOCATOR, "do_slabs_alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "do_slabs_newslab"},
    {FUNCTION, ROLE_ALLOCATOR, "palloc*"}, /* PostgreSQL */
    {FUNCTION, ROLE_ALLOCATOR, "repalloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "MemoryContextAlloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "MemoryContextStrdup"},
    {FUNCTION, ROLE_ALLOCATOR, "AllocSet*"},
    {FUNCTION, ROLE_ALLOCATOR, "GenerationAlloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "SlabAlloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "pstrdup"},
    {FUNCTION, ROLE_ALLOCATOR, "pnstrdup"},
    {FUNCTION, ROLE_ALLOCATOR, "_e[mc]alloc*"}, /* PHP */
    {FUNCTION, ROLE_ALLOCATOR, "_estr*dup"},
    {FUNCTION, ROLE_ALLOCATOR, "_safe_*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "__zend_*alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "zend_mm_*"},
    {FUNCTION, ROLE_ALLOCATOR, "zend_str*dup"},
    {FUNCTION, ROLE_ALLOCATOR, "_erealloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "ruby_x*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "objspace_x*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "objspace_malloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "ruby_str*dup"},
    {FUNCTION, ROLE_ALLOCATOR, "rb_x*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "rb_gc_impl_*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "av_malloc*"}, /* FFmpeg */
    {FUNCTION, ROLE_ALLOCATOR, "av_calloc"},
    {FUNCTION, ROLE_ALLOCATOR, "av_realloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "uv__[mc]alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "uv__realloc"},
    {FUNCTION, ROLE_ALLOCATOR, "v8::internal::AllocAtLeastWithRetry*"},
    {FUNCTION, ROLE_ALLOCATOR, "v8::internal::Malloced::operator new*"},
    {FUNCTION, ROLE_ALLOCATOR, "v8::internal::Zone::*Expand*"},
    {FUNCTION, ROLE_ALLOCATOR, "v8::internal::AccountingAllocator::*"},
    {FUNCTION, ROLE_ALLOCATOR, "os::malloc"}, /* the JVM */
    {FUNCTION, ROLE_ALLOCATOR, "os::realloc"},
    {FUNCTION, ROLE_ALLOCATOR, "os::strdup*"},
    {FUNCTION, ROLE_ALLOCATOR, "AllocateHeap"},
    {FUNCTION, ROLE_ALLOCATOR, "ReallocateHeap"},
    {FUNCTION, ROLE_ALLOCATOR, "Chunk::operator new"},
    {FUNCTION, ROLE_ALLOCATOR, "llvm::safe_*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "llvm::allocate_buffer*"},
    {FUNCTION, ROLE_ALLOCATOR, "Perl_safesys[mc]alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "Perl_safesysrealloc"},
    {FUNCTION, ROLE_ALLOCATOR, "_PyMem_*"},
    {FUNCTION, ROLE_ALLOCATOR, "PyMem_*"},
    {FUNCTION, ROLE_ALLOCATOR, "_PyObject_Malloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "PyObject_Malloc"},
    {FUNCTION, ROLE_ALLOCATOR, "PyObject_Calloc"},
    {FUNCTION, ROLE_ALLOCATOR, "PyObject_Realloc"},
    /* runtimes of languages */
    {FUNCTION, ROLE_ALLOCATOR, "__gnat_malloc"}, /* Ada */
    {FUNCTION, ROLE_ALLOCATOR, "__gnat_realloc"},
    {FUNCTION, ROLE_ALLOCATOR, "system__memory__*"},
    {FUNCTION, ROLE_ALLOCATOR, "system__pool_*__allocate"},
    {FUNCTION, ROLE_ALLOCATOR, "system__secondary_stack__ss_allocate"},
    {FUNCTION, ROLE_ALLOCATOR, "CMEM_$$_*"}, /* Free Pascal */
    {FUNCTION, ROLE_ALLOCATOR, "SYSTEM_$$_*GETMEM*"},
    {FUNCTION, ROLE_ALLOCATOR, "SYSTEM_$$_*ALLOCMEM*"},
    {FUNCTION, ROLE_ALLOCATOR, "fpc_getmem"},
    {FUNCTION, ROLE_ALLOCATOR, "SYSTEM$_$TOBJECT_$__$$_NEWINSTANCE*"},
    {FUNCTION, ROLE_ALLOCATOR, "caml_alloc*"}, /* OCaml */
    {FUNCTION, ROLE_ALLOCATOR, "caml_stat_*"},
    {FUNCTION, ROLE_ALLOCATOR, "caml_add_to_heap"},
    {FUNCTION, ROLE_ALLOCATOR, "caml_init_major_heap"},
    {FUNCTION, ROLE_ALLOCATOR, "caml_set_minor_heap*"},
    {FUNCTION, ROLE_ALLOCATOR, "expand_heap"},
    {FUNCTION, ROLE_ALLOCATOR, "erts_sys_*"}, /* Erlang */
    {FUNCTION, ROLE_ALLOCATOR, "erts_alcu_*"},
    {FUNCTION, ROLE_ALLOCATOR, "erts_alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "erts_realloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "erts_mseg_*"},
    {FUNCTION, ROLE_ALLOCATOR, "asmjit::*Zone*::_*alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "stg[MRC]*alloc*Bytes"}, /* GHC */
    {FUNCTION, ROLE_ALLOCATOR, "my_mmap*"},
    {FUNCTION, ROLE_ALLOCATOR, "osGetMBlocks"},
    {FUNCTION, ROLE_ALLOCATOR, "osTryReserveHeapMemory"},
    {FUNCTION, ROLE_ALLOCATOR, "osReserveHeapMemory"},
    {FUNCTION, ROLE_ALLOCATOR, "successful_malloc"}, /* SBCL */
    {FUNCTION, ROLE_ALLOCATOR, "copied_string"},
    {FUNCTION, ROLE_ALLOCATOR, "os_alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "os_validate"},
    {FUNCTION, ROLE_ALLOCATOR, "l_alloc"}, /* Lua */
    {FUNCTION, ROLE_ALLOCATOR, "luaM_*"},
    {FUNCTION, ROLE_ALLOCATOR, "lj_mem_*"},
    {FUNCTION, ROLE_ALLOCATOR, "lj_alloc_*"},
    {FUNCTION, ROLE_ALLOCATOR, "Rf_alloc*"}, /* R */
    {FUNCTION, ROLE_ALLOCATOR, "R_alloc*"},
    {FUNCTION, ROLE_ALLOCATOR, "[RS]_*alloc"},
    {FUNCTION, ROLE_ALLOCATOR, "R_chk_*alloc"},

    {MODULE, ROLE_LIBRARY, "libc.so.6"},
    {MODULE, ROLE_LIBRARY, "libc-2.*.so"},
    {MODULE, ROLE_LIBRARY, "ld-linux*.so.?"},
    {MODULE, ROLE_LIBRARY, "ld-2.*.so"},
    {MODULE, ROLE_LIBRARY, "libpthread[.-]*so*"},
    {MODULE, ROLE_LIBRARY, "libdl[.-]*so*"},
    {MODULE, ROLE_LIBRARY, "librt[.-]*so*"},
    {MODULE, ROLE_LIBRARY, "libresolv[.-]*so*"},
    {MODULE, ROLE_LIBRARY, "libnss_*.so*"},
    {MODULE, ROLE_LIBRARY, "ld-musl-*.so*"},
    {MODULE, ROLE_LIBRARY, "libc.musl-*.so*"},
    {FUNCTION, ROLE_LIBRARY, "_dl_*"}, /* linked statically */
    {FUNCTION, ROLE_LIBRARY, "_IO_*"},
    {FUNCTION, ROLE_LIBRARY, "_nl_*"},

    {MODULE, ROLE_LIBRARY, "libstdc++.so*"},
    {MODULE, ROLE_LIBRARY, "libc++.so*"},
    {MODULE, ROLE_LIBRARY, "libc++abi.so*"},
    {MODULE, ROLE_LIBRARY, "libgcc_s.so*"},
    {FUNCTION, ROLE_LIBRARY, "std::*"}, /* Rust's, too */
    {FUNCTION, ROLE_LIBRARY, "__gnu_cxx::*"},
    {FUNCTION, ROLE_LIBRARY, "__gnu_debug::*"},
    {FUNCTION, ROLE_LIBRARY, "__cxxabiv1::*"},
    {FUNCTION, ROLE_LIBRARY, "__cxa_*"},

    {MODULE, ROLE_LIBRARY, "libstd-*.so"},
    {FUNCTION, ROLE_LIBRARY, "__rust_*"},
    {FUNCTION, ROLE_LIBRARY, "__rdl_*"},
    {FUNCTION, ROLE_LIBRARY, "__rg_*"},
    {FUNCTION, ROLE_LIBRARY, "rust_panic*"},
    {FUNCTION, ROLE_LIBRARY, "rust_begin_unwind"},
    {SOURCE, ROLE_LIBRARY, "*/library/alloc/src/*"},
    {SOURCE, ROLE_LIBRARY, "*/library/core/src/*"},
    {SOURCE, ROLE_LIBRARY, "*/library/std/src/*"},
    {SOURCE, ROLE_LIBRARY, "*/hashbrown-*/src/*"},
    {CRATE, ROLE_LIBRARY, "std"},
    {CRATE, ROLE_LIBRARY, "core"},
    {CRATE, ROLE_LIBRARY, "alloc"},
    {CRATE, ROLE_LIBRARY, "hashbrown"}, /* HashMap */
    {CRATE, ROLE_LIBRARY, "__rustc"},
    {CRATE, ROLE_LIBRARY, "addr2line"}, /* the names in a panic's backtrace */
    {CRATE, ROLE_LIBRARY, "gimli"},
    {CRATE, ROLE_LIBRARY, "miniz_oxide"},
    {CRATE, ROLE_LIBRARY, "rustc_demangle"},

    {MODULE, ROLE_LIBRARY, "libgphobos.so*"},
    {MODULE, ROLE_LIBRARY, "libgdruntime.so*"},
    {MODULE, ROLE_LIBRARY, "libphobos2*.so*"},
    {MODULE, ROLE_LIBRARY, "libdruntime*.so*"},
    {FUNCTION, ROLE_LIBRARY, "std.*"}, /* D */
    {FUNCTION, ROLE_LIBRARY, "core.*"},
    {FUNCTION, ROLE_LIBRARY, "object.*"},
    {FUNCTION, ROLE_LIBRARY, "rt.*"},
    {FUNCTION, ROLE_LIBRARY, "gc.*"},
    {FUNCTION, ROLE_LIBRARY, "_D3std*"}, /* names that cannot be demangled */
    {FUNCTION, ROLE_LIBRARY, "_D4core*"},
    {FUNCTION, ROLE_LIBRARY, "_D6object*"},
    {FUNCTION, ROLE_LIBRARY, "_D2rt*"},
    {FUNCTION, ROLE_LIBRARY, "_d_*"},
    {FUNCTION, ROLE_LIBRARY, "_aa[A-Z]*"},
    {FUNCTION, ROLE_LIBRARY, "gc_*"},

    {MODULE, ROLE_LIBRARY, "libgnat-*.so*"}, /* Ada */
    {MODULE, ROLE_LIBRARY, "libgnarl-*.so*"},
    {FUNCTION, ROLE_LIBRARY, "ada__*"},
    {FUNCTION, ROLE_LIBRARY, "system__*"},
    {FUNCTION, ROLE_LIBRARY, "gnat__*"},
    {FUNCTION, ROLE_LIBRARY, "__gnat_*"},
    {FUNCTION, ROLE_LIBRARY, "fpc_*"}, /* Free Pascal */
    {FUNCTION, ROLE_LIBRARY, "SYSTEM_$$_*"},
    {FUNCTION, ROLE_LIBRARY, "SYSTEM$_$*"},
    {FUNCTION, ROLE_LIBRARY, "camlStdlib*"}, /* OCaml */
    {FUNCTION, ROLE_LIBRARY, "caml_call_gc"},
    {FUNCTION, ROLE_LIBRARY, "caml_garbage_collection"},

    {SCRIPT, ROLE_LIBRARY, "<frozen *"}, /* Python's own */
    {SCRIPT, ROLE_CODE, "*/site-packages/*"},
    {SCRIPT, ROLE_CODE, "*/dist-packages/*"},
    {SCRIPT, ROLE_LIBRARY, "*/lib/python3.*"},
    {SCRIPT, ROLE_LIBRARY, "node:*"},

    {FUNCTION, ROLE_INTERPRETER, "Builtin:*"}, /* V8's generated code */
    {FUNCTION, ROLE_INTERPRETER, "BytecodeHandler:*"},
    {FUNCTION, ROLE_INTERPRETER, "Stub:*"},
    {MODULE, ROLE_INTERPRETER, "python[23]*"},
    {MODULE, ROLE_INTERPRETER, "libpython[23]*.so*"},
    {MODULE, ROLE_INTERPRETER, "node"},
    {MODULE, ROLE_INTERPRETER, "nodejs"},
    {MODULE, ROLE_INTERPRETER, "libnode.so*"},
    {MODULE, ROLE_INTERPRETER, "libruby*.so*"},
    {MODULE, ROLE_INTERPRETER, "ruby[0-9]*"},
    {MODULE, ROLE_INTERPRETER, "libR.so"},
    {MODULE, ROLE_INTERPRETER, "lua5.*"},
    {MODULE, ROLE_INTERPRETER, "liblua5.*.so*"},
};

static bool glob_fits(const char *glob, const char *text)
{
    size_t plain = strcspn(glob, "*?["); /* most rows end here */
    if (strncmp(glob, text, plain) != 0)
        return false;
    if (!glob[plain])
        return !text[plain];
    return fnmatch(glob + plain, text + plain, 0) == 0;
}

static enum role search_roles(enum what what, const char *text)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].what == what && glob_fits(table[i].name, text))
            return table[i].role;
    return ROLE_CODE;
}

/* ---- Rust ---- */

/* Where the bracket closes that is opened at s; its end if it never does. */
static const char *closing(const char *s)
{
    unsigned depth = 0;
    for (; *s; s++) {
        depth += *s == '<';
        if (*s == '>' && s[-1] != '-' && depth && --depth == 0)
            return s;
    }
    return s;
}

/* " as " between the brackets at s, at their own level; NULL when there is none. */
static const char *as_of(const char *s)
{
    unsigned depth = 0;
    for (; *s; s++) {
        depth += *s == '<';
        if (*s == '>' && s[-1] != '-' && depth && --depth == 0)
            return NULL;
        if (depth == 1 && !strncmp(s, " as ", 4))
            return s + 4;
    }
    return NULL;
}

/* True if a type or a path belongs to the library: its crate does, or it is built in. */
static bool of_library(const char *s)
{
    static const char *const before[] = {"&", "mut ", "dyn ", NULL};
    for (unsigned nested = 0; nested < 32; nested++) {
        for (size_t i = 0; before[i];)
            if (!strncmp(s, before[i], strlen(before[i]))) {
                s += strlen(before[i]);
                i = 0;
            } else
                i++;
        if (*s != '<')
            break;
        s++;
    }
    size_t n = strcspn(s, ":<>,;)] {+=[(*");
    char crate[64];
    if (strncmp(s + n, "::", 2) != 0)
        return true; /* u8, [app::Foo], T */
    if (!n || n >= sizeof crate)
        return false;
    memcpy(crate, s, n);
    crate[n] = 0;
    return search_roles(CRATE, crate) == ROLE_LIBRARY;
}

/* True if some crate that is named within is not the library's. */
static bool names_others(const char *from, const char *to)
{
    for (const char *s = from; s < to; s++) {
        const bool starts = s == from || strchr("< (&[,", s[-1]);
        const size_t n = starts ? strcspn(s, ":<>,;)]&[ (") : 0;
        if (n && !strncmp(s + n, "::", 2) && !of_library(s))
            return true;
    }
    return false;
}

/* The program's own: an implementation for its own type, or of its own trait. (Implementations of
 * the library for every type show by their source, where it is known.) */
static enum role rust_role(const char *name, const char *file)
{
    enum role by_source = file ? search_roles(SOURCE, file) : ROLE_CODE;
    if (by_source != ROLE_CODE)
        return by_source;
    if (!of_library(name))
        return ROLE_CODE;
    const char *trait = *name == '<' ? as_of(name) : NULL;
    if (!trait)
        return *name == '<' || strstr(name, "::") ? ROLE_LIBRARY : ROLE_CODE;
    if (!of_library(trait))
        return ROLE_CODE;
    /* impl From<Own> for String */
    return file && names_others(trait, closing(name)) ? ROLE_CODE : ROLE_LIBRARY;
}

/* ---- all ---- */

static bool is_rust(const char *function)
{
    const struct spelling s = spelling_parts(function);
    return !function[s.end] && s.name == 0 && strstr(function, "::");
}

enum role role_of(const char *function, const char *path, const char *file)
{
    enum role role = ROLE_CODE;
    struct buffer b = {0};
    if (!function && !path)
        return ROLE_INTERPRETER; /* generated code without a name, as of V8's built-in functions */
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (function) {
        spelling_path(function, &b);
        role = search_roles(FUNCTION, buffer_text(&b));
    }
    if (path && (!strcmp(path, SYMBOL_PYTHON) || !strcmp(path, SYMBOL_JAVASCRIPT))) {
        buffer_release(&b);
        return file ? search_roles(SCRIPT, file) : ROLE_CODE;
    }
    if (role == ROLE_CODE && path)
        role = search_roles(MODULE, slash ? slash + 1 : path);
    if (role == ROLE_LIBRARY && function && search_roles(LIBC, function) == ROLE_START)
        role = ROLE_START;
    if (role == ROLE_CODE && function && is_rust(function))
        role = rust_role(function, file);
    buffer_release(&b);
    return role;
}
