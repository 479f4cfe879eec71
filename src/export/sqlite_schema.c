#include "export/sqlite_schema.h"

const char sqlite_tables[] =
    "CREATE TABLE recording(file TEXT, host TEXT, recorded_by TEXT, start_realtime_ns INTEGER);"
    "CREATE TABLE process(id INTEGER PRIMARY KEY, pid INTEGER, ppid INTEGER, exe TEXT, command "
    "TEXT,"
    " allocator TEXT, start_ns INTEGER, end_ns INTEGER, complete INTEGER, calls INTEGER,"
    " lost_calls INTEGER);"
    "CREATE TABLE thread(process INTEGER, id INTEGER, tid INTEGER, name TEXT, start_ns INTEGER,"
    " end_ns INTEGER, calls INTEGER, PRIMARY KEY(process, id)) WITHOUT ROWID;"
    "CREATE TABLE module(process INTEGER, id INTEGER, path TEXT, build_id TEXT, start INTEGER,"
    " end INTEGER, bias INTEGER, PRIMARY KEY(process, id)) WITHOUT ROWID;"
    "CREATE TABLE stack(process INTEGER, id INTEGER, parent INTEGER, pc INTEGER, module INTEGER,"
    " PRIMARY KEY(process, id)) WITHOUT ROWID;"
    "CREATE TABLE frame(process INTEGER, stack INTEGER, depth INTEGER, function TEXT, file TEXT,"
    " line INTEGER, module TEXT, inlined INTEGER, PRIMARY KEY(process, stack, depth)) WITHOUT "
    "ROWID;"
    "CREATE TABLE site(process INTEGER, stack INTEGER, calls INTEGER, allocated_bytes INTEGER,"
    " peak_bytes INTEGER, peak_blocks INTEGER, end_live_bytes INTEGER, end_live_blocks INTEGER,"
    " temporary INTEGER, call_site INTEGER, text TEXT, PRIMARY KEY(process, stack)) WITHOUT ROWID;"
    /* where a person would look first in a stack */
    "CREATE TABLE call_site(process INTEGER, id INTEGER, function TEXT, file TEXT, line INTEGER,"
    " module TEXT, PRIMARY KEY(process, id)) WITHOUT ROWID;"
    /* classes that size and lifetime are counted by, as in a report */
    "CREATE TABLE size_class(min_bytes INTEGER PRIMARY KEY, max_bytes INTEGER);"
    "CREATE TABLE lifetime_class(min_ns INTEGER PRIMARY KEY, max_ns INTEGER);"
    "CREATE TABLE block(process INTEGER, call TEXT, thread INTEGER, size_bytes INTEGER,"
    " usable_bytes INTEGER, address INTEGER, stack INTEGER, allocated_ns INTEGER, freed_ns INTEGER,"
    " freed_by INTEGER, temporary INTEGER);"
    "CREATE TABLE other_call(process INTEGER, time_ns INTEGER, thread INTEGER, call TEXT,"
    " kind TEXT, address INTEGER, size_bytes INTEGER, argument INTEGER, stack INTEGER, failed "
    "INTEGER);"
    "CREATE TABLE mark(process INTEGER, time_ns INTEGER, thread INTEGER, label TEXT);"
    "CREATE TABLE resident(process INTEGER, time_ns INTEGER, vmsize_bytes INTEGER, rss_bytes "
    "INTEGER,"
    " shared_bytes INTEGER);"
    /* the innermost frame of each stack, to join with */
    "CREATE VIEW place AS SELECT process, stack, function, file, line, module FROM frame WHERE "
    "depth = 0;";

const char sqlite_indexes[] = "CREATE INDEX block_by_stack ON block(process, stack);"
                              "CREATE INDEX block_by_time ON block(process, allocated_ns);"
                              "CREATE INDEX other_call_by_time ON other_call(process, time_ns);"
                              "CREATE INDEX site_by_call_site ON site(process, call_site);"
                              "CREATE INDEX frame_by_function ON frame(function);";

/* Call sites by one figure: NAME, the figure and its number of blocks or calls. */
#define BY_CALL_SITE(view, figure, as, count, counted)                                             \
    "CREATE VIEW " view " AS SELECT p.pid, sum(s." figure ") AS " as ", sum(s." count              \
    ") AS " counted ", c.function, c.file, c.line, c.module, count(*) AS stacks FROM site s "      \
    "JOIN process p ON p.id = s.process LEFT JOIN call_site c ON c.process = s.process AND c.id "  \
    "= s.call_site WHERE s." figure " > 0 GROUP BY s.process, s.call_site ORDER BY 2 DESC;"

/* Blocks that a process inherited were made by no call of it. */
#define MADE_HERE "b.allocated_ns > p.start_ns"

const char sqlite_views[] =
    BY_CALL_SITE("leaks", "end_live_bytes", "bytes", "end_live_blocks",
                 "blocks") BY_CALL_SITE("at_peak", "peak_bytes", "bytes", "peak_blocks", "blocks")
        BY_CALL_SITE("allocators", "allocated_bytes", "bytes", "calls", "calls") BY_CALL_SITE(
            "temporaries", "temporary", "blocks", "calls",
            "calls") "CREATE VIEW leaking_stacks AS SELECT p.pid, s.end_live_bytes AS bytes, "
                     "s.end_live_blocks AS "
                     "blocks, s.text FROM site s JOIN process p ON p.id = s.process WHERE "
                     "s.end_live_blocks > 0 "
                     "ORDER BY 2 DESC;"
                     "CREATE VIEW sizes AS SELECT pid, c.min_bytes, c.max_bytes, calls, bytes FROM "
                     "(SELECT p.pid AS "
                     "pid, (SELECT max(min_bytes) FROM size_class WHERE min_bytes <= b.size_bytes) "
                     "AS class, "
                     "count(*) AS calls, sum(b.size_bytes) AS bytes FROM block b JOIN process p ON "
                     "p.id = b.process "
                     "WHERE " MADE_HERE
                     " GROUP BY p.id, class) JOIN size_class c ON c.min_bytes = class;"
                     "CREATE VIEW lifetimes AS SELECT pid, c.min_ns, c.max_ns, blocks, bytes FROM "
                     "(SELECT p.pid AS "
                     "pid, (SELECT max(min_ns) FROM lifetime_class WHERE min_ns <= b.freed_ns - "
                     "b.allocated_ns) AS "
                     "class, count(*) AS blocks, sum(b.size_bytes) AS bytes FROM block b JOIN "
                     "process p ON p.id = "
                     "b.process WHERE b.freed_ns IS NOT NULL AND " MADE_HERE
                     " GROUP BY p.id, class) JOIN "
                     "lifetime_class c ON c.min_ns = class;"
                     "CREATE VIEW threads AS SELECT p.pid, t.tid, t.name, count(*) AS allocations, "
                     "sum(b.size_bytes) AS bytes, sum(b.temporary) AS temporary, "
                     "ifnull(sum(b.freed_by <> "
                     "b.thread), 0) AS released_by_others FROM block b JOIN process p ON p.id = "
                     "b.process JOIN "
                     "thread t ON t.process = b.process AND t.id = b.thread WHERE " MADE_HERE
                     " GROUP BY p.id, t.id ORDER BY 5 DESC;"
                     "CREATE VIEW failures AS SELECT p.pid, o.call, count(*) AS calls, "
                     "max(o.size_bytes) AS "
                     "largest_bytes FROM other_call o JOIN process p ON p.id = o.process WHERE "
                     "o.failed GROUP BY "
                     "p.id, o.call ORDER BY 3 DESC;"
                     "CREATE VIEW live_at_marks AS SELECT p.pid, m.label, m.time_ns, "
                     "ifnull(sum(b.size_bytes), 0) "
                     "AS bytes, count(b.size_bytes) AS blocks FROM mark m JOIN process p ON p.id = "
                     "m.process LEFT "
                     "JOIN block b ON b.process = m.process AND b.allocated_ns <= m.time_ns AND "
                     "(b.freed_ns IS NULL "
                     "OR b.freed_ns > m.time_ns) GROUP BY m.rowid ORDER BY m.time_ns;";
