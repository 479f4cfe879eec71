/* The parts of demangled names, shorter spellings, and where a name may be cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "symbol/spelling.h"

struct pair {
    const char *text, *wanted;
};

static void test_path(void **state)
{
    static const struct pair pairs[] = {
        {"main", "main"},
        {"operator new(unsigned long)", "operator new"},
        {"operator new[](unsigned long, std::nothrow_t const&)", "operator new"},
        {"void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int*, int&&)",
         "std::vector::_M_realloc_insert"},
        {"std::vector<int, std::allocator<int> > app::make<int>(int)", "app::make"},
        {"(anonymous namespace)::parse(char const*)", "(anonymous namespace)::parse"},
        {"app::run()::{lambda(int)#1}::operator()(int) const",
         "app::run::{lambda(int)#1}::operator()"},
        {"bool operator< <int>(Box<int> const&, Box<int> const&)", "operator<"},
        {"std::ostream& operator<< <int>(std::ostream&, Box<int>)", "operator<<"},
        {"Box<int>::operator->() const", "Box::operator->"},
        {"Box<int>::operator std::string() const", "Box::operator std::string"},
        {"unsigned long const& std::max<unsigned long>(unsigned long const&, unsigned long const&)",
         "std::max"},
        {"decltype (declval<A>() > declval<B>()) app::pick<A, B>(A, B)", "app::pick"},
        {"non-virtual thunk to app::Window::paint(int)", "app::Window::paint"},
        {"app::walk(Node*) [clone .cold]", "app::walk"},
        {"app::coro(app::coro(int)::Frame*) [clone .actor]", "app::coro"},
        {"malloc@plt", "malloc@plt"},
        {"alloc::vec::from_elem::<u8>", "alloc::vec::from_elem::"},
        {"std.array.Appender!(immutable(char)[]).Appender.put!(string).put(string)",
         "std.array.Appender.Appender.put.put"},
        {"f(", "f"},
        {">>><(", ">>>"},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct buffer b = {0};
        spelling_path(pairs[i].text, &b);
        assert_string_equal(buffer_text(&b), pairs[i].wanted);
        buffer_release(&b);
    }
}

static void test_short(void **state)
{
    static const struct pair pairs[] = {
        {"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
         ">::_M_create("
         "unsigned long&, unsigned long)",
         "std::string::_M_create(unsigned long&, unsigned long)"},
        {"app::f(std::__cxx11::basic_string<wchar_t, std::char_traits<wchar_t>, "
         "std::allocator<wchar_t> > const&)",
         "app::f(std::wstring const&)"},
        {"app::g[abi:cxx11](std::basic_string_view<char, std::char_traits<char> >, "
         "std::basic_ostream<char, std::char_traits<char> >&)",
         "app::g(std::string_view, std::ostream&)"},
        {"void std::vector<std::vector<int, std::allocator<int> >, "
         "std::allocator<std::vector<int, std::allocator<int> > > >::push_back(int)",
         "std::vector<std::vector<int>>::push_back(int)"},
        {"std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
         ">, "
         "int, std::less<std::__cxx11::basic_string<char, std::char_traits<char>, "
         "std::allocator<char> > >, std::allocator<std::pair<std::__cxx11::basic_string<char, "
         "std::char_traits<char>, std::allocator<char> > const, int> > >::insert()",
         "std::map<std::string, int>::insert()"},
        {"std::map<int, int, app::By, std::allocator<std::pair<int const, int> > >::at(int const&)",
         "std::map<int, int, app::By>::at(int const&)"},
        {"std::set<int, std::less<void>, std::allocator<int> >::f()",
         "std::set<int, std::less<void>>::f()"},
        {"std::vector<int, app::Pool<int> >::resize(unsigned long)",
         "std::vector<int, app::Pool<int>>::resize(unsigned long)"},
        {"app::Box<int, std::allocator<int> >::get()", "app::Box<int, std::allocator<int>>::get()"},
        {"std::_Hashtable<int, std::pair<int const, int>, std::allocator<std::pair<int const, int> "
         ">,"
         " std::__detail::_Select1st, std::equal_to<int>, std::hash<int>, "
         "std::__detail::_Mod_range_hashing, std::__detail::_Default_ranged_hash, "
         "std::__detail::_Prime_rehash_policy, std::__detail::_Hashtable_traits<false, false, "
         "true> "
         ">::_M_rehash(unsigned long, unsigned long const&)",
         "std::_Hashtable<int, std::pair<int const, int>>::_M_rehash(unsigned long, unsigned long "
         "const&)"},
        {"std::unique_ptr<app::T, std::default_delete<app::T> >::reset(app::T*)",
         "std::unique_ptr<app::T>::reset(app::T*)"},
        {"app::f(__gnu_cxx::__normal_iterator<int const*, std::vector<int, std::allocator<int> > "
         ">)",
         "app::f(std::vector<int>::const_iterator)"},
        {"std::vector<int, std::allocator<int> > app::make<int>(int)", "app::make<int>(int)"},
        {"std::__1::vector<int, std::__1::allocator<int> >::reserve(unsigned long)",
         "std::vector<int>::reserve(unsigned long)"},
        {"std::__n4861::coroutine_handle<void>::resume() const",
         "std::coroutine_handle<void>::resume() const"},
        {"bool operator< <int>(Box<int> const&, Box<int> const&)",
         "operator< <int>(Box<int> const&, Box<int> const&)"},
        {"virtual thunk to app::A<int, int>::f()", "virtual thunk to app::A<int, int>::f()"},
        {"(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"},
        {"app::Empty<>::f()", "app::Empty<>::f()"},
        {"alloc::vec::Vec<T,A>::push", "alloc::vec::Vec<T,A>::push"},
        {"<alloc::vec::Vec<u32> as core::clone::Clone>::clone",
         "<alloc::vec::Vec<u32> as core::clone::Clone>::clone"},
        {"app::coro(app::coro(int)::_ZN3app4coroEi.Frame*) [clone .actor]",
         "app::coro [clone .actor]"},
        {"std::__invoke_impl<std::__cxx11::basic_string<char>*, app::f(int)::<lambda()>&>",
         "std::__invoke_impl<std::string*, app::f(int)::<lambda()>&>"},
        {"plain", "plain"},
        {"std::vector<", "std::vector<"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct buffer b = {0};
        assert_true(spelling_short(pairs[i].text, &b));
        assert_string_equal(buffer_text(&b), pairs[i].wanted);
        buffer_release(&b);
    }
}

static void test_hostile(void **state)
{
    static const char *const pieces[] = {"a<",  "std::f<std::allocator<", "(", "operator<", "{[",
                                         "a<b,"};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct buffer text = {0}, out = {0};
        for (unsigned n = 0; n < 20000; n++)
            buffer_append_text(&text, pieces[i]);
        buffer_append_text(&text, "()");
        spelling_path(buffer_text(&text), &out);
        buffer_clear(&out);
        if (!spelling_short(buffer_text(&text), &out))
            assert_int_equal(out.size_bytes, 0);
        buffer_clear(&out);
        spelling_fit(buffer_text(&text), 40, "...", &out);
        assert_true(out.size_bytes <= 40);
        buffer_release(&text);
        buffer_release(&out);
    }
}

static void test_fit(void **state)
{
    static const char name[] =
        "app::store::Table<std::map<int, std::string>>::insert(int, char const*)";
    static const struct {
        size_t columns;
        const char *wanted;
    } cuts[] = {
        {80, name},
        {60, "app::store::Table<std::map<int, std::string>>::insert(..)"},
        {50, "app::store::Table<std::map<..>>::insert(..)"},
        {40, "app::store::Table<..>::insert(..)"},
        {30, "..store::Table<..>::insert(..)"},
        {25, "..Table<..>::insert(..)"},
        {12, "..insert(..)"},
        {9, "..inser.."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct buffer b = {0};
        spelling_fit(name, cuts[i].columns, "..", &b);
        assert_string_equal(buffer_text(&b), cuts[i].wanted);
        buffer_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
