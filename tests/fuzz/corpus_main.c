/* Runs a fuzz target over its corpus without libFuzzer, so that every build's ctest does: each file
 * whole, cut at every byte, and with every bit flipped, up to a limit of runs for each file. A target
 * whose runs take long sets a lower one. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FILE_BYTES_MAX = 16 << 20 };
extern const unsigned fuzz_runs_a_file;
__attribute__((weak)) const unsigned fuzz_runs_a_file = 20000;
static uint64_t runs;

/* In memory of its exact size, so that a sanitizer sees a read past its end. */
static void run(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes != 0 ? bytes : 1);
    if (copy == NULL) abort();
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
    runs++;
}

/* Every cut and flip where they are few enough; else evenly spread ones. */
static void run_variants(uint8_t *data, size_t bytes)
{
    size_t step = 1 + bytes * 9 / fuzz_runs_a_file;
    run(data, bytes);
    for (size_t cut = 0; cut < bytes; cut += step)
        run(data, cut);
    for (size_t bit = 0; bit < bytes * 8; bit += step) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        run(data, bytes);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(FILE_BYTES_MAX);
    if (f == NULL || data == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    size_t bytes = fread(data, 1, FILE_BYTES_MAX, f);
    fclose(f);
    run_variants(data, bytes);
    free(data);
    return 1;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run_directory(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    for (int i = 0; i < count; i++) {
        char *file;
        if (asprintf(&file, "%s/%s", path, entries[i]->d_name) < 0) abort();
        run_file(file);
        free(file);
        free(entries[i]);
    }
    free(entries);
    return count;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        int is_directory = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        files += is_directory ? run_directory(argv[i]) : run_file(argv[i]);
    }
    printf("%d files, %" PRIu64 " runs\n", files, runs);
    if (files == 0) fprintf(stderr, "no input: a fuzz target needs a corpus\n");
    return files != 0 ? 0 : 1;
}
