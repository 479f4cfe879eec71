/* fuzz_row.c - fuzz target: any bytes, as rows. What decodes must encode to what decodes the same.
 */
#include <stdlib.h>
#include <string.h>

#include "format/row.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1); /* so that a sanitizer sees the end */
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    struct mlw_row_state state = {0, 0, true}, again = {0, 0}, check = {0, 0, true};
    const uint8_t *p = copy, *end = copy + n;
    struct mlw_row row, back = {.op = 0};
    while (p && p < end) {
        p = mlw_row_decode(p, end, &state, &row);
        if (!p || row.op == MLW_OP_META)
            continue;
        if (p > end)
            abort();
        uint8_t bytes[MLW_ROW_MAX + 16];
        unsigned fields = mlw_op_fields(row.op);
        int has = fields & MLW_F_STACK && row.address && !(row.path & MLW_PATH_FAILED) &&
                  row.usable != mlw_usual_usable(row.size);
        const uint32_t extra = (uint32_t)(row.usable - row.size);
        uint8_t *to = row.route
                          ? mlw_row_encode_routed(bytes, &again, row.op, fields, row.clock,
                                                  row.address, row.size, row.stack, has, extra,
                                                  row.argument, row.path, row.route)
                          : mlw_row_encode(bytes, &again, row.op, fields, row.clock, row.address,
                                           row.size, row.stack, has, extra, row.argument, row.path);
        if ((size_t)(to - bytes) > MLW_ROW_MAX)
            abort();
        if (mlw_row_decode(bytes, to, &check, &back) != to || back.clock != row.clock ||
            back.address != row.address || back.op != row.op || back.path != row.path ||
            back.route != row.route || back.argument != row.argument || back.stack != row.stack ||
            (fields & MLW_F_SIZE && back.size != row.size) || back.usable != row.usable)
            abort();
    }
    free(copy);
    return 0;
}
