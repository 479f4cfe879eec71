/* text_list.h - several texts that were given for one option. The array is the owner's, the texts
 * are borrowed. */
#ifndef MALLOW_BASE_TEXT_LIST_H
#define MALLOW_BASE_TEXT_LIST_H

#include <stddef.h>

struct text_list {
    const char **items;
    size_t count;
};

#endif
