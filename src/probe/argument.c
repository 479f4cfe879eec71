/* argument.c - see argument.h. The grammar: [SIZE@]OPERAND, where OPERAND is %register, $number,
 * number, or [DISPLACEMENT](%base,%index,scale) with any part left out; DISPLACEMENT is a sum of
 * numbers and at most one symbol. */
#include "probe/argument.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Words of struct pt_regs. */
static const struct {
    const char *name[4]; /* in 8, 4, 2 and 1 bytes */
    uint8_t word;
} registers[] = {
    {{"r15", "r15d", "r15w", "r15b"}, 0}, {{"r14", "r14d", "r14w", "r14b"}, 1},
    {{"r13", "r13d", "r13w", "r13b"}, 2}, {{"r12", "r12d", "r12w", "r12b"}, 3},
    {{"rbp", "ebp", "bp", "bpl"}, 4},     {{"rbx", "ebx", "bx", "bl"}, 5},
    {{"r11", "r11d", "r11w", "r11b"}, 6}, {{"r10", "r10d", "r10w", "r10b"}, 7},
    {{"r9", "r9d", "r9w", "r9b"}, 8},     {{"r8", "r8d", "r8w", "r8b"}, 9},
    {{"rax", "eax", "ax", "al"}, 10},     {{"rcx", "ecx", "cx", "cl"}, 11},
    {{"rdx", "edx", "dx", "dl"}, 12},     {{"rsi", "esi", "si", "sil"}, 13},
    {{"rdi", "edi", "di", "dil"}, 14},    {{"rip", "eip", "ip", "ip"}, 16},
    {{"rsp", "esp", "sp", "spl"}, 19},
};

enum { WORD_IP = 16 };

/* %NAME at *at; moves behind it. */
static bool take_register(const char **at, uint8_t *word)
{
    if (**at != '%')
        return false;
    const char *start = *at + 1;
    size_t n = strspn(start, "abcdefghijklmnopqrstuvwxyz0123456789");
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
        for (int k = 0; k < 4; k++)
            if (strlen(registers[i].name[k]) == n && !memcmp(registers[i].name[k], start, n)) {
                *word = registers[i].word;
                *at = start + n;
                return true;
            }
    return false;
}

static bool take_number(const char **at, int64_t *number)
{
    char *end;
    const char *digits = *at + (**at == '-' || **at == '+');
    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    *number = **at == '-' ? strtoll(*at, &end, 0) : (int64_t)strtoull(*at, &end, 0);
    if (errno)
        return false;
    *at = end;
    return true;
}

struct displacement {
    int64_t number;
    bool has_symbol;
    uint64_t symbol;
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '$' || c == '@';
}

/* Numbers and a symbol, with signs between. */
static bool take_displacement(const char **at, argument_symbol symbol, void *arg,
                              struct displacement *d)
{
    char name[256];
    while (**at && **at != '(' && **at != ' ') {
        int64_t number;
        const char *here = *at;
        if (take_number(at, &number)) {
            d->number = (int64_t)((uint64_t)d->number + (uint64_t)number);
            continue;
        }
        here += *here == '+';
        size_t n = 0;
        while (is_name_char(here[n]) && n < sizeof name - 1)
            n++;
        if (n == 0 || d->has_symbol || n == sizeof name - 1)
            return false;
        memcpy(name, here, n);
        name[n] = 0;
        if (!symbol || !symbol(arg, name, &d->symbol))
            return false;
        d->has_symbol = true;
        *at = here + n;
    }
    return true;
}

/* (%base,%index,scale), each of which may be missing. */
static bool take_base(const char **at, struct arenas_argument *a)
{
    int64_t scale = 1;
    const char *p = *at + 1;
    if (*p == '%' && !take_register(&p, &a->base))
        return false;
    if (*p == ',') {
        p++;
        if (*p == '%' && !take_register(&p, &a->index))
            return false;
        if (*p == ',') {
            p++;
            if (!take_number(&p, &scale) || (scale != 1 && scale != 2 && scale != 4 && scale != 8))
                return false;
        }
    }
    if (*p != ')')
        return false;
    a->scale = (uint32_t)scale;
    *at = p + 1;
    return true;
}

static bool take_memory(const char **at, uint64_t address, argument_symbol symbol, void *arg,
                        struct arenas_argument *a)
{
    struct displacement d = {0};
    if (!take_displacement(at, symbol, arg, &d))
        return false;
    a->kind = ARENAS_MEMORY;
    a->offset = d.number;
    if (**at == '(' && !take_base(at, a))
        return false;
    if (d.has_symbol || a->base == WORD_IP) {
        /* Where the library lies is seen from where the probe is hit. */
        if (a->index != ARENAS_NO_REGISTER || (a->base != WORD_IP && a->base != ARENAS_NO_REGISTER))
            return false;
        a->kind = ARENAS_RELATIVE;
        a->base = ARENAS_NO_REGISTER;
        if (d.has_symbol)
            a->offset = (int64_t)(d.symbol + (uint64_t)d.number - address);
    }
    return true;
}

const char *argument_parse(const char *text, uint64_t address, argument_symbol symbol, void *arg,
                           struct arenas_argument *argument)
{
    const char *at = text;
    int64_t size = 8;
    struct displacement d = {0};
    *argument = (struct arenas_argument){
        .base = ARENAS_NO_REGISTER, .index = ARENAS_NO_REGISTER, .scale = 1};
    const char *mark = strchr(text, '@'), *blank = strchr(text, ' ');
    if (mark && (!blank || mark < blank) && strspn(text, "-0123456789") == (size_t)(mark - text)) {
        if (!take_number(&at, &size) || at != mark)
            return NULL;
        at++;
    }
    int64_t bytes = size < 0 ? -size : size;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return NULL;
    argument->size = (int8_t)size;
    if (*at == '%') {
        argument->kind = ARENAS_REGISTER;
        if (!take_register(&at, &argument->base))
            return NULL;
    } else if (*at == '$') {
        at++;
        if (!take_displacement(&at, symbol, arg, &d))
            return NULL;
        argument->kind = d.has_symbol ? ARENAS_ADDRESS : ARENAS_CONSTANT;
        argument->offset =
            d.has_symbol ? (int64_t)(d.symbol + (uint64_t)d.number - address) : d.number;
    } else if (!*at || !take_memory(&at, address, symbol, arg, argument))
        return NULL;
    if (*at && *at != ' ')
        return NULL;
    return at + strspn(at, " ");
}
