/* Which frames are code of the program, and which only allocate on its behalf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frames/role.h"

#define STD_SOURCE "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/alloc/src/string.rs"

static const struct {
    enum role role;
    const char *function, *module, *file;
} frames[] = {
    {ROLE_CODE, "main", "prog", NULL},
    {ROLE_CODE, NULL, "libuser.so", NULL},
    {ROLE_INTERPRETER, NULL, NULL, NULL},
    {ROLE_INTERPRETER, "BytecodeHandler:Construct", "[jit]", NULL},
    {ROLE_START, "_start", "prog", NULL},
    {ROLE_START, "clone3", "libc.so.6", NULL},
    {ROLE_CODE, "clone", "prog", NULL},
    {ROLE_LIBRARY, NULL, "/lib/x86_64-linux-gnu/libc.so.6", NULL},
    {ROLE_LIBRARY, "fopen64", "libc.so.6", NULL},
    {ROLE_LIBRARY, "call_init", "ld-linux-x86-64.so.2", NULL},
    {ROLE_ALLOCATOR, "xmalloc", "prog", NULL},
    {ROLE_ALLOCATOR, "xmalloc(unsigned long)", "prog", NULL},
    {ROLE_ALLOCATOR, "jv_mem_calloc", "libjq.so.1", NULL},
    {ROLE_ALLOCATOR, "g_strndup", "libglib-2.0.so.0", NULL},
    {ROLE_CODE, "g_strsplit", "libglib-2.0.so.0", NULL},
    {ROLE_ALLOCATOR, "talloc_named_const", "libtalloc.so.2", NULL},
    {ROLE_ALLOCATOR, "_talloc_zero", "libtalloc.so.2", NULL},
    {ROLE_ALLOCATOR, "talloc_strndup", "libtalloc.so.2", NULL},
    {ROLE_ALLOCATOR, "talloc_asprintf_append", "libtalloc.so.2", NULL},
    {ROLE_CODE, "talloc_report", "libtalloc.so.2", NULL},
    {ROLE_CODE, "app::xmalloc_all(unsigned long)", "prog", NULL},
    /* databases and runtimes */
    {ROLE_ALLOCATOR, "sqlite3MemMalloc", "libsqlite3.so.0", NULL},
    {ROLE_ALLOCATOR, "pcache1Alloc", "libsqlite3.so.0", NULL},
    {ROLE_ALLOCATOR, "MemoryContextStrdup", "postgres", NULL},
    {ROLE_ALLOCATOR, "__zend_malloc", "php8.2", NULL},
    {ROLE_ALLOCATOR, "_safe_emalloc", "php8.2", NULL},
    {ROLE_CODE, "zend_hash_add", "php8.2", NULL},
    {ROLE_ALLOCATOR, "os::malloc(unsigned long, MEMFLAGS)", "libjvm.so", NULL},
    {ROLE_ALLOCATOR, "v8::internal::Zone::Expand(unsigned long)", "node", NULL},
    {ROLE_ALLOCATOR, "slabs_alloc", "memcached", NULL},
    {ROLE_ALLOCATOR, "__gnat_malloc", "libgnat-12.so", NULL},
    {ROLE_ALLOCATOR, "__gnat_malloc", "prog", NULL},
    {ROLE_LIBRARY, "ada__strings__unbounded__append", "libgnat-12.so", NULL},
    {ROLE_CODE, "a__fill", "prog", NULL},
    {ROLE_ALLOCATOR, "CMEM_$$_CGETMEM$QWORD$$POINTER", "prog", NULL},
    {ROLE_ALLOCATOR, "SYSTEM_$$_GETMEM$QWORD$$POINTER", "prog", NULL},
    {ROLE_LIBRARY, "fpc_dynarray_setlength", "prog", NULL},
    {ROLE_ALLOCATOR, "caml_alloc_for_heap", "prog", NULL},
    {ROLE_LIBRARY, "camlStdlib__Bytes__make_93", "prog", NULL},
    {ROLE_CODE, "camlO__fill_82", "prog", NULL},
    {ROLE_ALLOCATOR, "erts_sys_aligned_alloc", "beam.smp", NULL},
    {ROLE_ALLOCATOR, "stgMallocBytes", "prog", NULL},
    {ROLE_CODE, "stgFree", "prog", NULL},
    {ROLE_ALLOCATOR, "successful_malloc", "sbcl", NULL},
    {ROLE_ALLOCATOR, "luaM_realloc_", "lua", NULL},
    {ROLE_CODE, "lua_pushlstring", "app", NULL},
    {ROLE_INTERPRETER, "lua_pushlstring", "lua5.4", NULL},
    {ROLE_ALLOCATOR, "Rf_allocVector3", "libR.so", NULL},
    {ROLE_ALLOCATOR, "ruby_xmalloc2", "libruby-3.1.so.3.1", NULL},
    {ROLE_INTERPRETER, "rb_str_plus", "libruby-3.1.so.3.1", NULL},
    /* C++ */
    {ROLE_ALLOCATOR, "operator new[](unsigned long)", "libstdc++.so.6", NULL},
    {ROLE_LIBRARY, "std::vector<int, std::allocator<int> >::push_back(int&&)", "prog", NULL},
    {ROLE_LIBRARY, "void std::vector<int, app::Pool<int> >::_M_realloc_insert<int>(int&&)", "prog",
     NULL},
    {ROLE_LIBRARY, "__gnu_cxx::new_allocator<int>::allocate(unsigned long)", "prog", NULL},
    {ROLE_CODE, "std::vector<int, std::allocator<int> > app::make<int>(int)", "prog", NULL},
    {ROLE_CODE, "app::run()::{lambda(std::vector<int>)#1}::operator()(std::vector<int>) const",
     "prog", NULL},
    {ROLE_CODE, "stdx::vector<int>::push_back(int)", "prog", NULL},
    {ROLE_CODE, "core::parse(char const*)", "prog", NULL}, /* a namespace, not Rust's crate */
    {ROLE_CODE, "alloc::Pool::take(int)", "prog", NULL},
    /* Rust, mangled as v0 */
    {ROLE_LIBRARY, "<alloc::vec::Vec<u32>>::push", "prog", NULL},
    {ROLE_LIBRARY, "<alloc::alloc::Global>::grow_impl_runtime", "prog", NULL},
    {ROLE_LIBRARY, "alloc::vec::from_elem::<u8>", "prog", NULL},
    {ROLE_LIBRARY, "<[app::Foo]>::to_vec_in::<alloc::alloc::Global>", "prog", NULL},
    {ROLE_LIBRARY, "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>", "prog",
     NULL},
    {ROLE_LIBRARY, "<str as alloc::string::ToString>::to_string", "prog", NULL},
    {ROLE_LIBRARY,
     "<alloc::vec::Vec<u32> as alloc::vec::spec_from_iter::SpecFromIter<u32, "
     "core::iter::adapters::map::Map<core::ops::range::Range<u32>, app::main::{closure#0}>>>::"
     "from_iter",
     "prog", NULL},
    {ROLE_LIBRARY, "<hashbrown::map::HashMap<u32, app::Foo>>::insert", "prog", NULL},
    {ROLE_LIBRARY, "__rustc::__rust_alloc", "prog", NULL},
    {ROLE_LIBRARY, "<app::Foo as alloc::string::ToString>::to_string", "prog", STD_SOURCE},
    {ROLE_CODE, "<app::Foo as core::fmt::Display>::fmt", "prog", "/home/u/app/src/main.rs"},
    {ROLE_CODE, "<app::Foo as core::clone::Clone>::clone", "prog", NULL},
    {ROLE_CODE, "<alloc::string::String as app::Shout>::shout", "prog", NULL},
    {ROLE_CODE, "<alloc::string::String as core::convert::From<app::Foo>>::from", "prog",
     "/home/u/app/src/main.rs"},
    {ROLE_CODE, "app::main::{closure#0}", "prog", NULL},
    {ROLE_CODE, "<app::deep::Holder>::with_room", "prog", NULL},
    {ROLE_CODE, "<&mut app::Reader as std::io::Read>::read", "prog", NULL},
    /* and as before */
    {ROLE_LIBRARY, "alloc::raw_vec::RawVec<T,A>::grow_one", "prog", NULL},
    {ROLE_LIBRARY, "<alloc::vec::Vec<T,A> as core::clone::Clone>::clone", "prog", NULL},
    {ROLE_LIBRARY, "<T as alloc::string::ToString>::to_string", "prog", NULL},
    {ROLE_CODE, "app::main::{{closure}}", "prog", NULL},
    {ROLE_CODE, "app::<impl core::convert::From<app::Foo> for alloc::string::String>::from", "prog",
     NULL},
    /* D */
    {ROLE_LIBRARY, "std.array.Appender!(string).Appender.put!(string).put(string)", "prog", NULL},
    {ROLE_LIBRARY, "core.memory.GC.malloc(ulong)", "prog", NULL},
    {ROLE_LIBRARY, "_d_newclass", "prog", NULL},
    {ROLE_LIBRARY, "_D3std8internal6memory__T14enforceReallocZQrFNaNbNiNkMPvmZQe", "prog", NULL},
    {ROLE_CODE, "app.fillTable(int)", "prog", NULL},
    /* interpreters */
    {ROLE_INTERPRETER, "list_resize", "/usr/bin/python3.12", NULL},
    {ROLE_INTERPRETER, "list_resize", "libpython3.12.so.1.0", NULL},
    {ROLE_ALLOCATOR, "_PyObject_Malloc", "libpython3.12.so.1.0", NULL},
    {ROLE_CODE, "array_new", "_multiarray_umath.cpython-312-x86_64-linux-gnu.so", NULL},
    {ROLE_INTERPRETER, "v8::internal::Zone::New(unsigned long)", "node", NULL},
    {ROLE_CODE, "Parser.row", "[python]", "/home/u/app/parser.py"},
    {ROLE_CODE, "malloc", "[python]", "/home/u/app/parser.py"},
    {ROLE_CODE, "DataFrame.__init__", "[python]",
     "/usr/lib/python3.12/site-packages/pandas/core/frame.py"},
    {ROLE_LIBRARY, "JSONDecoder.decode", "[python]", "/usr/lib/python3.12/json/decoder.py"},
    {ROLE_LIBRARY, "_find_and_load", "[python]", "<frozen importlib._bootstrap>"},
    {ROLE_LIBRARY, "alloc", "[javascript]", "node:buffer"},
    {ROLE_CODE, "fill", "[javascript]", "/home/u/app/index.js"},
};

static void test_roles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        if (role_of(frames[i].function, frames[i].module, frames[i].file) != frames[i].role)
            fail_msg("%s of %s: not role %d", frames[i].function, frames[i].module, frames[i].role);
}

/* Names that no compiler makes. */
static void test_hostile(void **state)
{
    static const char *const names[] = {
        "",          "<",    "::",   "<<<<", "<&&&&",          "< as ",
        "<a::b as ", ">::>", "<[",   "a::",  "<alloc:: as ::", "->::",
        "&",         "()",   "<>::x"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_in_range(role_of(names[i], "", ""), ROLE_CODE, ROLE_START);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
