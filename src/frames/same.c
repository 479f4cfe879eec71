/* same.c - Removes the parts of a function's or module's name that differ between builds: the
 * compiler's suffixes of clones, and the version of a library. */
#include "frames/same.h"

#include <stdbool.h>
#include <string.h>

size_t same_function(const char *name)
{
    static const char *const suffixes[] = {".isra",     ".constprop", ".part",       ".cold",
                                           ".lto_priv", ".llvm",      ".localalias", NULL};
    const char *clone = strstr(name, " [clone ");
    size_t n = clone ? (size_t)(clone - name) : strlen(name);
    for (bool again = true; again;) {
        again = false;
        size_t end = n;
        while (end && name[end - 1] >= '0' && name[end - 1] <= '9')
            end--;
        if (end && end < n && name[end - 1] == '.')
            end--;
        else
            end = n;
        for (size_t i = 0; suffixes[i] && !again; i++) {
            size_t k = strlen(suffixes[i]);
            if (end > k && !memcmp(name + end - k, suffixes[i], k)) {
                n = end - k;
                again = true;
            }
        }
    }
    return n;
}

size_t same_module(const char *module)
{
    const char *so = strstr(module, ".so");
    return so && (!so[3] || so[3] == '.') ? (size_t)(so + 3 - module) : strlen(module);
}
