/* ringfence-compare: the engine against the bare device, memory and its peers. */
#include "bench/macro/bench.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "Usage: ringfence-compare --dir DIR [--quick] [--only PREFIX] [--json FILE]\n"
    "\n"
    "Measures the rows of bench/rows.def as interleaved pairs. DIR is made and must not exist; "
    "about\n"
    "8 GB are written below it and removed again, and 4 GB of memory are used.\n"
    "  --quick          fewer and shorter runs: less than five minutes, build included\n"
    "  --only PREFIX    the rows whose id begins with it\n"
    "  --json FILE      the report (bench-report.json)\n";

static const char *value_of(char **argv, int *i)
{
    if (argv[*i + 1] == NULL) die("%s needs a value", argv[*i]);
    return argv[++*i];
}

int main(int argc, char **argv)
{
    struct bench bench = {.dir = NULL};
    const char *json = "bench-report.json";
    (void)argc;
    for (int i = 1; argv[i] != NULL; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            bench.quick = true;
        else if (strcmp(argv[i], "--dir") == 0)
            bench.dir = value_of(argv, &i);
        else if (strcmp(argv[i], "--only") == 0)
            bench.only = value_of(argv, &i);
        else if (strcmp(argv[i], "--json") == 0)
            json = value_of(argv, &i);
        else
            return fputs(usage, strcmp(argv[i], "--help") == 0 ? stdout : stderr),
                   strcmp(argv[i], "--help") == 0 ? 0 : 2;
    }
    if (bench.dir == NULL) return fputs(usage, stderr), 2;
    if (mkdir(bench.dir, 0755) != 0) die("%s can't be made, or is there already", bench.dir);
    rows_durable(&bench);
    rows_burst(&bench);
    rows_lease(&bench);
    rows_other(&bench);
    report_write(&bench, json);
    remove_tree(bench.dir);
    return 0;
}
