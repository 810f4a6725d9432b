/* A fresh directory for one test, under $TMPDIR or /tmp, removed with all in it. */
#ifndef RF_TESTS_TEMPDIR_H
#define RF_TESTS_TEMPDIR_H

#include <stddef.h>

#define TEMPDIR_BYTES 256

/* Fails the test when it cannot. path_out: at least TEMPDIR_BYTES. */
void tempdir_make(char *path_out);
void tempdir_remove(const char *path);

#endif
