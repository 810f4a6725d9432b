/* Whether a recorded history is linearizable: whether there is one order of its operations that
 * keeps real time (what had returned before another began comes before it) and in which each read
 * finds what the writes and deletes before it left. The object is a row of cells that are written,
 * emptied and read several at a time, each operation as a whole: so it is one check that the last
 * write wins, that nothing comes back, and that no batch is seen in part.
 *
 * The search is that of Wing and Gong, with the states that were tried already remembered (Lowe).
 * Time and memory grow with what runs side by side, not with the length. */
#ifndef LINEAR_H
#define LINEAR_H

#include <stdbool.h>
#include <stdint.h>

#define LINEAR_CELLS   8
#define LINEAR_OPS_MAX 512

enum linear_kind { LINEAR_WRITE, LINEAR_DELETE, LINEAR_READ };

struct linear_op {
    enum linear_kind kind;
    int thread;                  /* for people */
    int64_t begin, end;          /* of one clock; LINEAR_NEVER: the outcome is not known */
    uint32_t cells;              /* bits: those that it touches */
    int32_t value[LINEAR_CELLS]; /* written or read; 0: empty */
};
#define LINEAR_NEVER INT64_MAX

enum linear_answer { LINEAR_YES, LINEAR_NO, LINEAR_GAVE_UP /* more states than memory is given */ };

/* All cells are empty before the first operation. ops in any order, n <= LINEAR_OPS_MAX. */
enum linear_answer linear_check(const struct linear_op *ops, uint32_t n);

/* One line an operation, by the time of its begin, on stderr. */
void linear_print(const struct linear_op *ops, uint32_t n);

#endif
