/* page.c - Writes the parts of a fleet page that the JSON report does not have: the selection,
 * and shares by host, service and label. */
#include "fleet/page.h"

#include <stdlib.h>
#include <string.h>

#include "fleet/answers.h"
#include "fleet/show.h"

enum { PARTS = 1000 };

static void write_label(struct json *j, const struct fleet_label *l)
{
    char *key = strndup(l->key, l->key_bytes);
    json_open_object(j, NULL);
    json_text(j, "key", key ? key : "");
    json_text(j, "value", l->value);
    json_close_object(j);
    free(key);
}

void page_selection(struct json *j, const struct fleet_selection *of)
{
    json_open_object(j, "selection");
    for (size_t i = 0; i < FLEET_FACTS; i++)
        if (fleet_fact_of(of, &fleet_facts[i]))
            json_text(j, fleet_facts[i].column, fleet_fact_of(of, &fleet_facts[i]));
    if (of->since_ns)
        json_signed(j, "since_ns", of->since_ns);
    if (of->until_ns)
        json_signed(j, "until_ns", of->until_ns);
    if (of->label_count) {
        json_open_array(j, "labels");
        for (size_t i = 0; i < of->label_count; i++)
            write_label(j, &of->labels[i]);
        json_close_array(j);
    }
    json_close_object(j);
}

void page_head(struct json *j, const struct fleet_selection *of, const struct store_totals *t)
{
    page_selection(j, of);
    json_number(j, "calls", t->figures.calls);
}

static int write_part(struct json *j, struct fleet_store *store, const struct fleet_selection *of,
                      enum metric by, const struct fleet_group *group, struct error *err)
{
    struct answers parts = {0};
    struct store_query asked = {
        .what = ASK_PARTS, .of = of, .by = by, .group = group, .top = PARTS};
    const int status = answers_ask(&parts, store, &asked, false, err);
    json_open_object(j, NULL);
    json_text(j, "by", show_metric(by));
    json_open_array(j, "groups");
    for (size_t i = 0; i < parts.count && !status; i++) {
        json_open_object(j, NULL);
        json_text(j, "group", parts.items[i].text);
        table_fields(j, TABLE(spread_columns), &parts.items[i]);
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "groups_total", parts.total);
    json_close_object(j);
    answers_release(&parts);
    return status;
}

static int write_parts(struct json *j, struct fleet_store *store, const struct fleet_selection *of,
                       const char *name, struct error *err)
{
    struct fleet_group group;
    int status = fleet_parse_group(name, &group) ? 0 : error_memory(err);
    json_open_object(j, NULL);
    json_text(j, "group_by", name);
    json_open_array(j, "figures");
    for (int by = 0; by < METRICS && !status; by++)
        status = write_part(j, store, of, (enum metric)by, &group, err);
    json_close_array(j);
    json_close_object(j);
    return status;
}

int page_parts(struct json *j, struct fleet_store *store, const struct fleet_selection *of,
               const struct fleet_question *q, struct error *err)
{
    struct buffer label = {0};
    int status = 0;
    buffer_printf(&label, "label.%s", q->group.label ? q->group.label : "version");
    if (buffer_failed(&label))
        status = error_memory(err);
    json_open_array(j, "parts");
    for (size_t i = 0; i < FLEET_FACTS && !status; i++)
        status = write_parts(j, store, of, fleet_facts[i].name, err);
    if (!status)
        status = write_parts(j, store, of, buffer_text(&label), err);
    json_close_array(j);
    buffer_release(&label);
    return status;
}
