/* human.c - Parses and prints sizes, durations and counts. Parsing uses integers with nine
 * decimal places, and refuses a result that does not fit 64 bits. Printing uses floating point,
 * because it shows one or two decimals only. */
#include "base/human.h"

#include <stdio.h>
#include <string.h>

/* A decimal number with an optional fraction, times `unit`, rounded down. The fraction is read to
 * nine digits; what follows cannot matter for the units here. */
struct decimal {
    uint64_t whole;
    uint64_t fraction; /* in billionths */
    bool has_fraction;
    const char *rest; /* the first character that is not of the number */
};

static bool human_parse_decimal(const char *text, struct decimal *d)
{
    *d = (struct decimal){.rest = text};
    const char *p = text;
    bool digits = false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(d->whole, 10, &d->whole) ||
            __builtin_add_overflow(d->whole, (uint64_t)(*p - '0'), &d->whole))
            return false;
        digits = true;
    }
    if (!digits)
        return false;
    if (*p == '.') {
        uint64_t place = 100000000;
        const char *first = ++p;
        for (; *p >= '0' && *p <= '9'; p++, place /= 10)
            d->fraction += (uint64_t)(*p - '0') * place;
        if (p == first)
            return false;
        d->has_fraction = true;
    }
    d->rest = p;
    return true;
}

static bool scale(const struct decimal *d, uint64_t unit, uint64_t *result)
{
    unsigned __int128 n =
        (unsigned __int128)d->whole * unit + (unsigned __int128)d->fraction * unit / 1000000000;
    if (n > UINT64_MAX)
        return false;
    *result = (uint64_t)n;
    return true;
}

bool human_parse_count(const char *text, uint64_t *count)
{
    struct decimal d;
    if (!human_parse_decimal(text, &d) || d.has_fraction || *d.rest)
        return false;
    *count = d.whole;
    return true;
}

bool human_parse_size(const char *text, uint64_t *size_bytes)
{
    static const char letters[] = "KMGTP";
    struct decimal d;
    if (!human_parse_decimal(text, &d))
        return false;
    uint64_t unit = 1;
    const char *p = d.rest;
    char upper = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    const char *letter = upper ? strchr(letters, upper) : NULL;
    if (letter) {
        unit = 1ull << 10 * (letter - letters + 1);
        p++;
        if (*p == 'i' && p[1] == 'B')
            p++;
    }
    if (*p == 'B')
        p++;
    if (*p || (d.has_fraction && unit == 1))
        return false;
    return scale(&d, unit, size_bytes);
}

bool human_parse_duration(const char *text, uint64_t *duration_ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"", 1000000000},  {"ns", 1},          {"us", 1000},        {"ms", 1000000},
                 {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
    struct decimal d;
    if (!human_parse_decimal(text, &d))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(d.rest, units[i].name))
            return scale(&d, units[i].ns, duration_ns);
    return false;
}

const char *human_size(char out[HUMAN_TEXT_BYTES], uint64_t size_bytes)
{
    static const char *const names[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
    if (size_bytes < 1000) {
        snprintf(out, HUMAN_TEXT_BYTES, "%u B", (unsigned)size_bytes);
        return out;
    }
    double value = (double)size_bytes / 1024;
    size_t i = 0;
    while (value >= 999.95 && i + 1 < sizeof names / sizeof *names) {
        value /= 1024;
        i++;
    }
    snprintf(out, HUMAN_TEXT_BYTES, "%.1f %s", value, names[i]);
    return out;
}

const char *human_duration(char out[HUMAN_TEXT_BYTES], uint64_t duration_ns)
{
    double ns = (double)duration_ns;
    uint64_t seconds = duration_ns / 1000000000;
    if (duration_ns < 1000)
        snprintf(out, HUMAN_TEXT_BYTES, "%u ns", (unsigned)duration_ns);
    else if (duration_ns < 999950)
        snprintf(out, HUMAN_TEXT_BYTES, "%.1f us", ns / 1e3);
    else if (duration_ns < 999950000)
        snprintf(out, HUMAN_TEXT_BYTES, "%.1f ms", ns / 1e6);
    else if (seconds < 60)
        snprintf(out, HUMAN_TEXT_BYTES, "%.2f s", ns / 1e9);
    else if (seconds < 3600)
        snprintf(out, HUMAN_TEXT_BYTES, "%um%02us", (unsigned)(seconds / 60),
                 (unsigned)(seconds % 60));
    else
        snprintf(out, HUMAN_TEXT_BYTES, "%lluh%02um", (unsigned long long)(seconds / 3600),
                 (unsigned)(seconds / 60 % 60));
    return out;
}

const char *human_count(char out[HUMAN_TEXT_BYTES], uint64_t count)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *p = out;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            *p++ = ',';
        *p++ = digits[i];
    }
    *p = 0;
    return out;
}
