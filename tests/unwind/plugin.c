/* plugin.c - a library that calls back; built several times with the same layout but other frames:
 * FRAME is the size of its locals. */
#ifndef FRAME
#error "FRAME"
#endif

int plugin_run(void (*callback)(void), int depth);
__attribute__((visibility("default"), noinline)) int plugin_run(void (*callback)(void), int depth)
{
    volatile char local[FRAME];
    local[depth & 7] = (char)depth;
    if (depth > 0)
        return plugin_run(callback, depth - 1) + local[depth & 7];
    callback();
    return local[0];
}
