/* InfluxDB's line protocol, one line at a time:
 *
 *     measurement[,tag=value]... field=value[,field=value]... time
 *
 *     cpu,host=h1,rack=r\ 7 usage=0.64,cores=8i,up=true,note="all \"well\"" 1761955200000000000
 *
 * The measurement is the table; a tag is a TAG column; a field is a FIELD column whose type is in
 * its value: 8i INT64; 8u INT64 too, if it fits; t T true True TRUE f F false False FALSE BOOLEAN;
 * "text" STRING; else DOUBLE, as a decimal number (no NaN, no infinity, no hexadecimal).
 * In names and tag values a backslash takes `,` `=` space `"` `\` literally and may stand before
 * nothing else; in quoted text it takes `"` and `\` literally and is a backslash before all else.
 * The time is an integer and must be there: (tags, time) is what makes a row the same row when a
 * file is loaded again. A line ends at its LF, a CR before it goes along; text can't hold a LF.
 * Empty lines, and those that begin with #, hold nothing.
 *
 * What this does not see is a name that is there twice: the batch does, see cli/batch.h. */
#ifndef RF_CLI_LP_H
#define RF_CLI_LP_H

#include "cli/row.h"
#include "cli/timefmt.h"

enum lp_result { LP_ROW, LP_NOTHING, LP_BAD };

/* line: without its LF. row_out has the row after LP_ROW; bad why and where after LP_BAD. */
enum lp_result lp_parse(struct text line, const struct timefmt *time, struct row *row_out,
                        struct bad *bad);

#endif
