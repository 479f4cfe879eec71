/* frame.c - Reads a frame from the JSON that a store holds, and computes the hash that
 * identifies a path of frames across builds. */
#include "fleet/frame.h"

#include <json-c/json.h>
#include <stddef.h>
#include <string.h>

#include "fleet/hash.h"
#include "frames/same.h"

static json_object *field(json_object *o, const char *name)
{
    json_object *v;
    return json_object_object_get_ex(o, name, &v) ? v : NULL;
}

static const char *text_of(json_object *o, const char *name)
{
    const char *text = json_object_get_string(field(o, name));
    return text ? text : "";
}

int frame_parse(const char *text, struct frame *f, struct error *err)
{
    json_object *o = json_tokener_parse(text);
    if (!json_object_is_type(o, json_type_object)) {
        json_object_put(o);
        return error_set(err, ERROR_FORMAT, "the store is damaged: a frame is not a JSON object");
    }
    *f = (struct frame){.function = text_of(o, "function"),
                        .file = text_of(o, "file"),
                        .module = text_of(o, "module"),
                        .line = json_object_get_int64(field(o, "line")),
                        .inlined = json_object_get_boolean(field(o, "inlined")),
                        .unnamed = json_object_get_boolean(field(o, "unnamed")),
                        .cut = json_object_get_boolean(field(o, "cut")),
                        .document = o};
    return 0;
}

void frame_release(struct frame *f) { json_object_put(f->document); }

uint64_t frame_path(uint64_t outer, const struct name_frame *f, bool own)
{
    const char *function = f->cut ? "cut" : f->known ? f->function : "?";
    const char *module = own || !f->module ? "" : f->module;
    uint64_t h = hash_mix(7, outer);
    h = hash_bytes(h, function, f->known ? same_function(function) : strlen(function));
    return hash_end(hash_bytes(h, module, same_module(module)));
}
