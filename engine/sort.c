/* Times of measurements mostly lie evenly: then the place of a row follows from its time alone. So
 * rows go into as many buckets as there are rows, by a counting sort that keeps their order, and what
 * shares a bucket is put right by insertion. Where times crowd into few buckets insertion would cost
 * their square; that is seen while they are counted, and a merge sort takes over. */
#include "engine/sort.h"

#include <stdbool.h>
#include <string.h>

/* Below this a merge sort, which needs no counting, costs less. */
#define SPREAD_ROWS_MIN 16u
/* Rows that share buckets, squared and summed, for each row: even times have 1, random ones 2. */
#define SPREAD_CROWD_MAX 6u

static void merge_sort(uint32_t *rows, uint32_t n, const int64_t *times, uint32_t *tmp)
{
    uint32_t *from = rows, *to = tmp;
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t at = 0; at < n; at += 2 * width) {
            uint32_t mid = at + width < n ? at + width : n;
            uint32_t end = mid + width < n ? mid + width : n;
            uint32_t i = at, j = mid, k = at;
            while (i < mid && j < end)
                to[k++] = times[from[j]] < times[from[i]] ? from[j++] : from[i++];
            while (i < mid)
                to[k++] = from[i++];
            while (j < end)
                to[k++] = from[j++];
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != rows) memcpy(rows, from, n * sizeof *rows);
}

/* From times to buckets 0..n - 1, never falling: (time - first) >> shift, times factor, >> 32. */
struct spread {
    uint64_t first;
    uint32_t shift;
    uint64_t factor;
};

static inline uint32_t bucket_of(const struct spread *s, int64_t time)
{
    /* As unsigned numbers the difference is right even between INT64_MIN and MAX. */
    return (uint32_t)((((uint64_t)time - s->first) >> s->shift) * s->factor >> 32);
}

static struct spread spread_over(int64_t first, int64_t last, uint32_t n)
{
    uint64_t range = (uint64_t)last - (uint64_t)first;
    struct spread s = {.first = (uint64_t)first};
    while (range >> s.shift > UINT32_MAX)
        s.shift++;
    /* (range >> shift) * factor < n << 32: the last time is in the last bucket, and nothing above 64
     * bits is lost, n being below 2^32. */
    s.factor = ((uint64_t)n << 32) / ((range >> s.shift) + 1);
    return s;
}

/* Leaves in count[b] where bucket b begins. False: too many rows share a bucket. */
static bool count_buckets(const uint32_t *rows, uint32_t n, const int64_t *times,
                          const struct spread *s, uint32_t *count)
{
    memset(count, 0, ((size_t)n + 1) * sizeof *count);
    for (uint32_t i = 0; i < n; i++)
        count[bucket_of(s, times[rows[i]])]++;
    uint64_t crowd = 0;
    for (uint32_t b = 0, begin = 0; b < n; b++) {
        uint32_t in_it = count[b];
        crowd += (uint64_t)in_it * in_it;
        count[b] = begin;
        begin += in_it;
    }
    return crowd <= (uint64_t)SPREAD_CROWD_MAX * n;
}

static void insertion_sort(uint32_t *rows, uint32_t n, const int64_t *times)
{
    for (uint32_t i = 1; i < n; i++) {
        uint32_t row = rows[i], at = i;
        int64_t time = times[row];
        for (; at > 0 && times[rows[at - 1]] > time; at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

void sort_rows(uint32_t *rows, uint32_t n, const int64_t *times, uint32_t *tmp, uint32_t *count)
{
    if (n < 2) return;
    int64_t first = times[rows[0]], last = first, before = first;
    bool sorted = true;
    for (uint32_t i = 1; i < n; i++) {
        int64_t time = times[rows[i]];
        sorted = sorted && time >= before;
        first = time < first ? time : first;
        last = time > last ? time : last;
        before = time;
    }
    if (sorted) return;
    struct spread s = spread_over(first, last, n);
    if (n < SPREAD_ROWS_MIN || !count_buckets(rows, n, times, &s, count)) {
        merge_sort(rows, n, times, tmp);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        tmp[count[bucket_of(&s, times[rows[i]])]++] = rows[i];
    memcpy(rows, tmp, n * sizeof *rows);
    insertion_sort(rows, n, times);
}
