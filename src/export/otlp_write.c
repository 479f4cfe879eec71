/* otlp_write.c - see otlp_write.h. Names of fields are those of the .proto files. */
#include "export/otlp_write.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zlib.h>

#include "base/strings.h"
#include "base/text.h"
#include "export/protobuf.h"

enum { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY = 2 };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_VALUE_STRING = 1, ANY_VALUE_INT = 3 };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES = 2 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum {
    DICTIONARY_MAPPING = 1,
    DICTIONARY_LOCATION = 2,
    DICTIONARY_FUNCTION = 3,
    DICTIONARY_LINK = 4,
    DICTIONARY_STRING = 5,
    DICTIONARY_ATTRIBUTE = 6,
    DICTIONARY_STACK = 7
};
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLES = 2,
    PROFILE_TIME_UNIX_NANO = 3,
    PROFILE_DURATION_NANO = 4,
    PROFILE_PERIOD_TYPE = 5,
    PROFILE_PERIOD = 6,
    PROFILE_ID = 7
};
enum { PROFILE_ID_BYTES = 16 };
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum { SAMPLE_STACK = 1, SAMPLE_VALUES = 4 };
enum {
    MAPPING_START = 1,
    MAPPING_LIMIT = 2,
    MAPPING_OFFSET = 3,
    MAPPING_FILENAME = 4,
    MAPPING_ATTRIBUTES = 5
};
enum { LOCATION_MAPPING = 1, LOCATION_ADDRESS = 2, LOCATION_LINES = 3 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_NAME = 1, FUNCTION_SYSTEM_NAME = 2, FUNCTION_FILENAME = 3 };
enum { STACK_LOCATIONS = 1 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE = 2 };
enum { RESPONSE_PARTIAL_SUCCESS = 1, PARTIAL_SUCCESS_REJECTED = 1 };

#define BUILD_ID_KEY "process.executable.build_id.gnu"

struct function {
    uint64_t name, system_name, file;
};

struct otlp {
    bool failed;
    struct strings strings, functions;
    uint64_t mappings, locations, stacks, attributes;
    struct buffer dictionary, resource, profiles;
    struct buffer profile; /* the one that samples belong to */
    bool has_profile;
    struct buffer message, inner, packed, clean; /* scratch */
};

static uint64_t otlp_string(struct otlp *o, const char *text)
{
    bool fresh;
    if (!text || !*text || o->failed)
        return 0;
    text = text_utf8_only(&o->clean, text);
    const uint32_t id = strings_id(&o->strings, text, strlen(text), &fresh);
    o->failed |= !id;
    if (id && fresh)
        protobuf_text(&o->dictionary, DICTIONARY_STRING, text);
    return id;
}

struct otlp *otlp_new(struct error *err)
{
    /* A link of nothing is written out: some readers insist on the lengths of its two ids. */
    static const char no_link[] = "\x0a\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x12\x08\0\0\0\0\0\0\0";
    static const unsigned tables[] = {DICTIONARY_MAPPING, DICTIONARY_LOCATION,  DICTIONARY_FUNCTION,
                                      DICTIONARY_STRING,  DICTIONARY_ATTRIBUTE, DICTIONARY_STACK};
    struct otlp *o = calloc(1, sizeof *o);
    if (!o) {
        error_memory_for(err, "a profile");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        protobuf_bytes(&o->dictionary, tables[i], NULL, 0);
    protobuf_bytes(&o->dictionary, DICTIONARY_LINK, no_link, sizeof no_link);
    return o;
}

/* ---- the resource ---- */

/* The message KeyValue, of whose value `inner` holds the AnyValue. */
static void add_attribute(struct otlp *o, const char *key)
{
    buffer_clear(&o->message);
    protobuf_text(&o->message, KEY_VALUE_KEY, key);
    protobuf_buffer(&o->message, KEY_VALUE_VALUE, &o->inner);
    protobuf_buffer(&o->resource, RESOURCE_ATTRIBUTES, &o->message);
}

void otlp_attribute(struct otlp *o, const char *key, const char *text)
{
    buffer_clear(&o->inner);
    protobuf_text(&o->inner, ANY_VALUE_STRING, text_utf8_only(&o->clean, text));
    add_attribute(o, key);
}

void otlp_attribute_number(struct otlp *o, const char *key, int64_t number)
{
    buffer_clear(&o->inner);
    protobuf_varint(&o->inner, ANY_VALUE_INT << 3); /* a choice of 0 is written, too */
    protobuf_varint(&o->inner, (uint64_t)number);
    add_attribute(o, key);
}

/* ---- the dictionary ---- */

/* The index of an attribute with this build id. */
static uint64_t build_id(struct otlp *o, const struct pprof_mapping *m)
{
    const uint64_t key = otlp_string(o, BUILD_ID_KEY);
    buffer_clear(&o->packed);
    for (size_t i = 0; i < m->build_id_bytes; i++)
        buffer_printf(&o->packed, "%02x", m->build_id[i]);
    buffer_clear(&o->inner);
    protobuf_buffer(&o->inner, ANY_VALUE_STRING, &o->packed);
    buffer_clear(&o->message);
    protobuf_number(&o->message, ATTRIBUTE_KEY, key);
    protobuf_buffer(&o->message, ATTRIBUTE_VALUE, &o->inner);
    protobuf_buffer(&o->dictionary, DICTIONARY_ATTRIBUTE, &o->message);
    return ++o->attributes;
}

uint64_t otlp_mapping(struct otlp *o, const struct pprof_mapping *m)
{
    const uint64_t path = otlp_string(o, m->path);
    const uint64_t attribute = m->build_id && m->build_id_bytes ? build_id(o, m) : 0;
    buffer_clear(&o->message);
    protobuf_number(&o->message, MAPPING_START, m->start);
    protobuf_number(&o->message, MAPPING_LIMIT, m->limit);
    protobuf_number(&o->message, MAPPING_OFFSET, m->offset);
    protobuf_number(&o->message, MAPPING_FILENAME, path);
    if (attribute) {
        buffer_clear(&o->packed);
        protobuf_varint(&o->packed, attribute);
        protobuf_buffer(&o->message, MAPPING_ATTRIBUTES, &o->packed);
    }
    protobuf_buffer(&o->dictionary, DICTIONARY_MAPPING, &o->message);
    return o->failed ? 0 : ++o->mappings;
}

static uint64_t otlp_function(struct otlp *o, const struct pprof_line *l)
{
    bool fresh;
    const struct function f = {otlp_string(o, l->function), otlp_string(o, l->system_name),
                               otlp_string(o, l->file)};
    if (o->failed)
        return 0;
    const uint32_t id = strings_id(&o->functions, &f, sizeof f, &fresh);
    o->failed |= !id;
    if (id && fresh) {
        buffer_clear(&o->packed);
        protobuf_number(&o->packed, FUNCTION_NAME, f.name);
        protobuf_number(&o->packed, FUNCTION_SYSTEM_NAME, f.system_name);
        protobuf_number(&o->packed, FUNCTION_FILENAME, f.file);
        protobuf_buffer(&o->dictionary, DICTIONARY_FUNCTION, &o->packed);
    }
    return id;
}

uint64_t otlp_location(struct otlp *o, uint64_t mapping, uint64_t address,
                       const struct pprof_line *lines, size_t line_count)
{
    buffer_clear(&o->message);
    protobuf_number(&o->message, LOCATION_MAPPING, mapping);
    protobuf_number(&o->message, LOCATION_ADDRESS, address);
    for (size_t i = 0; i < line_count; i++) {
        const uint64_t id = otlp_function(o, &lines[i]);
        buffer_clear(&o->inner);
        protobuf_number(&o->inner, LINE_FUNCTION, id);
        protobuf_number(&o->inner, LINE_LINE, lines[i].line);
        protobuf_buffer(&o->message, LOCATION_LINES, &o->inner);
    }
    protobuf_buffer(&o->dictionary, DICTIONARY_LOCATION, &o->message);
    return o->failed ? 0 : ++o->locations;
}

uint64_t otlp_stack(struct otlp *o, const uint64_t *locations, size_t count)
{
    buffer_clear(&o->packed);
    for (size_t i = 0; i < count; i++)
        protobuf_varint(&o->packed, locations[i]);
    buffer_clear(&o->message);
    protobuf_buffer(&o->message, STACK_LOCATIONS, &o->packed);
    protobuf_buffer(&o->dictionary, DICTIONARY_STACK, &o->message);
    return o->failed ? 0 : ++o->stacks;
}

/* ---- profiles ---- */

static void otlp_put_value_type(struct otlp *o, unsigned field, const char *type, const char *unit)
{
    const uint64_t t = otlp_string(o, type), u = otlp_string(o, unit);
    buffer_clear(&o->message);
    protobuf_number(&o->message, VALUE_TYPE_TYPE, t);
    protobuf_number(&o->message, VALUE_TYPE_UNIT, u);
    protobuf_buffer(&o->profile, field, &o->message);
}

static void end_profile(struct otlp *o)
{
    if (o->has_profile)
        protobuf_buffer(&o->profiles, SCOPE_PROFILES_PROFILES, &o->profile);
    buffer_clear(&o->profile);
    o->has_profile = false;
}

void otlp_profile(struct otlp *o, const struct otlp_profile *p)
{
    unsigned char id[PROFILE_ID_BYTES];
    end_profile(o);
    o->has_profile = true;
    otlp_put_value_type(o, PROFILE_SAMPLE_TYPE, p->type, p->unit);
    protobuf_fixed64(&o->profile, PROFILE_TIME_UNIX_NANO, p->time_ns);
    protobuf_number(&o->profile, PROFILE_DURATION_NANO, p->duration_ns);
    otlp_put_value_type(o, PROFILE_PERIOD_TYPE, p->period_type, p->period_unit);
    protobuf_number(&o->profile, PROFILE_PERIOD, (uint64_t)p->period);
    if (getrandom(id, sizeof id, 0) == (ssize_t)sizeof id) /* a server knows it again by this */
        protobuf_bytes(&o->profile, PROFILE_ID, id, sizeof id);
}

void otlp_sample(struct otlp *o, uint64_t stack, int64_t value)
{
    buffer_clear(&o->packed);
    protobuf_varint(&o->packed, (uint64_t)value);
    buffer_clear(&o->message);
    protobuf_number(&o->message, SAMPLE_STACK, stack);
    protobuf_buffer(&o->message, SAMPLE_VALUES, &o->packed);
    protobuf_buffer(&o->profile, PROFILE_SAMPLES, &o->message);
}

/* ---- the request ---- */

static int write_zipped(FILE *out, const struct buffer *b, struct error *err)
{
    z_stream zip = {0};
    /* 16 more than the window's bits: with gzip's head and tail */
    if (deflateInit2(&zip, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return error_memory_for(err, "a profile");
    const uLong room = deflateBound(&zip, b->size_bytes);
    Bytef *zipped = malloc(room);
    int status = 0;
    zip.next_in = (const Bytef *)b->data;
    zip.avail_in = (uInt)b->size_bytes;
    zip.next_out = zipped;
    zip.avail_out = (uInt)room;
    if (b->size_bytes > UINT32_MAX / 2)
        status = error_set(err, ERROR_UNSUPPORTED, "the profile has more than 2 GB");
    else if (!zipped)
        status = error_memory_for(err, "a profile");
    else if (deflate(&zip, Z_FINISH) != Z_STREAM_END)
        status = error_set(err, ERROR_FORMAT, "cannot compress the profile");
    else if (fwrite(zipped, 1, room - zip.avail_out, out) != room - zip.avail_out)
        status = error_system(err, "cannot write the profile");
    deflateEnd(&zip);
    free(zipped);
    return status;
}

static void otlp_put_request(struct otlp *o, struct buffer *request)
{
    struct buffer scope = {0}, resource = {0};
    end_profile(o);
    buffer_clear(&o->message);
    protobuf_text(&o->message, SCOPE_NAME, "mallow");
    protobuf_text(&o->message, SCOPE_VERSION, MALLOW_VERSION);
    protobuf_buffer(&scope, SCOPE_PROFILES_SCOPE, &o->message);
    buffer_append(&scope, o->profiles.data, o->profiles.size_bytes);
    scope.failed |= buffer_failed(&o->profiles);
    protobuf_buffer(&resource, RESOURCE_PROFILES_RESOURCE, &o->resource);
    protobuf_buffer(&resource, RESOURCE_PROFILES_SCOPE_PROFILES, &scope);
    protobuf_buffer(request, REQUEST_RESOURCE_PROFILES, &resource);
    protobuf_buffer(request, REQUEST_DICTIONARY, &o->dictionary);
    buffer_release(&scope);
    buffer_release(&resource);
}

int otlp_finish(struct otlp *o, FILE *out, struct error *err)
{
    struct buffer request = {0};
    int status = 0;
    if (out) {
        otlp_put_request(o, &request);
        status = o->failed || buffer_failed(&request) ? error_memory_for(err, "a profile")
                                                      : write_zipped(out, &request, err);
    }
    struct buffer *all[] = {&request,    &o->dictionary, &o->resource, &o->profiles, &o->profile,
                            &o->message, &o->inner,      &o->packed,   &o->clean};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buffer_release(all[i]);
    strings_release(&o->strings);
    strings_release(&o->functions);
    free(o);
    return status;
}

/* ---- the answer ---- */

/* False at the end, or where it is damaged. */
static bool take_varint(const unsigned char **at, const unsigned char *end, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char byte = *(*at)++;
        *v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

bool otlp_rejected(const void *answer, size_t bytes)
{
    const unsigned char *at = answer, *end = at + bytes;
    uint64_t tag, value;
    if (!take_varint(&at, end, &tag) || tag != (RESPONSE_PARTIAL_SUCCESS << 3 | 2) ||
        !take_varint(&at, end, &value))
        return false;
    return take_varint(&at, end, &tag) && tag == PARTIAL_SUCCESS_REJECTED << 3 &&
           take_varint(&at, end, &value) && value != 0;
}
