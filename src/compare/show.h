/* show.h - comparisons as tables for people. */
#ifndef MALLOW_COMPARE_SHOW_H
#define MALLOW_COMPARE_SHOW_H

#include "base/buffer.h"
#include "compare/comparison.h"
#include "compare/corpus.h"

/* A table for people; `color` for best and worst. With fewer than 120 `columns` it has the CPU
 * time and the peak only. */
void comparison_print(const struct comparison *c, const struct comparison_plan *plan, bool color,
                      unsigned columns);

/* Appends one figure in `unit` with its mark and, when `ratio`, how it differs; 12 or 26 columns.
 */
void comparison_cell(struct buffer *line, const struct cell *k, enum comparison_metric metric,
                     double unit, bool ratio, bool color);

/* Prints and empties a line of a table, without the blanks at its end. */
void comparison_print_line(struct buffer *line);

/* Columns that a text takes: the bytes that do not continue a character. */
int comparison_columns(const char *text);

/* "-8.3 ±0.8%", or "= ±0.8%" when no difference is sure; empty when nothing is known. */
#define COMPARISON_TEXT_BYTES 64
const char *comparison_ratio_text(char out[COMPARISON_TEXT_BYTES], const struct stats_ratio *r);

/* A figure with its unit: "745.0 ms", "92.1 MB", "1.12". */
const char *comparison_value_text(char out[COMPARISON_TEXT_BYTES], enum comparison_metric metric,
                                  double value);

/* The same for all workloads of a corpus: a table of the CPU time, and one of the peak. */
void corpus_print(const struct corpus *c, const struct comparison *all, bool color);

#endif
