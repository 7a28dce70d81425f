/* What the harnesses share. A harness is fuzz_NAME.c with LLVMFuzzerTestOneInput; its seeds are in corpus/NAME,
 * what once failed in regressions/NAME, its words in NAME.dict. Nothing goes to a disk: files are in memory,
 * folders on tmpfs. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "scion_advanced.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A law of the program: breaking it is a finding. */
#define fuzz_require(law)                                                            \
    do {                                                                             \
        if (!(law)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #law); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

/* A refusal says why: one sentence, ended within its array. */
void fuzz_require_sentence(const scion_error *err);

/* The path of a file in memory with these bytes, until the next call with the same slot. */
enum { FUZZ_FILES = 4 };
const char *fuzz_file(int slot, const void *bytes, size_t size);

/* An empty folder on tmpfs that goes with the process, and a file in it; NULL bytes: no such file. */
const char *fuzz_folder(void);
void fuzz_put(const char *name, const void *bytes, size_t size);

/* The input, taken from its front. At its end there are zeros, and no bytes. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *in);
/* Everything before the next byte `end`, which is passed over; all that is left if there is none. */
fuzz_input fuzz_part(fuzz_input *in, uint8_t end);
/* The next line, ended by a 0, which the caller frees; NULL: no more. */
char *fuzz_line(fuzz_input *in);

#endif
