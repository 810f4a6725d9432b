/* Row numbers in the order of their times. */
#ifndef RF_ENGINE_SORT_H
#define RF_ENGINE_SORT_H

#include <stdint.h>

/* Sorts n row numbers by times[row], rising; rows of one time keep the order that they have. Any
 * times, INT64_MIN and MAX included; linear when they lie evenly, n log n whatever they are.
 *
 * tmp    n entries, left with anything in them
 * count  n + 1 entries, likewise
 * Thread: any; never allocates. */
void sort_rows(uint32_t *rows, uint32_t n, const int64_t *times, uint32_t *tmp, uint32_t *count);

#endif
