#include "tests/lib/tempdir.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

void tempdir_make(char *path_out)
{
    const char *parent = getenv("TMPDIR");
    snprintf(path_out, TEMPDIR_BYTES, "%s/rf-test-XXXXXX", parent != NULL ? parent : "/tmp");
    assert_non_null(mkdtemp(path_out));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void tempdir_remove(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
