/* sqlite_schema.h - the tables, indexes and views of an exported database. */
#ifndef MALLOW_EXPORT_SQLITE_SCHEMA_H
#define MALLOW_EXPORT_SQLITE_SCHEMA_H

/* SQL that makes the tables, of an empty database. */
extern const char sqlite_tables[];
/* SQL for when all rows are there: indexes cost least then. Views answer a question in a line. */
extern const char sqlite_indexes[];
extern const char sqlite_views[];

#endif
